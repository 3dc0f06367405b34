//! What the kernel sends about sets, read back. No length is trusted.
//!
//! A listing sends a set in pieces. The first says what the set is, all may have entries.

use std::net::IpAddr;

use ipnet::IpNet;

use super::wire::{self, data};
use super::{Entry, Family, FoundSet, Kind};
use crate::IpProtocol;
use crate::netlink::{Attribute, Attributes, Error, Result};

/// One piece of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// What the set is, if this is its first piece.
    pub(super) set: Option<FoundSet>,
    /// Its entries, without those that our types cannot say.
    pub(super) entries: Vec<Entry>,
}

/// Reads one piece; `kind` is that of the set if an earlier piece said it.
pub(super) fn piece(body: &[u8], kind: Option<Kind>) -> Result<Piece> {
    let rest = body.get(wire::FIXED..).ok_or(malformed("fixed part of the message cut off"))?;
    let (mut name, mut type_name, mut family, mut properties) = (String::new(), None, 0, None);
    let mut entries = None;
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        match attribute.kind {
            wire::NAME => name = attribute.text(),
            wire::TYPE => type_name = Some(attribute.text()),
            wire::FAMILY => family = attribute.u8()?,
            wire::DATA => properties = Some(attribute),
            wire::ENTRIES => entries = Some(attribute),
            _ => {}
        }
    }
    let set = match type_name {
        Some(type_name) => Some(set(name, &type_name, family, properties)?),
        None => None,
    };
    let kind = set.as_ref().map_or(kind, |set| set.kind);
    let entries = match (kind, entries) {
        (Some(kind), Some(entries)) => read_entries(kind, &entries)?,
        _ => Vec::new(),
    };
    Ok(Piece { set, entries })
}

fn set(name: String, type_name: &str, family: u8, properties: Option<Attribute<'_>>) -> Result<FoundSet> {
    let (mut references, mut entries_max, mut ports) = (0, 0, (0, u16::MAX));
    for property in properties.iter().flat_map(Attribute::nested) {
        let property = property?;
        match property.kind {
            data::REFERENCES => references = property.u32_be()?,
            data::ENTRIES_MAX => entries_max = property.u32_be()?,
            data::PORT => ports.0 = property.u16_be()?,
            data::PORT_TO => ports.1 = property.u16_be()?,
            _ => {}
        }
    }
    // A bitmap of some ports alone is none of ours.
    let kind = known(type_name, family).filter(|kind| *kind != Kind::Port || ports == (0, u16::MAX));
    Ok(FoundSet { name, kind, references, entries_max })
}

fn known(type_name: &str, family: u8) -> Option<Kind> {
    let families = Family::ALL.into_iter().flat_map(|family| {
        [Kind::Ip(family), Kind::IpPort(family), Kind::IpPortIp(family), Kind::IpPortNet(family)]
    });
    let is_meant = |kind: &Kind| kind.name() == type_name && wire::number(kind.family()) == family;
    // Whatever family a set of ports was made with, its entries are the same.
    families
        .chain([Kind::Port])
        .find(|kind| is_meant(kind) || *kind == Kind::Port && type_name == kind.name())
}

fn read_entries(kind: Kind, entries: &Attribute<'_>) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    for attribute in entries.nested() {
        let attribute = attribute?;
        if attribute.kind == wire::DATA {
            found.extend(entry(kind, &attribute)?);
        }
    }
    Ok(found)
}

/// `None` for an entry that says what is not in the set.
fn entry(kind: Kind, data: &Attribute<'_>) -> Result<Option<Entry>> {
    let (mut first, mut second, mut protocol, mut port, mut prefix) = (None, None, None, None, None);
    for attribute in data.nested() {
        let attribute = attribute?;
        match attribute.kind {
            data::IP => first = Some(address(&attribute)?),
            data::IP2 => second = Some(address(&attribute)?),
            data::PROTOCOL => protocol = Some(IpProtocol(attribute.u8()?)),
            data::PORT => port = Some(attribute.u16_be()?),
            data::PREFIX2 => prefix = Some(attribute.u8()?),
            data::FLAGS if attribute.u32_be()? & wire::NO_MATCH != 0 => return Ok(None),
            _ => {}
        }
    }
    let missing = || malformed("entry lacks one of its parts");
    let ip = || first.ok_or_else(missing);
    let second = || second.ok_or_else(missing);
    let protocol = || protocol.ok_or_else(missing);
    let port = || port.ok_or_else(missing);
    Ok(Some(match kind {
        Kind::Ip(_) => Entry::Ip(ip()?),
        Kind::IpPort(_) => Entry::IpPort(ip()?, protocol()?, port()?),
        Kind::IpPortIp(_) => Entry::IpPortIp(ip()?, protocol()?, port()?, second()?),
        Kind::IpPortNet(_) => Entry::IpPortNet(ip()?, protocol()?, port()?, network(second()?, prefix)?),
        Kind::Port => Entry::Port(port()?),
    }))
}

/// Without a number of bits it is one address.
fn network(ip: IpAddr, prefix: Option<u8>) -> Result<IpNet> {
    let whole = IpNet::from(ip);
    IpNet::new(ip, prefix.unwrap_or(whole.max_prefix_len()))
        .map_err(|_| malformed("network of too many bits"))
}

fn address(nest: &Attribute<'_>) -> Result<IpAddr> {
    for attribute in nest.nested() {
        let attribute = attribute?;
        let wrong = |_| malformed("address is neither 4 nor 16 bytes long");
        match attribute.kind {
            wire::IPV4 => return <[u8; 4]>::try_from(attribute.value).map(IpAddr::from).map_err(wrong),
            wire::IPV6 => return <[u8; 16]>::try_from(attribute.value).map(IpAddr::from).map_err(wrong),
            _ => {}
        }
    }
    Err(malformed("address is empty"))
}

const fn malformed(what: &'static str) -> Error {
    Error::Malformed { what, offset: 0 }
}
