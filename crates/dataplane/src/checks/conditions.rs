//! What the kernel says of this host, read once into a value.
//!
//! In: the network namespace of the calling thread. Out: [`Conditions`]. What cannot be read is absent, and named in `unread`, so
//! that no check takes silence for good news.
//!
//! No question here makes the kernel load a module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;

use kernel::host::{self, Address, Bridge, BridgePort, Route};
use kernel::sysctl::{Sysctls, ThisMachine};
use kernel::xtables::{self, Programs};

use crate::served::{self, Served, ServingSigns};

/// Links whose settings are read. A host with more has a link for each of its pods, all set alike.
const LINKS_MAX: usize = 256;

/// What the kernel says of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The links, by their number.
    pub links: BTreeMap<u32, LinkConditions>,
    /// The routes of the tables `main` and `local`.
    pub routes: BTreeSet<Route>,
    /// The addresses.
    pub addresses: BTreeSet<Address>,
    /// Rules of policy routing lead to other tables, so that `routes` may not be the ones that decide.
    pub has_policy_routing: bool,
    /// `net.ipv6.conf.all.forwarding`.
    pub ipv6_forwarding: Option<bool>,
    /// How full the connection tracker is; `None` where it is not loaded.
    pub conntrack: Option<ConntrackLoad>,
    /// `net.netfilter.nf_conntrack_tcp_loose`.
    pub tcp_loose: Option<bool>,
    /// Packets that the reverse path filter has dropped (`IPReversePathFilter`).
    pub reverse_path_drops: u64,
    /// Rules that serve and are not ours.
    pub serving: Vec<String>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// What the kernel says of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkConditions {
    /// Its name.
    pub name: String,
    /// Whether it is the loopback or a dummy: no packet enters by it.
    pub is_inward: bool,
    /// For a bridge: whether packets that it only switches pass the rules, for IPv4 and IPv6.
    pub bridge_calls: Option<(bool, bool)>,
    /// For a bridge: its ports, and whether a frame may leave by the port that it came in by. Empty where the host takes every frame, which
    /// does the same.
    pub hairpin_ports: BTreeMap<String, bool>,
    /// `net.ipv4.conf.LINK.forwarding`.
    pub forwarding: Option<bool>,
    /// `net.ipv6.conf.LINK.force_forwarding`, of Linux 6.17.
    pub forces_ipv6_forwarding: bool,
    /// The larger one of `net.ipv4.conf.{all,LINK}.rp_filter`, as the kernel takes it.
    pub rp_filter: u8,
    /// `net.ipv6.conf.LINK.accept_ra`.
    pub accept_ra: u8,
}

/// How full the connection tracker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConntrackLoad {
    /// Entries.
    pub count: u64,
    /// Entries that it has room for; 0: without end.
    pub max: u64,
    /// Packets that were dropped because it was full (`drop` of `/proc/net/stat/nf_conntrack`); `None` where the kernel does not tell.
    pub dropped: Option<u64>,
}

impl Conditions {
    /// Asks this machine. Rules that are `ours` are not looked for.
    pub fn read(signs: &ServingSigns, is_ours: &dyn Fn(Served) -> bool) -> Self {
        let mut unread = Vec::new();
        let links = get(&mut unread, "links", host::links());
        let bridges = get(&mut unread, "bridges", host::bridges());
        let ports = get(&mut unread, "ports of bridges", host::bridge_ports());
        let mut conditions = Self::of_sysctls(&mut ThisMachine);
        conditions.routes = get(&mut unread, "routes", host::routes());
        conditions.addresses = get(&mut unread, "addresses", host::addresses());
        conditions.has_policy_routing =
            get(&mut unread, "rules of policy routing", host::has_policy_routing());
        let names: BTreeMap<u32, String> = links.iter().map(|link| (link.index, link.name.clone())).collect();
        for link in links.into_iter().filter(|link| link.is_up).take(LINKS_MAX) {
            let mut read = LinkConditions::read(&mut ThisMachine, &link.name);
            read.is_inward = link.is_loopback || link.is_dummy;
            if let Some(bridge) = bridges.iter().find(|bridge| bridge.index == link.index) {
                let ports = ports.iter().filter(|port| port.bridge == bridge.index);
                let by_name = |port: &BridgePort| Some((names.get(&port.index)?.clone(), port.is_hairpin));
                read.add_bridge(&mut ThisMachine, *bridge, ports.filter_map(by_name).collect());
            }
            conditions.links.insert(link.index, read);
        }
        if let Some(load) = &mut conditions.conntrack {
            load.dropped = fs::read_to_string("/proc/thread-self/net/stat/nf_conntrack")
                .ok()
                .and_then(|text| dropped(&text));
        }
        let netstat = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        conditions.reverse_path_drops = counter(&netstat, "IPReversePathFilter").unwrap_or_default();
        let serving = served::serving_here(signs, &known_legacy(), is_ours);
        let serving = get(&mut unread, "rules of other proxies", serving);
        conditions.serving = serving.into_iter().map(|served| served.describe(signs).to_string()).collect();
        conditions.unread = unread;
        conditions
    }

