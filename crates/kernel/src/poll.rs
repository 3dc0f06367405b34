//! Waiting for very many descriptors at once (epoll), and being woken by another thread.
//!
//! In: descriptors, each with a number of the caller's. Out: the numbers of those where something happened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::c_int;

use crate::socket::sys::check;

/// Waits for descriptors.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

/// When a descriptor is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Each time that something new can be read, or that there is room again to write. What was told once, and is still so,
    /// is not told again: the caller remembers it.
    Duplex,
    /// Each time that something new can be read.
    Readable,
    /// As long as something can be read; where several wait, not all of them are told.
    Shared,
}

impl Interest {
    fn flags(self) -> u32 {
        let flags = match self {
            Interest::Duplex => libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET,
            Interest::Readable => libc::EPOLLIN | libc::EPOLLET,
            Interest::Shared => libc::EPOLLIN | libc::EPOLLEXCLUSIVE,
        };
        flags.cast_unsigned()
    }
}

/// What happened to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number that it was added with.
    pub token: u64,
    flags: c_int,
}

impl Event {
    /// Is there something to read: bytes, the end, or an error?
    pub fn is_readable(self) -> bool {
        self.has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR)
    }

    /// Is there room to write, or would writing fail?
    pub fn is_writable(self) -> bool {
        self.has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR)
    }

    /// Does the peer send nothing more after what can be read?
    pub fn is_ended(self) -> bool {
        self.has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR)
    }

    /// Has the socket failed?
    pub fn is_failed(self) -> bool {
        self.has(libc::EPOLLERR)
    }

    fn has(self, wanted: c_int) -> bool {
        self.flags & wanted != 0
    }
}

/// Room for events.
pub struct Events {
    list: Vec<libc::epoll_event>,
    count: usize,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Events {
    /// Room for so many.
    pub fn with_room_for(count: usize) -> Self {
        Self { list: vec![libc::epoll_event { events: 0, u64: 0 }; count], count: 0 }
    }

    /// Those of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        self.list[..self.count]
            .iter()
            .map(|event| Event { token: event.u64, flags: event.events.cast_signed() })
    }

    /// How many the last wait brought.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Poll {
    /// Waits for nothing yet.
    #[expect(unsafe_code, reason = "epoll_create1(2) and taking ownership of what it returns")]
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes a plain number.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// From now on waits for this one too, until it is closed or removed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::epoll_event { events: interest.flags(), u64: token })
    }

    /// Waits for this one no more.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, libc::epoll_event { events: 0, u64: 0 })
    }

    #[expect(unsafe_code, reason = "epoll_ctl(2) reads a struct through a pointer")]
    fn control(&self, operation: c_int, fd: BorrowedFd<'_>, mut event: libc::epoll_event) -> io::Result<()> {
        // SAFETY: the event lives during the call; both descriptors are open while borrowed.
        let result =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) };
        check(result).map(drop)
    }

    /// Waits until something happens, for so long at most. A signal ends it early, with nothing.
    #[expect(unsafe_code, reason = "epoll_wait(2) fills an array through a pointer")]
    pub fn wait(&self, events: &mut Events, limit: Option<Duration>) -> io::Result<()> {
        // Rounded up, so that a wait that has run out has really lasted as long.
        let limit =
            limit.map_or(-1, |limit| c_int::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX));
        let room = c_int::try_from(events.list.len()).unwrap_or(c_int::MAX);
        events.count = 0;
        // SAFETY: the array has room for as many events as we say, and lives during the call.
        let got = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.list.as_mut_ptr(), room, limit) };
        match check(got) {
            Ok(count) => events.count = usize::try_from(count).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Wakes a thread that waits.
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// To be added to a [`Poll`] as [`Interest::Readable`].
    #[expect(unsafe_code, reason = "eventfd(2) and taking ownership of what it returns")]
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes plain numbers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Whoever waits for it is told.
    #[expect(unsafe_code, reason = "eventfd_write(3)")]
    pub fn wake(&self) {
        // SAFETY: it takes plain numbers. It cannot fail while the descriptor is open and its counter, which would have to
        // be woken 2^64 times, has room.
        unsafe { libc::eventfd_write(self.fd.as_raw_fd(), 1) };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_told_once_for_each_wake() {
        let (poll, waker) = (Poll::new().unwrap(), Waker::new().unwrap());
        let mut events = Events::with_room_for(4);
        poll.add(waker.as_fd(), 42, Interest::Readable).unwrap();
        poll.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(events.count(), 0);
        for _ in 0..2 {
            waker.wake();
            poll.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
            assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [42]);
            poll.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert_eq!(events.count(), 0, "edges are told once");
        }
        poll.remove(waker.as_fd()).unwrap();
        waker.wake();
        poll.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(events.count(), 0);
    }
}
