//! Why a listener could not be opened, or a port not held: each with the way out.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use model::net::Protocol;

/// Why a port could not be had. Everything else goes on as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// SCTP was asked for.
    #[error("SCTP cannot be carried in user space: use a mode whose kernel carries it for this port")]
    Sctp,
    /// No port of the range is free.
    #[error(
        "no {protocol} port of the range `{}-{}` is free on `{address}`: make `--proxy-port-range` wider, \
         or leave it out to have the kernel choose",
        range.start(), range.end()
    )]
    RangeExhausted {
        /// The protocol.
        protocol: Protocol,
        /// Where a port was looked for.
        address: IpAddr,
        /// Among which ports.
        range: RangeInclusive<u16>,
    },
    /// Another program has the port.
    #[error(
        "another program has {protocol} port `{at}`: `ss -{}lnp 'sport = {}'` names it; end it, or give the Service \
         another port",
        if *protocol == Protocol::Udp { 'u' } else { 't' },
        at.port()
    )]
    InUse {
        /// The protocol.
        protocol: Protocol,
        /// The port.
        at: SocketAddr,
    },
    /// This machine has no such address.
    #[error("this node has no address `{}`: {protocol} port `{at}` cannot be bound until it has", at.ip())]
    NoSuchAddress {
        /// The protocol.
        protocol: Protocol,
        /// What was to be bound.
        at: SocketAddr,
    },
    /// This process may not bind the port.
    #[error(
        "portway may not bind {protocol} port `{at}`: run it as root, or give it CAP_NET_BIND_SERVICE for ports \
         below 1024"
    )]
    NotAllowed {
        /// The protocol.
        protocol: Protocol,
        /// What was to be bound.
        at: SocketAddr,
    },
    /// This process, or the machine, has no file descriptor left.
    #[error(
        "{protocol} port `{at}` cannot be bound: there are too many open files; raise LimitNOFILE of portway's unit \
         (now {limit}), or fs.file-max of the machine"
    )]
    TooManyFiles {
        /// The protocol.
        protocol: Protocol,
        /// What was to be bound.
        at: SocketAddr,
        /// How many files this process may have.
        limit: u64,
    },
    /// Anything else that the kernel says.
    #[error("{protocol} port `{at}` cannot be bound: {said}")]
    Refused {
        /// The protocol.
        protocol: Protocol,
        /// What was to be bound.
        at: SocketAddr,
        /// What the kernel says.
        said: String,
    },
}
