//! Waiting for very many descriptors at once (epoll), and being woken by another thread.
//!
//! In: descriptors, each with a number of the caller's. Out: the numbers of those where something happened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

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
    fn flags(self) -> EventFlags {
        match self {
            Interest::Duplex => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
            Interest::Readable => EventFlags::IN | EventFlags::ET,
            Interest::Shared => EventFlags::IN | EventFlags::EXCLUSIVE,
        }
    }
}

/// What happened to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number that it was added with.
    pub token: u64,
    flags: EventFlags,
}

impl Event {
    /// Is there something to read: bytes, the end, or an error?
    pub fn is_readable(self) -> bool {
        self.has(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// Is there room to write, or would writing fail?
    pub fn is_writable(self) -> bool {
        self.has(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR)
    }

    /// Does the peer send nothing more after what can be read?
    pub fn is_ended(self) -> bool {
        self.has(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// Has the socket failed?
    pub fn is_failed(self) -> bool {
        self.has(EventFlags::ERR)
    }

    fn has(self, wanted: EventFlags) -> bool {
        self.flags.intersects(wanted)
    }
}

/// Room for events.
pub struct Events {
    list: Vec<epoll::Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Events {
    /// Room for so many.
    pub fn with_room_for(count: usize) -> Self {
        Self { list: Vec::with_capacity(count) }
    }

    /// Those of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        self.list.iter().map(|event| Event { token: event.data.u64(), flags: event.flags })
    }

    /// How many the last wait brought.
    pub fn count(&self) -> usize {
        self.list.len()
    }
}

impl Poll {
    /// Waits for nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// From now on waits for this one too, until it is closed or removed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Waits for this one no more.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// Waits until something happens, for so long at most. A signal ends it early, with nothing.
    pub fn wait(&self, events: &mut Events, limit: Option<Duration>) -> io::Result<()> {
        events.list.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut events.list), limit.map(timeout).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// In whole milliseconds: rounded up, so that a wait that has run out has really lasted as long, and no more than the kernel takes.
pub(crate) fn timeout(limit: Duration) -> Timespec {
    let milliseconds = i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    Timespec { tv_sec: i64::from(milliseconds / 1000), tv_nsec: (milliseconds % 1000 * 1_000_000).into() }
}

/// Wakes a thread that waits.
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// To be added to a [`Poll`] as [`Interest::Readable`].
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Whoever waits for it is told.
    pub fn wake(&self) {
        // It cannot fail while the descriptor is open and its counter, which would have to be woken 2^64 times, has room.
        let _written = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
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
