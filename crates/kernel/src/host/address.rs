//! The addresses of this host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{ip, link, split_fixed};
use crate::netlink::{Attributes, Error, MessageWriter, Protocol, Result, Socket};

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// One address that this host answers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits the hosts of its network share.
    pub prefix_length: u8,
    /// How far it is valid.
    pub scope: Scope,
    /// The number of the link that it is on.
    pub link_index: u32,
    /// The name of that link; empty if the link went away while we read.
    pub link_name: String,
}

/// How far an address is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// Within the site (obsolete IPv6 form) or a number that the administrator chose.
    Other(u8),
    /// On its link only.
    Link,
    /// On this host only.
    Host,
}

impl From<u8> for Scope {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Global,
            253 => Self::Link,
            254 => Self::Host,
            other => Self::Other(other),
        }
    }
}

/// Lists the addresses of this thread's network namespace.
pub fn addresses() -> Result<BTreeSet<Address>> {
    let mut socket = Socket::open(Protocol::Route)?;
    let names: BTreeMap<_, _> =
        link::list(&mut socket)?.into_iter().map(|link| (link.index, link.name)).collect();
    // An ifaddrmsg of zeroes: every family, every link.
    let request = |message: &mut MessageWriter| message.raw(&[0; 8]);
    let found = socket.list("addresses", RTM_GETADDR, request, |head, body| {
        if head.kind == RTM_NEWADDR { decode(body, &names).map(Some) } else { Ok(None) }
    })?;
    Ok(found.into_iter().collect())
}

/// Decodes the body of one `RTM_NEWADDR` message.
pub(super) fn decode(body: &[u8], names: &BTreeMap<u32, String>) -> Result<Address> {
    let (fixed, rest) = split_fixed::<8>(body)?;
    let link_index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let (mut address, mut local) = (None, None);
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        match attribute.kind {
            IFA_ADDRESS => address = Some(ip(attribute.value)?),
            IFA_LOCAL => local = Some(ip(attribute.value)?),
            _ => {}
        }
    }
    // On a point-to-point link `address` is the peer's and `local` is ours.
    let ip =
        local.or(address).ok_or(Error::Malformed { what: "address message without address", offset: 0 })?;
    Ok(Address {
        ip,
        prefix_length: fixed[1],
        scope: Scope::from(fixed[3]),
        link_index,
        link_name: names.get(&link_index).cloned().unwrap_or_default(),
    })
}
