//! The links (network interfaces) of this host.

use std::collections::BTreeSet;

use super::split_fixed;
use crate::netlink::{Attribute, Attributes, Client, Errno, MessageWriter, Result, Subsystem};

pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_MASTER: u16 = 10;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BRPORT_MODE: u16 = 4;
const IFLA_BR_NF_CALL_IPTABLES: u16 = 36;
const IFLA_BR_NF_CALL_IP6TABLES: u16 = 37;
/// As the kernel calls a bridge.
const BRIDGE: &str = "bridge";
/// As the kernel calls a dummy.
pub(super) const DUMMY: &str = "dummy";
pub(super) const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_PROMISC: u32 = 0x100;

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
    list(&mut Client::open(Subsystem::Route)?)
}

pub(super) fn list(client: &mut Client) -> Result<BTreeSet<Link>> {
    super::list::<_, 16>(client, "links", RTM_GETLINK, |body| decode(body).map(Some))
}

/// A bridge, by the number of its link: whether packets that it only switches pass the rules of netfilter. The sysctls
/// `net.bridge.bridge-nf-call-*` turn that on for all bridges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bridge {
    /// The number of its link.
    pub index: u32,
    /// `nf_call_iptables` of this bridge.
    pub calls_iptables: bool,
    /// `nf_call_ip6tables` of this bridge.
    pub calls_ip6tables: bool,
    /// The host takes every frame that passes.
    pub is_promiscuous: bool,
}

/// Lists the bridges of this thread's network namespace.
pub fn bridges() -> Result<BTreeSet<Bridge>> {
    super::list::<_, 16>(&mut Client::open(Subsystem::Route)?, "bridges", RTM_GETLINK, decode_bridge)
}

/// Decodes the body of one `RTM_NEWLINK` message; `None` if the link is no bridge.
pub(super) fn decode_bridge(body: &[u8]) -> Result<Option<Bridge>> {
    let (fixed, rest) = split_fixed::<16>(body)?;
    let index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        if attribute.kind == IFLA_LINKINFO && kind(&attribute)? == BRIDGE {
            let (v4, v6) = bridge_calls(&attribute)?;
            let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
            let is_promiscuous = flags & IFF_PROMISC != 0;
            return Ok(Some(Bridge { index, calls_iptables: v4, calls_ip6tables: v6, is_promiscuous }));
        }
    }
    Ok(None)
}

/// A port of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BridgePort {
    /// The number of its link.
    pub index: u32,
    /// The number of the bridge.
    pub bridge: u32,
    /// Whether a frame may leave by the port that it came in by.
    pub is_hairpin: bool,
}

/// Lists the ports of all bridges of this thread's network namespace.
pub fn bridge_ports() -> Result<BTreeSet<BridgePort>> {
    super::list::<_, 16>(
        &mut Client::open(Subsystem::Route)?,
        "bridge ports",
        RTM_GETLINK,
        decode_bridge_port,
    )
}

/// Decodes the body of one `RTM_NEWLINK` message; `None` if the link is no port of a bridge.
pub(super) fn decode_bridge_port(body: &[u8]) -> Result<Option<BridgePort>> {
    let (fixed, rest) = split_fixed::<16>(body)?;
    let index = u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let (mut bridge, mut is_hairpin) = (None, None);
    for attribute in Attributes::new(rest) {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_MASTER => bridge = attribute.value.try_into().ok().map(u32::from_ne_bytes),
            IFLA_LINKINFO => is_hairpin = hairpin(&attribute)?,
            _ => {}
        }
    }
    Ok(bridge.zip(is_hairpin).map(|(bridge, is_hairpin)| BridgePort { index, bridge, is_hairpin }))
}

/// `None` if these are not the details of a port of a bridge.
fn hairpin(details: &Attribute<'_>) -> Result<Option<bool>> {
    let (mut is_port, mut is_hairpin) = (false, false);
    for detail in details.nested() {
        let detail = detail?;
        match detail.kind {
            IFLA_INFO_SLAVE_KIND => is_port = detail.text() == BRIDGE,
            IFLA_INFO_SLAVE_DATA => {
                for option in detail.nested() {
                    let option = option?;
                    if option.kind == IFLA_BRPORT_MODE {
                        is_hairpin = option.value.first().is_some_and(|byte| *byte != 0);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(is_port.then_some(is_hairpin))
}

fn bridge_calls(details: &Attribute<'_>) -> Result<(bool, bool)> {
    let (mut v4, mut v6) = (false, false);
    for detail in details.nested() {
        let detail = detail?;
        if detail.kind != IFLA_INFO_DATA {
            continue;
        }
        for option in detail.nested() {
            let option = option?;
            match option.kind {
                IFLA_BR_NF_CALL_IPTABLES => v4 = option.value.first().is_some_and(|byte| *byte != 0),
                IFLA_BR_NF_CALL_IP6TABLES => v6 = option.value.first().is_some_and(|byte| *byte != 0),
                _ => {}
            }
        }
    }
    Ok((v4, v6))
}

/// Asks for the link of this name alone; `None` if there is none. A host may have a link for each of its pods.
pub(super) fn named(client: &mut Client, name: &str) -> Result<Option<Link>> {
    let request = |message: &mut MessageWriter| {
        message.raw(&[0; 16]);
        message.text(IFLA_IFNAME, name);
    };
    match client.ask("show a link", RTM_GETLINK, request, decode) {
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
