//! Many datagrams in one call, each with the address that it was sent to.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;

use super::address::RawAddress;

/// How many datagrams a call carries at most.
pub const BATCH: usize = 32;
/// No datagram is longer.
const SIZE_MAX: usize = 65_536;
/// Room for one control message with an address of either family.
const CONTROL_SIZE: usize = 64;

/// An address of ours: a datagram was sent to it, and the answer should come from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// The address.
    pub address: IpAddr,
    /// The link, where the address means nothing without it.
    link: u32,
}

impl Local {
    /// Reads `struct in_pktinfo`: a link, our address, and the one in the header.
    fn v4(info: &[u8]) -> Option<Self> {
        let address: [u8; 4] = info.get(4..8)?.try_into().ok()?;
        Some(Self { address: Ipv4Addr::from(address).into(), link: 0 })
    }

    /// Reads `struct in6_pktinfo`: an address and a link.
    fn v6(info: &[u8]) -> Option<Self> {
        let (address, rest) = info.split_first_chunk::<16>()?;
        let (address, link) = (Ipv6Addr::from(*address), u32::from_ne_bytes(*rest.first_chunk()?));
        Some(Self { address: address.into(), link: if address.is_unicast_link_local() { link } else { 0 } })
    }
}

/// One datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: Option<SocketAddr>,
    /// To which of our addresses.
    pub to: Option<Local>,
    /// What it says.
    pub bytes: &'a [u8],
}

/// Room for the datagrams of one call.
pub struct Inbox {
    buffer: Box<[u8]>,
    from: [RawAddress; BATCH],
    to: [Option<Local>; BATCH],
    sizes: [usize; BATCH],
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            buffer: vec![0; BATCH * SIZE_MAX].into(),
            from: [RawAddress::empty(); BATCH],
            to: [None; BATCH],
            sizes: [0; BATCH],
        }
    }
}

/// Control messages have to be aligned as their headers are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_SIZE]);

impl Inbox {
    /// Takes what has arrived, [`BATCH`] datagrams at most; `WouldBlock` when there is none. Returns how many.
    #[expect(unsafe_code, reason = "recvmmsg(2) fills arrays through pointers")]
    #[expect(clippy::cast_possible_truncation, reason = "BATCH is small")]
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut controls = [Control([0; CONTROL_SIZE]); BATCH];
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|_| no_bytes());
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|_| no_message());
        for (i, room) in self.buffer.chunks_exact_mut(SIZE_MAX).enumerate() {
            vectors[i] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: SIZE_MAX };
            let header = &mut headers[i].msg_hdr;
            header.msg_name = self.from[i].pointer_mut().cast();
            header.msg_namelen = RawAddress::CAPACITY;
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_SIZE as _;
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: each header points to an address, a vector with its own part of the buffer, and control bytes, with
        // their true sizes; all of them live, and are ours to write, during the call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                flags,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (i, header) in headers.iter().enumerate().take(count) {
            self.sizes[i] = (header.msg_len as usize).min(SIZE_MAX);
            self.from[i].set_size(header.msg_hdr.msg_namelen);
            let used: usize = header.msg_hdr.msg_controllen as _;
            self.to[i] = destination(&controls[i].0[..used.min(CONTROL_SIZE)]);
        }
        Ok(count)
    }

    /// The datagram with this number of the last call.
    pub fn get(&self, i: usize) -> Datagram<'_> {
        let start = i * SIZE_MAX;
        Datagram {
            from: self.from[i].read(),
            to: self.to[i],
            bytes: &self.buffer[start..start + self.sizes[i]],
        }
    }
}

/// A datagram that leaves.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Whom it is for; nobody where the socket has one peer.
    pub to: Option<SocketAddr>,
    /// The address of ours that it comes from; `None` leaves it to the kernel.
    pub from: Option<Local>,
    /// What it says.
    pub bytes: &'a [u8],
    /// Where this is not zero, the bytes are several datagrams, each of this size and the last of them perhaps shorter: the
    /// kernel takes them apart as late as it can. It refuses where one would not fit into a packet of the way.
    pub segment: u16,
}

