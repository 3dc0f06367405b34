//! Hands open files from process to process over a unix socket (`SCM_RIGHTS`).
//!
//! In: bytes, and files that go with them. Out, at the other end: the same bytes, and files of its own that are the same.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The kernel carries no more files with one message.
pub const FILES_MAX: usize = 253;

/// Room for the control message that carries them.
const CONTROL_SIZE: usize = cmsg_space!(ScmRights(FILES_MAX));

/// Sends bytes, at least one, with at most [`FILES_MAX`] files. Returns how many of the bytes went; all files went with the first.
pub fn send(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if bytes.is_empty() || files.len() > FILES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut room = [MaybeUninit::uninit(); CONTROL_SIZE];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, 0 at the end, and the files that came with them.
pub fn receive(stream: &UnixStream, room: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control_room = [MaybeUninit::uninit(); CONTROL_SIZE];
    let mut control = RecvAncillaryBuffer::new(&mut control_room);
    let got = recvmsg(stream, &mut [IoSliceMut::new(room)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("files were lost on the way: this process has too many open"));
    }
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            files.extend(some);
        }
    }
    Ok((got.bytes, files))
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
