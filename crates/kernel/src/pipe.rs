//! Pipes that carry bytes from socket to socket inside the kernel (`splice(2)`), so that this process never sees them; and reading from
//! those of others without waiting.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

/// A pipe, both ends.
#[derive(Debug)]
pub struct Pipe {
    output: OwnedFd,
    input: OwnedFd,
    size: usize,
}

impl Pipe {
    /// A pipe of about this size; smaller where the user's pipes have no room left (`fs.pipe-user-pages-soft`).
    pub fn new(wanted: usize) -> io::Result<Self> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let size = grow(&input, wanted);
        Ok(Self { output, input, size })
    }

    /// How many bytes it holds at most.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Takes bytes out of a socket: how many; 0 at its end; `WouldBlock` when there is none, or the pipe is full.
    pub fn fill(&self, from: BorrowedFd<'_>) -> io::Result<usize> {
        splice(from, self.input.as_fd(), self.size)
    }

    /// Gives at most `count` bytes to a socket: how many; `WouldBlock` when there is no room.
    pub fn drain(&self, to: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        splice(self.output.as_fd(), to, count)
    }
}

/// From now on, reading from this descriptor waits for nothing (`WouldBlock`). For one end of a pipe this says nothing of the other.
pub fn wait_for_nothing(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(rustix::pipe::splice(from, None, to, None, count, flags)?)
}

/// Grows a pipe as far as the kernel lets us; returns its size.
fn grow(pipe: &OwnedFd, wanted: usize) -> usize {
    const LARGEST: usize = i32::MAX as usize;
    let mut attempt = wanted.min(LARGEST);
    loop {
        let now = fcntl_getpipe_size(pipe).unwrap_or(0);
        if now >= attempt {
            return now;
        }
        if let Ok(size) = fcntl_setpipe_size(pipe, attempt) {
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