/// Sends as many of the datagrams as there is room for, [`BATCH`] at most; returns how many. An error is about the first.
#[expect(unsafe_code, reason = "sendmmsg(2) reads arrays through pointers")]
#[expect(clippy::cast_possible_truncation, reason = "BATCH is small")]
pub fn send(socket: BorrowedFd<'_>, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
    let count = datagrams.len().min(BATCH);
    let mut controls = [Control([0; CONTROL_SIZE]); BATCH];
    let mut names = [RawAddress::empty(); BATCH];
    let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|_| no_bytes());
    let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|_| no_message());
    for (i, datagram) in datagrams.iter().enumerate().take(count) {
        let bytes: *const u8 = datagram.bytes.as_ptr();
        vectors[i] = libc::iovec { iov_base: bytes.cast_mut().cast(), iov_len: datagram.bytes.len() };
        let header = &mut headers[i].msg_hdr;
        header.msg_iov = &raw mut vectors[i];
        header.msg_iovlen = 1;
        if let Some(to) = datagram.to {
            names[i] = to.into();
            header.msg_name = names[i].pointer_mut().cast();
            header.msg_namelen = names[i].size();
        }
        let used = write_controls(&mut controls[i], datagram);
        if used > 0 {
            header.msg_control = controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = used as _;
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `count` headers point to names, vectors and control bytes with their true sizes; all of them live during
    // the call, and the kernel only reads the datagrams themselves.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, flags as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn no_bytes() -> libc::iovec {
    libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }
}

#[expect(unsafe_code, reason = "a header has padding that cannot be written out")]
fn no_message() -> libc::mmsghdr {
    // SAFETY: all zeroes is a valid mmsghdr: null pointers and zero lengths.
    unsafe { std::mem::zeroed() }
}

/// `struct cmsghdr`: its length, a level, and a kind.
const HEAD: usize = size_of::<libc::cmsghdr>();
const LENGTH: usize = size_of::<usize>();

/// Control messages begin at multiples of a word.
const fn aligned(size: usize) -> usize {
    size.next_multiple_of(LENGTH)
}

/// Where a datagram was sent to, as its control messages tell.
fn destination(mut control: &[u8]) -> Option<Local> {
    while let Some((head, _)) = control.split_first_chunk::<HEAD>() {
        let length = usize::from_ne_bytes(*head.first_chunk()?);
        let data = control.get(HEAD..length)?;
        match (
            c_int::from_ne_bytes(*head[LENGTH..].first_chunk()?),
            c_int::from_ne_bytes(*head[LENGTH + 4..].first_chunk()?),
        ) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => return Local::v4(data),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => return Local::v6(data),
            _ => control = control.get(aligned(length)..)?,
        }
    }
    None
}

/// Writes what is to be said beside a datagram; returns how many bytes that took.
fn write_controls(control: &mut Control, datagram: &Outgoing<'_>) -> usize {
    let mut used = 0;
    match datagram.from.map(|from| (from.address, from.link)) {
        None => {}
        Some((IpAddr::V4(address), _)) => {
            // `struct in_pktinfo`, see `Local::v4`.
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&address.octets());
            used += append(control, used, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        Some((IpAddr::V6(address), link)) => {
            // `struct in6_pktinfo`, see `Local::v6`.
            let mut info = [0; 20];
            info[..16].copy_from_slice(&address.octets());
            info[16..].copy_from_slice(&link.to_ne_bytes());
            used += append(control, used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
    }
    if datagram.segment > 0 {
        let segment = datagram.segment.to_ne_bytes();
        used += append(control, used, libc::SOL_UDP, libc::UDP_SEGMENT, &segment);
    }
    used
}

/// Writes one control message behind those that use the first bytes already; returns how many more are used now.
fn append(control: &mut Control, used: usize, level: c_int, kind: c_int, value: &[u8]) -> usize {
    let length = HEAD + value.len();
    let room = &mut control.0[used..used + aligned(length)];
    room[..LENGTH].copy_from_slice(&length.to_ne_bytes());
    room[LENGTH..LENGTH + 4].copy_from_slice(&level.to_ne_bytes());
    room[LENGTH + 4..LENGTH + 8].copy_from_slice(&kind.to_ne_bytes());
    room[HEAD..length].copy_from_slice(value);
    room.len()
}

const _: () = assert!(HEAD == LENGTH + 8, "nothing but a word and two numbers");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_laid_out_as_the_kernel_reads_them_and_no_length_is_trusted() {
        for text in ["10.0.0.1", "fd00::1", "fe80::1"] {
            let address: IpAddr = text.parse().unwrap();
            let link = if text.starts_with("fe80") { 3 } else { 0 };
            let from = Some(Local { address, link });
            let mut control = Control([0; CONTROL_SIZE]);
            let used = write_controls(&mut control, &Outgoing { to: None, from, bytes: b"", segment: 9 });
            let info = if address.is_ipv4() { 12 } else { 20 };
            assert_eq!(used, HEAD + aligned(info) + HEAD + aligned(2));
            assert_eq!(destination(&control.0[..used]), from);
            for cut in 0..HEAD + info {
                assert_eq!(destination(&control.0[..cut]), None);
            }
            for length in [0, 1, HEAD - 1, usize::MAX] {
                control.0[..LENGTH].copy_from_slice(&length.to_ne_bytes());
                assert_eq!(destination(&control.0[..used]), None, "{length}");
            }
        }
    }
}
