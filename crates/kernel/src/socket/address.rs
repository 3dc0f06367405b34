//! Addresses in the kernel's form.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::socklen_t;

/// An address as the kernel reads and writes it, of either family: `struct sockaddr_in` or `struct sockaddr_in6`, byte by byte.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
pub(super) struct RawAddress {
    bytes: [u8; SIZE_V6],
    size: usize,
}

/// The family, the port, the address, and what fills it up.
const SIZE_V4: usize = 2 + 2 + 4 + 8;
/// The family, the port, the flow, the address, the link.
const SIZE_V6: usize = 2 + 2 + 4 + 16 + 4;
const _: () =
    assert!(SIZE_V4 == size_of::<libc::sockaddr_in>() && SIZE_V6 == size_of::<libc::sockaddr_in6>());
const FAMILY_V4: [u8; 2] = 2_u16.to_ne_bytes();
const FAMILY_V6: [u8; 2] = 10_u16.to_ne_bytes();

impl RawAddress {
    /// How many bytes the kernel may write.
    #[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
    pub(super) const CAPACITY: socklen_t = SIZE_V6 as socklen_t;

    /// Room for an address.
    pub(super) fn empty() -> Self {
        Self { bytes: [0; SIZE_V6], size: 0 }
    }

    pub(super) fn pointer_mut(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    #[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
    pub(super) fn size(&self) -> socklen_t {
        self.size as socklen_t
    }

    /// The kernel has written so many bytes.
    pub(super) fn set_size(&mut self, size: socklen_t) {
        self.size = (size as usize).min(SIZE_V6);
    }

    /// The address, if it is of a family that we know.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.part(2));
        match self.part(0) {
            FAMILY_V4 if self.size >= SIZE_V4 => {
                Some(SocketAddrV4::new(Ipv4Addr::from(self.part::<4>(4)), port).into())
            }
            FAMILY_V6 if self.size >= SIZE_V6 => {
                let link = u32::from_ne_bytes(self.part(24));
                Some(SocketAddrV6::new(Ipv6Addr::from(self.part::<16>(8)), port, 0, link).into())
            }
            _ => None,
        }
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[at + i])
    }

    /// With these bytes behind those that are there.
    fn with(mut self, part: &[u8]) -> Self {
        self.bytes[self.size..self.size + part.len()].copy_from_slice(part);
        self.size += part.len();
        self
    }
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        let port = address.port().to_be_bytes();
        match address {
            SocketAddr::V4(address) => {
                Self::empty().with(&FAMILY_V4).with(&port).with(&address.ip().octets()).with(&[0; 8])
            }
            SocketAddr::V6(address) => Self::empty()
                .with(&FAMILY_V6)
                .with(&port)
                .with(&address.flowinfo().to_ne_bytes())
                .with(&address.ip().octets())
                .with(&address.scope_id().to_ne_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way_to_the_kernel_and_back() {
        for text in ["10.0.0.1:80", "[fd00::1]:443", "0.0.0.0:0", "[fe80::1%3]:53"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::from(address).read(), Some(address));
        }
        assert_eq!(RawAddress::empty().read(), None);
    }

    #[test]
    fn an_address_that_was_cut_short_is_none() {
        let mut raw = RawAddress::from("[fd00::1]:443".parse::<SocketAddr>().unwrap());
        raw.set_size(16);
        assert_eq!(raw.read(), None);
    }
}
