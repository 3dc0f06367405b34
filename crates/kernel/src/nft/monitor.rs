//! Hears what anybody changes in `nf_tables`, ourselves included.
//!
//! In: the kernel's notifications. Out: [`Event`]s that say which table was touched and by whom. Details
//! are left to a listing. A change is told after it is in force, and closed by a [`Event::Generation`].

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::error::Result;
use super::object::Family;
use super::wire::{SUBSYSTEM, family_from, kind, read};
use crate::netlink::{self, Attributes, Header, Message, Messages, Socket, Subsystem};

const GROUP_NFTABLES: u32 = 7;
/// Every `nf_tables` message but that of a generation names its table first.
const TABLE: u16 = 1;
const GENERATION_ID: u16 = 1;
const GENERATION_THREAD: u16 = 2;
const GENERATION_NAME: u16 = 3;
/// Others may write tens of megabytes at once; losing some notifications leads to one look at everything.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Something that happened in `nf_tables`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A transaction is in force.
    Generation {
        /// The new generation.
        id: u32,
        /// The thread that sent it, by its number; that of its process if it has only one.
        thread: u32,
        /// The name of that thread, as a rule the name of its program.
        name: String,
    },
    /// Something in a table came or went.
    Changed {
        /// The family of the table.
        family: Family,
        /// The name of the table.
        table: String,
        /// What kind of thing.
        object: Object,
        /// The port of the socket that asked for it; ours if it equals [`super::Netlink::port`].
        port: u32,
    },
    /// Notifications were lost: compare everything.
    Lost,
}

/// What kind of thing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The table itself.
    Table,
    /// A chain.
    Chain,
    /// A rule.
    Rule,
    /// A set or map.
    Set,
    /// Elements of a set or map.
    Elements,
}

/// An open subscription.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    heard: VecDeque<Event>,
}

impl Monitor {
    /// Subscribes, in this thread's network namespace.
    pub fn open() -> Result<Self> {
        Self::on(Socket::open(Subsystem::Netfilter)?)
    }

    /// Subscribes to what all do but the connection of this port ([`super::Netlink::port`]): the kernel leaves that out, so
    /// that not even a cold start of ours wakes anybody up.
    pub fn of_others(port: u32) -> Result<Self> {
        let socket = Socket::open(Subsystem::Netfilter)?;
        socket.ignore(port)?;
        Self::on(socket)
    }

    fn on(socket: Socket) -> Result<Self> {
        socket.set_receive_buffer(RECEIVE_BUFFER)?;
        socket.join(GROUP_NFTABLES)?;
        Ok(Self { socket, heard: VecDeque::new() })
    }

    /// Waits for the next event, at most for `limit`; `None` if nothing happened.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Event>> {
        while self.heard.is_empty() {
            match self.socket.receive(limit) {
                Ok(Some(bytes)) => hear(bytes, &mut self.heard)?,
                Ok(None) => return Ok(None),
                Err(netlink::Error::Lost) => self.heard.push_back(Event::Lost),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.heard.pop_front())
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Decodes one datagram. Equal events in a row (thousands of elements) are told once.
pub(super) fn hear(bytes: &[u8], heard: &mut VecDeque<Event>) -> netlink::Result<()> {
    for message in Messages::new(bytes) {
        let event = match message? {
            Message::Data(header, body) => decode(header, body)?,
            Message::Overrun => Some(Event::Lost),
            _ => None,
        };
        if event.is_some() && heard.back() != event.as_ref() {
            heard.extend(event);
        }
    }
    Ok(())
}

fn decode(header: Header, body: &[u8]) -> netlink::Result<Option<Event>> {
    if header.kind >> 8 != SUBSYSTEM {
        return Ok(None);
    }
    let (number, attributes) = read::open(body)?;
    let object = match header.kind & 0xff {
        kind::NEW_GENERATION => return generation(attributes).map(Some),
        kind::NEW_TABLE | kind::DEL_TABLE => Object::Table,
        kind::NEW_CHAIN | kind::DEL_CHAIN => Object::Chain,
        kind::NEW_RULE | kind::DEL_RULE => Object::Rule,
        kind::NEW_SET | kind::DEL_SET => Object::Set,
        kind::NEW_ELEMENTS | kind::DEL_ELEMENTS => Object::Elements,
        _ => return Ok(None),
    };
    let Some(family) = family_from(number) else { return Ok(None) };
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == TABLE {
            return Ok(Some(Event::Changed { family, table: attribute.text(), object, port: header.port }));
        }
    }
    Ok(None)
}

fn generation(attributes: Attributes<'_>) -> netlink::Result<Event> {
    let (mut id, mut thread, mut name) = (0, 0, String::new());
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            GENERATION_ID => id = attribute.u32_be()?,
            GENERATION_THREAD => thread = attribute.u32_be()?,
            GENERATION_NAME => name = attribute.text(),
            _ => {}
        }
    }
    Ok(Event::Generation { id, thread, name })
}