    /// The settings that are not of one link.
    pub(super) fn of_sysctls(settings: &mut impl Sysctls) -> Self {
        let conntrack = number(settings, "net/netfilter/nf_conntrack_count")
            .zip(number(settings, "net/netfilter/nf_conntrack_max"))
            .map(|(count, max)| ConntrackLoad { count, max, dropped: None });
        Self {
            ipv6_forwarding: number(settings, "net/ipv6/conf/all/forwarding").map(|value| value != 0),
            conntrack,
            tcp_loose: number(settings, "net/netfilter/nf_conntrack_tcp_loose").map(|value| value != 0),
            ..Self::default()
        }
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<&LinkConditions> {
        self.links.values().find(|link| link.name == name)
    }
}

impl LinkConditions {
    /// The settings of one link.
    pub(super) fn read(settings: &mut impl Sysctls, name: &str) -> Self {
        let mut of =
            |family: &str, setting: &str| number(settings, &format!("net/{family}/conf/{name}/{setting}"));
        let (forwarding, forced) = (of("ipv4", "forwarding"), of("ipv6", "force_forwarding"));
        let (strict, accept_ra) = (of("ipv4", "rp_filter"), of("ipv6", "accept_ra"));
        let of_all = number(settings, "net/ipv4/conf/all/rp_filter");
        let small = |value: Option<u64>| value.and_then(|value| u8::try_from(value).ok()).unwrap_or_default();
        Self {
            name: name.to_owned(),
            forwarding: forwarding.map(|value| value != 0),
            forces_ipv6_forwarding: forced.is_some_and(|value| value != 0),
            rp_filter: small(strict).max(small(of_all)),
            accept_ra: small(accept_ra),
            ..Self::default()
        }
    }
}

impl LinkConditions {
    fn add_bridge(
        &mut self,
        settings: &mut impl Sysctls,
        bridge: Bridge,
        hairpin_ports: BTreeMap<String, bool>,
    ) {
        let all = bridge_calls_of_all(settings);
        self.bridge_calls = Some((all.0 || bridge.calls_iptables, all.1 || bridge.calls_ip6tables));
        if !bridge.is_promiscuous {
            self.hairpin_ports = hairpin_ports;
        }
    }
}

/// Without the module `br_netfilter` these settings are missing, and bridged packets pass no rule.
fn bridge_calls_of_all(settings: &mut impl Sysctls) -> (bool, bool) {
    let mut is_on = |name: &str| {
        number(settings, &format!("net/bridge/bridge-nf-call-{name}")).is_some_and(|value| value != 0)
    };
    (is_on(xtables::program(xtables::Family::V4)), is_on(xtables::program(xtables::Family::V6)))
}

/// Legacy tables of which the kernel does not tell the chains prove nothing.
fn known_legacy() -> Vec<kernel::xtables::Legacy> {
    let mut found = Programs::find_in(&[]).legacy;
    found.retain(|legacy| legacy.chains.is_some());
    found
}

fn number(settings: &mut impl Sysctls, name: &str) -> Option<u64> {
    settings.read(name).ok().flatten()?.trim().parse().ok()
}

fn get<T: Default>(unread: &mut Vec<String>, what: &str, result: Result<T, impl Display>) -> T {
    result.unwrap_or_else(|error| {
        unread.push(format!("{what}: {error}"));
        T::default()
    })
}

/// The column `drop` of all processors together. The numbers are hexadecimal.
pub(super) fn dropped(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let column = lines.next()?.split_whitespace().position(|name| name == "drop")?;
    let value =
        |line: &str| line.split_whitespace().nth(column).and_then(|text| u64::from_str_radix(text, 16).ok());
    Some(lines.filter_map(value).sum())
}

/// A counter of `/proc/net/netstat`: lines come in pairs, names and values.
pub(super) fn counter(text: &str, wanted: &str) -> Option<u64> {
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks(2).find_map(|pair| {
        let [names, values] = pair else { return None };
        let column = names.split_whitespace().position(|name| name == wanted)?;
        values.split_whitespace().nth(column)?.parse().ok()
    })
}
