//! The first packet of a connection, as it reaches this node.

use std::net::IpAddr;

use crate::net::Protocol;

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// What it is.
    pub payload: Payload,
    /// The interface that it came in through; a packet that this host sends has none.
    pub interface: Option<String>,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// To a port.
    Transport {
        /// Its protocol.
        protocol: Protocol,
        /// The port that it goes to.
        port: u16,
    },
    /// An ICMP echo request.
    Ping,
}

impl Payload {
    /// Protocol and port, where it has them.
    pub fn transport(self) -> Option<(Protocol, u16)> {
        match self {
            Payload::Transport { protocol, port } => Some((protocol, port)),
            Payload::Ping => None,
        }
    }
}
