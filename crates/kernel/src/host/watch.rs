//! Hears from the kernel when addresses or links of this host change.
//!
//! It tells *that* something changed, not what: whoever listens reads the new state whole, which is
//! small. When the kernel had to drop notifications, that too is a change.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::netlink::{Error, Message, Messages, Protocol, Result, Socket};

const GROUP_LINK: u32 = 1;
const GROUP_IPV4_ADDRESS: u32 = 5;
const GROUP_IPV6_ADDRESS: u32 = 9;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;

/// What the kernel told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A link came, went, or changed its state.
    Links,
    /// An address came or went.
    Addresses,
    /// Notifications were lost: read everything anew.
    Lost,
}

/// An open subscription. Works without privilege.
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
}

impl Watch {
    /// Subscribes in this thread's network namespace. Changes count from now on, so read the state after.
    pub fn open() -> Result<Self> {
        let socket = Socket::open(Protocol::Route)?;
        for group in [GROUP_LINK, GROUP_IPV4_ADDRESS, GROUP_IPV6_ADDRESS] {
            socket.join(group)?;
        }
        Ok(Self { socket })
    }

    /// Waits for the next change, at most for `limit`; `None` if nothing happened.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Change>> {
        let bytes = match self.socket.receive(limit) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(Error::Lost) => return Ok(Some(Change::Lost)),
            Err(error) => return Err(error),
        };
        let mut change = None;
        for message in Messages::new(bytes) {
            change = change.max(classify(&message?));
        }
        Ok(change)
    }
}

fn classify(message: &Message<'_>) -> Option<Change> {
    match message {
        Message::Data(head, _) => match head.kind {
            RTM_NEWLINK | RTM_DELLINK => Some(Change::Links),
            RTM_NEWADDR | RTM_DELADDR => Some(Change::Addresses),
            _ => None,
        },
        Message::Overrun => Some(Change::Lost),
        _ => None,
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
