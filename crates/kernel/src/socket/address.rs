//! Addresses in the kernel's form.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{sockaddr, socklen_t};

/// An address as the kernel reads and writes it, of either family.
#[derive(Clone, Copy)]
pub(crate) struct RawAddress {
    // The larger of the two; an IPv4 address lies in its first bytes.
    storage: libc::sockaddr_in6,
    size: socklen_t,
}

#[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
const SIZE_V4: socklen_t = size_of::<libc::sockaddr_in>() as socklen_t;
#[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
const SIZE_V6: socklen_t = size_of::<libc::sockaddr_in6>() as socklen_t;

impl RawAddress {
    /// How many bytes the kernel may write.
    pub(crate) const CAPACITY: socklen_t = SIZE_V6;

    /// Room for an address.
    pub(crate) fn empty() -> Self {
        let storage = libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        };
        Self { storage, size: 0 }
    }

    pub(crate) fn pointer(&self) -> *const sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn pointer_mut(&mut self) -> *mut sockaddr {
        (&raw mut self.storage).cast()
    }

    pub(crate) fn size(&self) -> socklen_t {
        self.size
    }

    /// The kernel has written so many bytes.
    pub(crate) fn set_size(&mut self, size: socklen_t) {
        self.size = size.min(Self::CAPACITY);
    }

    /// The address, if it is of a family that we know.
    pub(crate) fn read(&self) -> Option<SocketAddr> {
        match i32::from(self.storage.sin6_family) {
            libc::AF_INET if self.size >= SIZE_V4 => {
                let raw = self.as_v4();
                let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
                Some(SocketAddr::new(ip.into(), u16::from_be(raw.sin_port)))
            }
            libc::AF_INET6 if self.size >= SIZE_V6 => {
                let raw = &self.storage;
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), 0, raw.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    #[expect(unsafe_code, reason = "an IPv4 address lies in the first bytes of the room for an IPv6 one")]
    fn as_v4(&self) -> libc::sockaddr_in {
        // SAFETY: sockaddr_in is smaller than sockaddr_in6, no stricter in alignment, and holds nothing but integers.
        unsafe { *(&raw const self.storage).cast::<libc::sockaddr_in>() }
    }
}

const _: () = assert!(size_of::<libc::sockaddr_in>() <= size_of::<libc::sockaddr_in6>());
const _: () = assert!(align_of::<libc::sockaddr_in>() <= align_of::<libc::sockaddr_in6>());

impl From<SocketAddr> for RawAddress {
    #[expect(unsafe_code, reason = "an IPv4 address lies in the first bytes of the room for an IPv6 one")]
    #[expect(clippy::cast_possible_truncation, reason = "the numbers of families")]
    fn from(address: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match address {
            SocketAddr::V4(address) => {
                let written = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: as in `as_v4`.
                unsafe { *(&raw mut raw.storage).cast::<libc::sockaddr_in>() = written };
                raw.size = SIZE_V4;
            }
            SocketAddr::V6(address) => {
                raw.storage = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                raw.size = SIZE_V6;
            }
        }
        raw
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
        raw.set_size(SIZE_V4);
        assert_eq!(raw.read(), None);
    }
}
