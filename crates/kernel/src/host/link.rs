//! The links (network interfaces) of this host.

use std::collections::BTreeSet;

use super::split_fixed;
use crate::netlink::{Attribute, Attributes, Errno, MessageWriter, Protocol, Result, Socket};

pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_INFO_KIND: u16 = 1;
/// As the kernel calls a dummy.
pub(super) const DUMMY: &str = "dummy";
pub(super) const IFF_UP: u32 = 0x1;
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
    /// Whether it is a dummy: what is sent to it goes nowhere, but its addresses are this host's.
    pub is_dummy: bool,
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

/// Asks for the link of this name alone; `None` if there is none. A host may have a link for each of its pods.
pub(super) fn named(socket: &mut Socket, name: &str) -> Result<Option<Link>> {
    let request = |message: &mut MessageWriter| {
        message.raw(&[0; 16]);
        message.text(IFLA_IFNAME, name);
    };
    match socket.ask("show a link", RTM_GETLINK, request, decode) {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.errno() == Some(Errno(libc::ENODEV)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decodes the body of one `RTM_NEWLINK` message.
pub(super) fn decode(body: &[u8]) -> Result<Link> {
    let (fixed, rest) = split_fixed::<16>(body)?;
    let index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    let (mut name, mut is_dummy) = (String::new(), false);
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_IFNAME => name = attribute.text(),
            IFLA_LINKINFO => is_dummy = kind(&attribute)? == DUMMY,
            _ => {}
        }
    }
    Ok(Link { index, name, is_up: flags & IFF_UP != 0, is_loopback: flags & IFF_LOOPBACK != 0, is_dummy })
}

/// The kind of a link, out of its details; empty for hardware.
fn kind(details: &Attribute<'_>) -> Result<String> {
    for detail in details.nested() {
        let detail = detail?;
        if detail.kind == IFLA_INFO_KIND {
            return Ok(detail.text());
        }
    }
    Ok(String::new())
}
