//! The addresses of this host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{ip, link, split_fixed};
use crate::netlink::{Attributes, Client, Error, Result, Subsystem};

const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// For IPv4 "secondary", for IPv6 "temporary": one bit with two meanings.
const IFA_F_SECONDARY_OR_TEMPORARY: u32 = 0x01;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;

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
    /// What else the kernel knows about it.
    pub flags: AddressFlags,
}

impl Address {
    /// IPv4: another address of the same network was on the link before it. The kernel never selects it as a source by itself.
    pub fn is_secondary(&self) -> bool {
        self.ip.is_ipv4() && self.flags.has(IFA_F_SECONDARY_OR_TEMPORARY)
    }

    /// IPv6: made by the privacy extensions (RFC 8981). It is replaced after some hours.
    pub fn is_temporary(&self) -> bool {
        self.ip.is_ipv6() && self.flags.has(IFA_F_SECONDARY_OR_TEMPORARY)
    }

    /// Its preferred lifetime is over: new connections should not use it.
    pub fn is_deprecated(&self) -> bool {
        self.flags.has(IFA_F_DEPRECATED)
    }

    /// IPv6: duplicate address detection has not ended, or found another host with this address.
    pub fn is_tentative(&self) -> bool {
        self.flags.has(IFA_F_TENTATIVE) || self.flags.has(IFA_F_DADFAILED)
    }

    /// Is it alone in its network (`/32`, `/128`), as a virtual IP usually is?
    pub fn is_single_host(&self) -> bool {
        self.prefix_length == if self.ip.is_ipv4() { 32 } else { 128 }
    }
}

/// The flags of an address (`IFA_F_*`), as the kernel numbers them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressFlags(pub u32);

impl AddressFlags {
    /// The address came second in its network (IPv4), or is temporary (IPv6).
    pub const SECONDARY_OR_TEMPORARY: Self = Self(IFA_F_SECONDARY_OR_TEMPORARY);
    /// The preferred lifetime is over.
    pub const DEPRECATED: Self = Self(IFA_F_DEPRECATED);
    /// Duplicate address detection has not ended.
    pub const TENTATIVE: Self = Self(IFA_F_TENTATIVE);

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
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
    let mut client = Client::open(Subsystem::Route)?;
    let names: BTreeMap<_, _> =
        link::list(&mut client)?.into_iter().map(|link| (link.index, link.name)).collect();
    super::list::<_, 8>(&mut client, "addresses", RTM_GETADDR, |body| decode(body, &names).map(Some))
}

/// Decodes the body of one `RTM_NEWADDR` message.
pub(super) fn decode(body: &[u8], names: &BTreeMap<u32, String>) -> Result<Address> {
    let (fixed, rest) = split_fixed::<8>(body)?;
    let link_index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let (mut address, mut local) = (None, None);
    // The fixed part has room for the eight oldest flags; the attribute has all of them.
    let mut flags = AddressFlags(u32::from(fixed[2]));
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        match attribute.kind {
            IFA_ADDRESS => address = Some(ip(attribute.value)?),
            IFA_LOCAL => local = Some(ip(attribute.value)?),
            IFA_FLAGS => flags = AddressFlags(attribute.u32()?),
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
        flags,
    })
}
