//! Reads entries out of netlink bytes.
//!
//! It trusts no length: what is broken is an error, what is not wanted is passed over, early.

use crate::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::wire::{
    DESTINATION_PORT, FIXED, ID, PROTOCOL_NUMBER, SOURCE_PORT, TUPLE_IP, TUPLE_ORIGINAL, TUPLE_PROTOCOL,
    TUPLE_REPLY, TUPLE_ZONE, ZONE,
};
use super::{Entry, Filter, Tuple, Zone};
use crate::netlink::{Attribute, Attributes, Error, Result};

/// What a message of a listing holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// An entry that is wanted.
    Wanted(Entry),
    /// An entry of the wanted protocol.
    Unwanted,
    /// An entry that no kernel with filters would have sent.
    OfAnotherProtocol,
}

/// Reads an entry. The kernel writes the original direction first, so that of an entry that is not wanted nothing else is
/// read.
pub(super) fn entry(body: &[u8], wanted: &Filter) -> Result<Read> {
    let attributes = body.get(FIXED..).ok_or(malformed("fixed part of the message cut off"))?;
    let (mut original, mut reply, mut zone, mut id) = (None, None, Zone::default(), None);
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        match attribute.kind {
            TUPLE_ORIGINAL => {
                let half = Half::read(&attribute)?.filter(|half| half.protocol == wanted.protocol());
                let Some(half) = half else { return Ok(Read::OfAnotherProtocol) };
                if !wanted.matches(half.protocol, &half.tuple) {
                    return Ok(Read::Unwanted);
                }
                if let Some(id) = half.zone {
                    zone = Zone { id, is_of_original: true };
                }
                original = Some(half);
            }
            TUPLE_REPLY => reply = Half::read(&attribute)?,
            ZONE => zone = Zone { id: short(&attribute)?, is_of_original: false },
            ID => id = Some(attribute.u32_be()?),
            _ => {}
        }
    }
    let (Some(original), Some(reply)) = (original, reply) else {
        return Err(malformed("an entry without both of its directions"));
    };
    let (protocol, original, reply) = (original.protocol, original.tuple, reply.tuple);
    Ok(Read::Wanted(Entry { protocol, original, reply, zone, id }))
}

/// One direction as it is read.
struct Half {
    protocol: IpProtocol,
    tuple: Tuple,
    zone: Option<u16>,
}

impl Half {
    /// `None` if it has no ports.
    fn read(attribute: &Attribute<'_>) -> Result<Option<Self>> {
        let (mut ips, mut protocol, mut ports, mut zone) = ((None, None), None, (None, None), None);
        for part in attribute.nested() {
            let part = part?;
            match part.kind {
                TUPLE_IP => ips = read_ips(&part)?,
                TUPLE_PROTOCOL => (protocol, ports) = read_protocol(&part)?,
                TUPLE_ZONE => zone = Some(short(&part)?),
                _ => {}
            }
        }
        let (Some(source_port), Some(destination_port)) = ports else { return Ok(None) };
        let ((Some(source), Some(destination)), Some(protocol)) = (ips, protocol) else {
            return Err(malformed("a direction without addresses or protocol"));
        };
        let tuple = Tuple { source: (source, source_port), destination: (destination, destination_port) };
        Ok(Some(Self { protocol, tuple, zone }))
    }
}

fn read_ips(attribute: &Attribute<'_>) -> Result<(Option<IpAddr>, Option<IpAddr>)> {
    let (mut source, mut destination) = (None, None);
    for part in attribute.nested() {
        let part = part?;
        match part.kind {
            1 => source = Some(Ipv4Addr::from(fixed_size::<4>(&part)?).into()),
            2 => destination = Some(Ipv4Addr::from(fixed_size::<4>(&part)?).into()),
            3 => source = Some(Ipv6Addr::from(fixed_size::<16>(&part)?).into()),
            4 => destination = Some(Ipv6Addr::from(fixed_size::<16>(&part)?).into()),
            _ => {}
        }
    }
    Ok((source, destination))
}

type Ports = (Option<u16>, Option<u16>);

fn read_protocol(attribute: &Attribute<'_>) -> Result<(Option<IpProtocol>, Ports)> {
    let (mut protocol, mut ports) = (None, (None, None));
    for part in attribute.nested() {
        let part = part?;
        match part.kind {
            PROTOCOL_NUMBER => protocol = Some(IpProtocol(part.u8()?)),
            SOURCE_PORT => ports.0 = Some(short(&part)?),
            DESTINATION_PORT => ports.1 = Some(short(&part)?),
            _ => {}
        }
    }
    Ok((protocol, ports))
}

fn short(attribute: &Attribute<'_>) -> Result<u16> {
    fixed_size(attribute).map(u16::from_be_bytes)
}

fn fixed_size<const N: usize>(attribute: &Attribute<'_>) -> Result<[u8; N]> {
    attribute.value.try_into().map_err(|_| malformed("attribute of an entry has an unexpected size"))
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { what, offset: 0 }
}
