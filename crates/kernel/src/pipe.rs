//! Pipes that carry bytes from socket to socket inside the kernel (`splice(2)`), so that this process never sees them; and reading from
//! those of others without waiting.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;

use crate::socket::sys::check;

/// A pipe, both ends.
#[derive(Debug)]
pub struct Pipe {
    output: OwnedFd,
    input: OwnedFd,
    size: usize,
}

impl Pipe {
    /// A pipe of about this size; smaller where the user's pipes have no room left (`fs.pipe-user-pages-soft`).
    #[expect(unsafe_code, reason = "pipe2(2) fills an array, and taking ownership of what it returns")]
    pub fn new(wanted: usize) -> io::Result<Self> {
        let mut fds: [c_int; 2] = [-1; 2];
        // SAFETY: the array has room for the two descriptors and lives during the call.
        check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
        // SAFETY: the kernel has just given us both descriptors; nobody else owns them.
        let (output, input) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        let size = grow(&input, wanted);
        Ok(Self { output, input, size })
    }

    /// How many bytes it holds at most.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Takes bytes out of a socket: how many; 0 at its end; `WouldBlock` when there is none, or the pipe is full.
    pub fn fill(&self, from: BorrowedFd<'_>) -> io::Result<usize> {
        splice(from.as_raw_fd(), self.input.as_raw_fd(), self.size)
    }

    /// Gives at most `count` bytes to a socket: how many; `WouldBlock` when there is no room.
    pub fn drain(&self, to: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        splice(self.output.as_raw_fd(), to.as_raw_fd(), count)
    }
}

/// From now on, reading from this descriptor waits for nothing (`WouldBlock`). For one end of a pipe this says nothing of the other.
#[expect(unsafe_code, reason = "fcntl(2)")]
pub fn wait_for_nothing(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both commands take plain numbers, and the descriptor is open.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

#[expect(unsafe_code, reason = "splice(2)")]
fn splice(from: c_int, to: c_int, count: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    // SAFETY: null pointers say that neither side has an offset; no memory of ours is concerned.
    let moved = unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), count, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Grows a pipe as far as the kernel lets us; returns its size.
#[expect(unsafe_code, reason = "fcntl(2)")]
fn grow(pipe: &OwnedFd, wanted: usize) -> usize {
    let mut attempt = c_int::try_from(wanted).unwrap_or(c_int::MAX);
    loop {
        // SAFETY: these commands take plain numbers.
        let now = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) };
        if now >= attempt {
            return usize::try_from(now).unwrap_or(0);
        }
        // SAFETY: as above.
        let grown = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, attempt) };
        if let Ok(size) = usize::try_from(grown) {
            return size;
        }
        attempt /= 2;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_go_from_socket_to_socket_and_the_end_is_seen() {
        let ((mut client, near), (far, mut server)) = (connection(), connection());
        near.set_nonblocking(true).unwrap();
        let pipe = Pipe::new(1 << 20).unwrap();
        assert_eq!(pipe.fill(near.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        client.write_all(b"hello").unwrap();
        // Loopback delivers before write returns.
        assert_eq!(pipe.fill(near.as_fd()).unwrap(), 5);
        assert_eq!(pipe.drain(far.as_fd(), 5).unwrap(), 5);
        let mut heard = [0; 5];
        server.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        drop(client);
        assert_eq!(pipe.fill(near.as_fd()).unwrap(), 0);
    }

    #[test]
    fn a_size_that_nobody_may_have_gives_a_smaller_pipe() {
        let size = Pipe::new(usize::MAX).unwrap().size();
        assert!((4096..=1 << 30).contains(&size), "{size}");
    }
}
