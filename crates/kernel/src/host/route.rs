//! The routes of this host: the tables `main` and `local`, all families.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ip, split_fixed};
use crate::netlink::{Attributes, Client, MessageWriter, Result, Subsystem};

const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
const FRA_TABLE: u16 = 15;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;
const RTM_F_CLONED: u32 = 0x200;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TABLE_DEFAULT: u32 = 253;
const TABLE_MAIN: u32 = 254;
const TABLE_LOCAL: u32 = 255;

/// One route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Which of the two tables it is in.
    pub table: RouteTable,
    /// What happens to packets that take it.
    pub kind: RouteKind,
    /// The first address of the destination prefix; the unspecified address for the default route.
    pub destination: IpAddr,
    /// The length of the destination prefix.
    pub prefix_length: u8,
    /// The number of the link that packets leave by, if the route names one.
    pub link_index: Option<u32>,
    /// The next router, if any.
    pub gateway: Option<IpAddr>,
    /// The source address that this host prefers on this route, if it names one.
    pub preferred_source: Option<IpAddr>,
    /// Lower wins.
    pub metric: u32,
}

/// The routing tables that we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteTable {
    /// Where packets go.
    Main,
    /// What this host itself answers to.
    Local,
}

/// What a route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    /// Forwards or sends.
    Unicast,
    /// Delivers to this host.
    Local,
    /// A broadcast address of this host.
    Broadcast,
    /// Any other kind, by the kernel's number (blackhole, unreachable, multicast ...).
    Other(u8),
}

impl From<u8> for RouteKind {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Unicast,
            2 => Self::Local,
            3 => Self::Broadcast,
            other => Self::Other(other),
        }
    }
}

/// Lists the routes of this thread's network namespace.
pub fn routes() -> Result<BTreeSet<Route>> {
    super::list::<_, 12>(&mut Client::open(Subsystem::Route)?, "routes", RTM_GETROUTE, decode)
}

/// The source address that the kernel selects for a packet to `destination`; `None` where no route leads there. Nothing is sent.
pub fn source_address(destination: IpAddr) -> Result<Option<IpAddr>> {
    let request = |message: &mut MessageWriter| {
        let (family, bits, bytes) = match destination {
            IpAddr::V4(ip) => (AF_INET, 32, ip.octets().to_vec()),
            IpAddr::V6(ip) => (AF_INET6, 128, ip.octets().to_vec()),
        };
        message.raw(&[family, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        message.attribute(RTA_DST, &bytes);
    };
    let mut client = Client::open(Subsystem::Route)?;
    match client.ask("look up a route", RTM_GETROUTE, request, preferred_source) {
        Err(error) if error.errno().is_some_and(|errno| NO_ROUTE.contains(&errno.0)) => Ok(None),
        answer => answer,
    }
}

/// The kernel's answers for a destination that no route leads to.
const NO_ROUTE: [i32; 4] = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL];

fn preferred_source(body: &[u8]) -> Result<Option<IpAddr>> {
    let (_, rest) = split_fixed::<12>(body)?;
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        if attribute.kind == RTA_PREFSRC {
            return ip(attribute.value).map(Some);
        }
    }
    Ok(None)
}

/// Whether a rule of policy routing sends packets of this thread's network namespace to a table other than `local`, `main` and
/// `default`: then the routes that [`routes`] lists may not be the ones that decide.
pub fn has_policy_routing() -> Result<bool> {
    let mut client = Client::open(Subsystem::Route)?;
    let found = super::list::<_, 12>(&mut client, "rules of policy routing", RTM_GETRULE, decode_rule)?;
    Ok(!found.is_empty())
}

/// The table of a rule that leads to another table than the usual ones.
pub(super) fn decode_rule(body: &[u8]) -> Result<Option<u32>> {
    let (fixed, rest) = split_fixed::<12>(body)?;
    let mut table = u32::from(fixed[4]);
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        if attribute.kind == FRA_TABLE {
            table = attribute.u32()?;
        }
    }
    Ok((!(TABLE_DEFAULT..=TABLE_LOCAL).contains(&table)).then_some(table))
}

/// Decodes the body of one `RTM_NEWROUTE` message; `None` for other tables and cached routes.
pub(super) fn decode(body: &[u8]) -> Result<Option<Route>> {
    let (fixed, rest) = split_fixed::<12>(body)?;
    let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    let mut table = u32::from(fixed[4]);
    let mut route = Route {
        table: RouteTable::Main,
        kind: RouteKind::from(fixed[7]),
        destination: unspecified(fixed[0]),
        prefix_length: fixed[1],
        link_index: None,
        gateway: None,
        preferred_source: None,
        metric: 0,
    };
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        match attribute.kind {
            RTA_DST => route.destination = ip(attribute.value)?,
            RTA_OIF => route.link_index = Some(attribute.u32()?),
            RTA_GATEWAY => route.gateway = Some(ip(attribute.value)?),
            RTA_PREFSRC => route.preferred_source = Some(ip(attribute.value)?),
            RTA_PRIORITY => route.metric = attribute.u32()?,
            RTA_TABLE => table = attribute.u32()?,
            _ => {}
        }
    }
    route.table = match table {
        TABLE_MAIN => RouteTable::Main,
        TABLE_LOCAL => RouteTable::Local,
        _ => return Ok(None),
    };
    Ok((flags & RTM_F_CLONED == 0).then_some(route))
}

fn unspecified(family: u8) -> IpAddr {
    if family == AF_INET6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}
