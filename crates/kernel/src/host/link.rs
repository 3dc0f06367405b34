//! The links (network interfaces) of this host.

use std::collections::BTreeSet;

use super::split_fixed;
use crate::netlink::{Attributes, MessageWriter, Protocol, Result, Socket};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its number in this network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it was switched on.
    pub is_up: bool,
    /// Whether it is the loopback.
    pub is_loopback: bool,
}

/// Lists the links of this thread's network namespace.
pub fn links() -> Result<BTreeSet<Link>> {
    list(&mut Socket::open(Protocol::Route)?)
}

pub(super) fn list(socket: &mut Socket) -> Result<BTreeSet<Link>> {
    // An ifinfomsg of zeroes: every family, every link.
    let request = |message: &mut MessageWriter| message.raw(&[0; 16]);
    let found = socket.list("links", RTM_GETLINK, request, |head, body| {
        if head.kind == RTM_NEWLINK { decode(body).map(Some) } else { Ok(None) }
    })?;
    Ok(found.into_iter().collect())
}

/// Decodes the body of one `RTM_NEWLINK` message.
pub(super) fn decode(body: &[u8]) -> Result<Link> {
    let (fixed, rest) = split_fixed::<16>(body)?;
    let index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    let mut name = String::new();
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        if attribute.kind == IFLA_IFNAME {
            name = attribute.text();
        }
    }
    Ok(Link { index, name, is_up: flags & IFF_UP != 0, is_loopback: flags & IFF_LOOPBACK != 0 })
}
