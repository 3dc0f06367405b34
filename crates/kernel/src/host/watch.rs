//! Hears from the kernel when addresses or links of this host change.
//!
//! It tells *that* something changed, and on which link, not what: whoever listens reads the new state whole. When the kernel had to drop
//! notifications, that too is a change.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::split_fixed;
use crate::netlink::{Error, Message, Messages, Result, Socket, Subsystem};

const GROUP_LINK: u32 = 1;
const GROUP_IPV4_ADDRESS: u32 = 5;
const GROUP_IPV6_ADDRESS: u32 = 9;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;

/// What the kernel told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A link came, went, or changed its state.
    Links,
    /// An address came to the link of this number, or changed.
    AddressAdded(u32),
    /// An address went from the link of this number.
    AddressDeleted(u32),
    /// Notifications were lost, or several different ones came at once: read everything anew.
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
        let socket = Socket::open(Subsystem::Route)?;
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
        let mut all = None;
        for message in Messages::new(bytes) {
            let Some(change) = classify(&message?)? else { continue };
            all = Some(if all.is_none_or(|before| before == change) { change } else { Change::Lost });
        }
        Ok(all)
    }
}

fn classify(message: &Message<'_>) -> Result<Option<Change>> {
    Ok(match message {
        Message::Data(head, body) => match head.kind {
            RTM_NEWLINK | RTM_DELLINK => Some(Change::Links),
            RTM_NEWADDR => Some(Change::AddressAdded(link(body)?)),
            RTM_DELADDR => Some(Change::AddressDeleted(link(body)?)),
            _ => None,
        },
        Message::Overrun => Some(Change::Lost),
        _ => None,
    })
}

/// The number of the link in the fixed part of a message about an address.
fn link(body: &[u8]) -> Result<u32> {
    let (fixed, _) = split_fixed::<8>(body)?;
    Ok(u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]))
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
