//! What the kernel sends about IPVS, read back. No length is trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::wire::{self, FIXED, server, service};
use super::{Counts, Family, Flags, Forwarding, FoundServer, RealServer, Timeouts, VirtualServer, What};
use crate::IpProtocol;
use crate::netlink::{Attribute, Attributes, Error, Result};

/// One virtual server.
pub(super) fn virtual_server(body: &[u8]) -> Result<VirtualServer> {
    let found = find(body, wire::SERVICE)?.ok_or(malformed("message without a virtual server"))?;
    let mut read = Service::default();
    for attribute in found.nested() {
        read.take(&attribute?)?;
    }
    read.finish()
}

/// What one virtual server has carried.
pub(super) fn carried(body: &[u8]) -> Result<(What, Counts)> {
    let found = find(body, wire::SERVICE)?.ok_or(malformed("message without a virtual server"))?;
    let mut carried = Counts::default();
    for attribute in found.nested() {
        let attribute = attribute?;
        if attribute.kind == service::COUNTS {
            carried = counts(&attribute)?;
        }
    }
    Ok((virtual_server(body)?.what, carried))
}

/// A kernel that does not count in 64 bits says nothing.
fn counts(found: &Attribute<'_>) -> Result<Counts> {
    let mut read = Counts::default();
    for attribute in found.nested() {
        let attribute = attribute?;
        let number = || Ok(u64::from_ne_bytes(bytes(&attribute)?));
        match attribute.kind {
            wire::counts::CONNECTIONS => read.connections = number()?,
            wire::counts::BYTES_IN => read.bytes_in = number()?,
            wire::counts::BYTES_OUT => read.bytes_out = number()?,
            _ => {}
        }
    }
    Ok(read)
}

#[derive(Default)]
struct Service {
    family: Option<Family>,
    protocol: u16,
    address: [u8; 16],
    port: u16,
    mark: Option<u32>,
    scheduler: String,
    flags: u32,
    timeout: u32,
    netmask: [u8; 4],
}

impl Service {
    fn take(&mut self, attribute: &Attribute<'_>) -> Result<()> {
        match attribute.kind {
            service::FAMILY => self.family = Some(family(attribute.u16()?)?),
            service::PROTOCOL => self.protocol = attribute.u16()?,
            service::ADDRESS => self.address = bytes(attribute)?,
            service::PORT => self.port = attribute.u16_be()?,
            service::MARK => self.mark = Some(attribute.u32()?),
            service::SCHEDULER => self.scheduler = attribute.text(),
            service::FLAGS => {
                let [a, b, c, d, ..] = bytes::<8>(attribute)?;
                self.flags = u32::from_ne_bytes([a, b, c, d]);
            }
            service::TIMEOUT => self.timeout = attribute.u32()?,
            service::NETMASK => self.netmask = bytes(attribute)?,
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<VirtualServer> {
        let family = self.family.ok_or(malformed("virtual server without a family"))?;
        let protocol = u8::try_from(self.protocol).map_err(|_| malformed("protocol beyond 255"))?;
        let address = SocketAddr::new(ip(family, self.address), self.port);
        let bits = match family {
            Family::V4 => u32::from_be_bytes(self.netmask).leading_ones(),
            Family::V6 => u32::from_ne_bytes(self.netmask),
        };
        Ok(VirtualServer {
            what: self
                .mark
                .map_or(What::Address(address, IpProtocol(protocol)), |mark| What::Mark(mark, family)),
            scheduler: self.scheduler,
            flags: Flags(self.flags & Flags::SETTABLE),
            persistence_s: (self.flags & wire::PERSISTENT != 0).then_some(self.timeout),
            client_bits: u8::try_from(bits).map_err(|_| malformed("netmask beyond 255 bits"))?,
        })
    }
}

/// One real server of a virtual server of this family.
pub(super) fn real_server(body: &[u8], of: Family) -> Result<FoundServer> {
    let found = find(body, wire::SERVER)?.ok_or(malformed("message without a real server"))?;
    // Kernels before 3.18 do not say the family: it is that of the virtual server.
    let (mut own, mut address, mut port, mut forwarding, mut weight) = (of, None, 0, 0, 0);
    let (mut active, mut inactive, mut persistent) = (0, 0, 0);
    let mut carried = Counts::default();
    for attribute in found.nested() {
        let attribute = attribute?;
        match attribute.kind {
            server::FAMILY => own = family(attribute.u16()?)?,
            server::ADDRESS => address = Some(bytes(&attribute)?),
            server::PORT => port = attribute.u16_be()?,
            server::FORWARDING => forwarding = attribute.u32()?,
            server::WEIGHT => weight = attribute.u32()?,
            server::ACTIVE => active = attribute.u32()?,
            server::INACTIVE => inactive = attribute.u32()?,
            server::PERSISTENT => persistent = attribute.u32()?,
            server::COUNTS => carried = counts(&attribute)?,
            _ => {}
        }
    }
    let address = ip(own, address.ok_or(malformed("real server without an address"))?);
    let forwarding = if forwarding == 0 { Forwarding::Masquerade } else { Forwarding::Other(forwarding) };
    let server = RealServer { address: SocketAddr::new(address, port), weight, forwarding };
    Ok(FoundServer { server, active, inactive, persistent, counts: carried })
}

/// The answer to [`wire::command::GET_CONFIG`]. A kernel without a protocol does not name its timeouts.
pub(super) fn timeouts(body: &[u8]) -> Result<Timeouts> {
    let seconds = |kind| find(body, kind)?.map_or(Ok(0), |found| found.u32());
    Ok(Timeouts {
        tcp_s: seconds(wire::TIMEOUT_TCP)?,
        tcp_fin_s: seconds(wire::TIMEOUT_TCP_FIN)?,
        udp_s: seconds(wire::TIMEOUT_UDP)?,
    })
}

/// The first attribute of this kind behind the fixed part.
fn find(body: &[u8], kind: u16) -> Result<Option<Attribute<'_>>> {
    let rest = body.get(FIXED..).ok_or(malformed("fixed part of the message cut off"))?;
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        if attribute.kind == kind {
            return Ok(Some(attribute));
        }
    }
    Ok(None)
}

fn family(number: u16) -> Result<Family> {
    let known = Family::ALL.into_iter().find(|family| wire::number(*family) == number);
    known.ok_or(malformed("family that is neither IPv4 nor IPv6"))
}

fn ip(family: Family, bytes: [u8; 16]) -> IpAddr {
    let [a, b, c, d, ..] = bytes;
    match family {
        Family::V4 => Ipv4Addr::new(a, b, c, d).into(),
        Family::V6 => Ipv6Addr::from(bytes).into(),
    }
}

fn bytes<const N: usize>(attribute: &Attribute<'_>) -> Result<[u8; N]> {
    attribute.value.try_into().map_err(|_| malformed("attribute has an unexpected size"))
}

const fn malformed(what: &'static str) -> Error {
    Error::Malformed { what, offset: 0 }
}
