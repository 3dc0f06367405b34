//! The kernel's own form of a rule: a program over registers.
//!
//! A rule is compiled to this before it is written, and what the kernel lists is decoded to this. So an
//! observed rule equals a desired one exactly if the kernel would do the same with a packet, whatever
//! extra attributes its version adds to the listing.

use std::time::Duration;

use super::object::{Name, Verdict};

/// A 32-bit register, counted from 0 to 15; wider values fill several in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u8);

/// What a [`Expression::Meta`] reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetaKey {
    /// The packet's priority.
    Priority,
    /// The packet's mark.
    Mark,
    /// The name of the interface that it came in by.
    InputInterface,
    /// The transport protocol.
    Protocol,
}

/// What a [`Expression::Ct`] reads of the packet's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CtKey {
    /// New, established, related ...
    State,
    /// Translated or not ...
    Status,
}

/// Which header a [`Expression::Payload`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Header {
    /// IPv4 or IPv6.
    Network,
    /// TCP, UDP, SCTP.
    Transport,
}

/// One step of the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expression {
    /// Load bytes of a header.
    Payload {
        /// To where.
        to: Register,
        /// Of which header.
        header: Header,
        /// From which byte on.
        offset: u32,
        /// How many bytes.
        size: u32,
    },
    /// Load something that the kernel keeps beside the packet.
    Meta {
        /// To where.
        to: Register,
        /// What.
        key: MetaKey,
    },
    /// Store something that the kernel keeps beside the packet.
    SetMeta {
        /// From where.
        from: Register,
        /// What.
        key: MetaKey,
    },
    /// Load something about the connection.
    Ct {
        /// To where.
        to: Register,
        /// What.
        key: CtKey,
    },
    /// Keep the bits of `mask`, then flip those of `xor`, in place.
    Bitwise {
        /// Which register.
        register: Register,
        /// The bits to keep.
        mask: Vec<u8>,
        /// The bits to flip.
        xor: Vec<u8>,
    },
    /// Go on only if the register is (or is not) this value.
    Compare {
        /// Which register.
        register: Register,
        /// Whether it must be equal.
        equal: bool,
        /// To what.
        value: Vec<u8>,
    },
    /// Look a key up; go on only if it is there (or is not).
    Lookup {
        /// Where the key is.
        key: Register,
        /// In which set or map.
        set: Name,
        /// What to do with the data.
        found: Found,
    },
    /// Load a constant.
    Immediate {
        /// To where.
        to: Register,
        /// What.
        value: Vec<u8>,
    },
    /// Decide.
    Verdict(Verdict),
    /// Draw a number.
    Numgen {
        /// To where.
        to: Register,
        /// How many numbers there are.
        modulus: u32,
        /// The first of them.
        offset: u32,
    },
    /// Load the kind of an address, as the routing tables see it.
    Fib {
        /// To where.
        to: Register,
        /// Of the source address, or of the destination.
        is_source: bool,
    },
    /// Give the connection another destination.
    Dnat {
        /// Where the address is.
        address: Register,
        /// Where the port is, if it changes.
        port: Option<Register>,
    },
    /// Give the connection this host's source address.
    Masquerade {
        /// Flags of the kernel.
        flags: u32,
    },
    /// Refuse.
    Reject {
        /// 0: an ICMP error. 1: a TCP reset.
        kind: u32,
        /// The code of the ICMP error.
        code: u8,
    },
    /// Add, refresh or delete an element of a set.
    Dynset {
        /// Which set or map.
        set: Name,
        /// What to do.
        change: DynsetChange,
        /// Where the key is.
        key: Register,
        /// Where the data is, for a map.
        data: Option<Register>,
        /// How long the element lives.
        timeout: Option<Duration>,
    },
    /// Count packets and bytes.
    Counter,
    /// Something that we never write, by its name.
    Unknown(String),
}

/// What a lookup does when it finds its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// Go on.
    Pass,
    /// Do not go on.
    Break,
    /// Load the data.
    Load(Register),
    /// Do what the data says.
    Decide,
}

/// What a dynset expression does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DynsetChange {
    /// Add, if absent.
    Add,
    /// Add, or refresh the timeout.
    Update,
    /// Delete.
    Delete,
}
