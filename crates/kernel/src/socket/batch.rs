//! Many datagrams in one call, each with the address that it was sent to.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void};

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
    fn v4(info: &libc::in_pktinfo) -> Self {
        Self { address: Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into(), link: 0 }
    }

    fn v6(info: &libc::in6_pktinfo) -> Self {
        let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
        let link = if address.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
        Self { address: address.into(), link }
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
            self.to[i] = destination(&header.msg_hdr);
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

/// Where a datagram was sent to, as its control message tells.
#[expect(unsafe_code, reason = "control messages are walked through pointers")]
fn destination(header: &libc::msghdr) -> Option<Local> {
    // SAFETY: the kernel has written `msg_controllen` bytes of whole control messages at `msg_control`, which the macros
    // stay within; the data of each is read without assuming its alignment, and only where its length suffices.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) if holds::<libc::in_pktinfo>(found) => {
                    return Some(Local::v4(&data.cast::<libc::in_pktinfo>().read_unaligned()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if holds::<libc::in6_pktinfo>(found) => {
                    return Some(Local::v6(&data.cast::<libc::in6_pktinfo>().read_unaligned()));
                }
                _ => message = libc::CMSG_NXTHDR(header, message),
            }
        }
    }
    None
}

#[expect(unsafe_code, reason = "CMSG_LEN is marked so")]
fn holds<T>(message: &libc::cmsghdr) -> bool {
    // SAFETY: CMSG_LEN only computes.
    message.cmsg_len >= unsafe { libc::CMSG_LEN(size::<T>()) } as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

/// Writes what is to be said beside a datagram; returns how many bytes that took.
fn write_controls(control: &mut Control, datagram: &Outgoing<'_>) -> usize {
    let mut used = 0;
    match datagram.from.map(|from| (from.address, from.link)) {
        None => {}
        Some((IpAddr::V4(address), _)) => {
            let address = libc::in_addr { s_addr: u32::from(address).to_be() };
            let nowhere = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: nowhere };
            used += append(control, used, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some((IpAddr::V6(address), link)) => {
            let address = libc::in6_addr { s6_addr: address.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: link };
            used += append(control, used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
    if datagram.segment > 0 {
        used += append(control, used, libc::SOL_UDP, libc::UDP_SEGMENT, datagram.segment);
    }
    used
}

/// Writes one control message behind those that use the first bytes already; returns how many more are used now.
#[expect(unsafe_code, reason = "control messages are written through pointers")]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "CMSG_SPACE keeps it, and the value is written without assuming it"
)]
fn append<T>(control: &mut Control, used: usize, level: c_int, kind: c_int, value: T) -> usize {
    // SAFETY: both only compute.
    let (length, space) = unsafe { (libc::CMSG_LEN(size::<T>()), libc::CMSG_SPACE(size::<T>()) as usize) };
    let room = &mut control.0[used..used + space];
    let message = room.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: `room` has `space` bytes (the slice would have panicked), enough for header and value, and starts at a
    // multiple of the header's alignment, since the control bytes do and every message takes a multiple of it.
    unsafe {
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = length as _;
        libc::CMSG_DATA(message).cast::<c_void>().cast::<T>().write_unaligned(value);
    }
    space
}
