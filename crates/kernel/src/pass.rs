//! Hands open files from process to process over a unix socket (`SCM_RIGHTS`).
//!
//! In: bytes, and files that go with them. Out, at the other end: the same bytes, and files of its own that are the same.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use libc::c_int;

/// The kernel carries no more files with one message.
pub const FILES_MAX: usize = 253;

/// Room for the control message that carries [`FILES_MAX`] files, aligned as its header is.
#[repr(C, align(8))]
struct Control([u8; CONTROL_SIZE]);
const CONTROL_SIZE: usize = FILES_MAX * size_of::<c_int>() + 64;

/// Sends bytes, at least one, with at most [`FILES_MAX`] files. Returns how many of the bytes went; all files went with the first.
#[expect(unsafe_code, reason = "sendmsg(2) and control messages work through pointers")]
#[expect(clippy::cast_ptr_alignment, reason = "read and written without assuming it")]
pub fn send(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if bytes.is_empty() || files.len() > FILES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let pointer: *const u8 = bytes.as_ptr();
    let mut vector = libc::iovec { iov_base: pointer.cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_SIZE]);
    let mut header = message(&mut vector);
    if !files.is_empty() {
        let size = u32::try_from(size_of_val(files)).map_err(|_| io::ErrorKind::InvalidInput)?;
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the control bytes have room for one message with FILES_MAX descriptors, and there are no more (checked
        // above); each descriptor is written within it, without assuming alignment.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(first).cast::<c_int>();
            for (i, file) in files.iter().enumerate() {
                data.add(i).write_unaligned(file.as_raw_fd());
            }
        }
    }
    // SAFETY: the header points to bytes and control bytes with their true sizes, which live during the call.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes, 0 at the end, and the files that came with them.
#[expect(unsafe_code, reason = "recvmsg(2) and control messages work through pointers")]
pub fn receive(stream: &UnixStream, room: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = Control([0; CONTROL_SIZE]);
    let mut header = message(&mut vector);
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_SIZE as _;
    // SAFETY: the header points to room and control bytes with their true sizes, which live, and are ours to write, during
    // the call.
    let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let count = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let files = files_in(&header);
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::Error::other("files were lost on the way: this process has too many open"));
    }
    Ok((count, files))
}

#[expect(unsafe_code, reason = "control messages are walked through pointers")]
#[expect(clippy::cast_ptr_alignment, reason = "read and written without assuming it")]
fn files_in(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the kernel has written `msg_controllen` bytes of whole control messages at `msg_control`, which the macros
    // stay within; each descriptor in them was just made for us, and nobody else owns it.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = found.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(message).cast::<c_int>();
                for i in 0..bytes / size_of::<c_int>() {
                    files.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    files
}

/// A message of these bytes and nothing else.
#[expect(unsafe_code, reason = "a header has padding that cannot be written out")]
fn message(vector: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all zeroes is a valid msghdr: null pointers and zero lengths.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vector;
    header.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn as_many_files_as_the_kernel_carries_arrive_and_are_the_same() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = File::open("/proc/self/status").unwrap();
        let files = vec![file.as_fd(); FILES_MAX];
        assert_eq!(send(&here, b"files", &files).unwrap(), 5);
        let mut room = [0; 64];
        let (count, mut got) = receive(&there, &mut room).unwrap();
        assert_eq!((&room[..count], got.len()), (&b"files"[..], FILES_MAX));
        let mut text = String::new();
        File::from(got.remove(0)).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Name:"), "{text}");
    }

    #[test]
    fn too_many_files_are_refused_before_anything_is_sent() {
        let (here, _there) = UnixStream::pair().unwrap();
        let file = File::open("/proc/self/status").unwrap();
        let error = send(&here, b"files", &vec![file.as_fd(); FILES_MAX + 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn bytes_without_files_and_the_end_are_received() {
        let (here, there) = UnixStream::pair().unwrap();
        send(&here, b"plain", &[]).unwrap();
        let mut room = [0; 64];
        assert_eq!(receive(&there, &mut room).unwrap().0, 5);
        drop(here);
        assert_eq!(receive(&there, &mut room).unwrap().0, 0);
    }
}
