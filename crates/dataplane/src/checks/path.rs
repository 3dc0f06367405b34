//! The paths of example packets through this host.
//!
//! In: the table, and the routes of the host. Out: for each pair of links that packets of Services take, one [`Path`]: a real
//! source (a pod of this node, or a client beyond a router), a frontend, and the endpoint that the model sends it to.
//!
//! Absent on purpose: packets that this host itself sends. They are not forwarded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use kernel::forward_filter::{Filter, Packet as Filtered, Verdict};
use kernel::host::{RouteKind, RouteTable};
use kernel::xtables;
use model::Place;
use model::fate::{OneOf, Payload};
use model::net::{IpNet, show_address_and_port};
use model::{
    Family, Fate, ForwardingTable, Frontend, FrontendKind, Packet, Promises, Protocol, ServicePortId,
};

use super::Conditions;

/// Paths that are looked at.
const PATHS_MAX: usize = 64;
/// Pods that are taken as clients, for each family.
const CLIENTS_MAX: usize = 16;
/// Sources that no host has (RFC 5737, RFC 3849): what drops these too does not drop by source.
const UNUSED_SOURCES: [&str; 2] = ["198.51.100.77", "2001:db8:ffff::77"];

/// The path of one packet, the first of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact about the path")]
pub struct Path {
    /// The service port.
    pub service: ServicePortId,
    /// Its source.
    pub source: IpAddr,
    /// Whether the source is a pod of this node, and not an example of a client elsewhere.
    pub is_from_pod: bool,
    /// Whether the source is known to be here. Else it is a neighbour on a bridge of this host, of which no object names the node.
    pub is_certain: bool,
    /// The link that it comes in by; `None`: this host sends it.
    pub in_link: Option<String>,
    /// The address that the client dials.
    pub destination: IpAddr,
    /// The port that the client dials.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// The endpoint that it is sent to.
    pub endpoint: IpAddr,
    /// The port of the endpoint.
    pub endpoint_port: u16,
    /// Whether the endpoint is this host itself.
    pub is_delivered_here: bool,
    /// The link that it leaves by, where a route of table `main` tells.
    pub out_link: Option<String>,
    /// Whether the endpoint is a neighbour on `out_link`, without a router between.
    pub is_endpoint_on_link: bool,
    /// Whether the source is replaced by an address of this host.
    pub is_masqueraded: bool,
    /// What the rules on the forward hook do with it.
    pub filter: FilterVerdict,
}

/// What the rules on the forward hook do with a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FilterVerdict {
    /// It was not asked, since the packet does not pass the hook.
    #[default]
    NotAsked,
    /// They let it pass.
    Accepted,
    /// They drop it, and would from any source.
    Dropped {
        /// Table, chain and rule.
        by: String,
        /// The command that lets it pass.
        fix: String,
    },
    /// They drop it because of its source, which is only an example.
    DroppedBySource {
        /// Table, chain and rule.
        by: String,
        /// The command that lets it pass.
        fix: String,
    },
    /// It depends upon a rule that is not understood.
    Unknown(String),
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dialled = show_address_and_port(self.destination, self.port);
        let endpoint = show_address_and_port(self.endpoint, self.endpoint_port);
        let (protocol, service) = (self.protocol, &self.service.service);
        match (&self.in_link, self.is_from_pod) {
            (_, true) => {
                write!(f, "pod {} → {dialled}/{protocol} → {endpoint}, Service {service}", self.source)
            }
            (Some(link), false) => {
                write!(f, "{} by {link} → {dialled}/{protocol} → {endpoint}, Service {service}", self.source)
            }
            (None, false) => {
                write!(f, "{} → {dialled}/{protocol} → {endpoint}, Service {service}", self.source)
            }
        }
    }
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Client {
    link: String,
    source: IpAddr,
    is_pod: bool,
    is_certain: bool,
}

/// One path for each pair of links, and of pods on one link one for each pod.
pub fn paths(conditions: &Conditions, table: &ForwardingTable, promises: &Promises) -> Vec<Path> {
    let clients = clients(conditions, table);
    let mut found: BTreeMap<_, Path> = BTreeMap::new();
    for port in table.ports() {
        for route in &port.routes {
            let of_family =
                clients.iter().filter(|client| Family::of(client.source) == route.frontend.family());
            for client in of_family.filter(|client| client.is_pod == (route.kind == FrontendKind::ClusterIp))
            {
                for path in dial(conditions, table, promises, client, &route.frontend) {
                    let key = (
                        client.clone(),
                        path.out_link.clone(),
                        path.is_delivered_here,
                        path.is_masqueraded,
                        path.endpoint == path.source,
                    );
                    if found.len() < PATHS_MAX {
                        found.entry(key).or_insert(path);
                    }
                }
            }
        }
    }
    found.into_values().collect()
}

fn dial(
    conditions: &Conditions,
    table: &ForwardingTable,
    promises: &Promises,
    client: &Client,
    frontend: &Frontend,
) -> Vec<Path> {
    let dialled = match frontend {
        Frontend::Address { ip, .. } => Some(*ip),
        Frontend::NodePort { family, .. } => conditions.address_on(&client.link, *family),
    };
    let Some(destination) = dialled else { return Vec::new() };
    let payload = Payload::Transport { protocol: frontend.protocol(), port: frontend.port() };
    let interface = Some(client.link.clone());
    let packet = Packet { source: client.source, destination, payload, interface };
    let Fate::OneOf(one_of) = table.fate(&packet, promises).fate else { return Vec::new() };
    let mut paths = paths_of(conditions, table, &packet, &one_of);
    for path in &mut paths {
        (path.is_from_pod, path.is_certain) = (client.is_pod, client.is_certain);
    }
    paths
}

/// The paths of this packet, one for each endpoint where it may land.
pub fn paths_of(
    conditions: &Conditions,
    table: &ForwardingTable,
    packet: &Packet,
    one_of: &OneOf,
) -> Vec<Path> {
    let Payload::Transport { protocol, port } = packet.payload else { return Vec::new() };
    let is_of_host = table.node().is_own(packet.source);
    let entered = packet.interface.clone().or_else(|| conditions.way_to(packet.source).map(|(link, _)| link));
    let path = |landing: &model::Landing| {
        let out = conditions.way_to(landing.address);
        Path {
            service: one_of.port.clone(),
            source: packet.source,
            is_from_pod: false,
            is_certain: true,
            in_link: entered.clone().filter(|_| !is_of_host),
            destination: packet.destination,
            port,
            protocol,
            endpoint: landing.address,
            endpoint_port: landing.port,
            is_delivered_here: table.node().is_own(landing.address),
            is_endpoint_on_link: out.as_ref().is_some_and(|(_, is_on_link)| *is_on_link),
            out_link: out.map(|(link, _)| link),
            is_masqueraded: landing.masqueraded,
            filter: FilterVerdict::NotAsked,
        }
    };
    one_of.landings.iter().map(path).collect()
}

/// Pods of this node by the link that leads to them, and for each link with a default route its router.
fn clients(conditions: &Conditions, table: &ForwardingTable) -> BTreeSet<Client> {
    let mut clients = BTreeSet::new();
    for family in Family::ALL {
        let endpoints = table
            .ports()
            .flat_map(|port| port.routes.iter())
            .flat_map(|route| [&route.inside, &route.outside].into_iter().filter_map(|action| action.pool()));
        let is_pod = |endpoint: &&model::Endpoint| {
            (endpoint.place == Place::Here || conditions.is_on_bridge(endpoint.address))
                && Family::of(endpoint.address) == family
                && !table.node().is_own(endpoint.address)
        };
        let pods: BTreeSet<(IpAddr, bool)> = endpoints
            .flat_map(model::Pool::endpoints)
            .filter(is_pod)
            .map(|endpoint| (endpoint.address, endpoint.place == Place::Here))
            .collect();
        let by_link = |(source, is_certain): (IpAddr, bool)| {
            let (link, _) = conditions.way_to(source)?;
            Some(Client { link, source, is_pod: true, is_certain })
        };
        let pods: BTreeSet<Client> = pods.into_iter().take(CLIENTS_MAX).filter_map(by_link).collect();
        let links: BTreeSet<&String> =
            pods.iter().filter(|pod| pod.is_certain).map(|pod| &pod.link).collect();
        let outside = conditions.outside(family).into_iter().filter(|client| !links.contains(&client.link));
        clients.extend(outside);
        clients.extend(pods);
    }
    clients
}

impl Conditions {
    /// The link by which packets to `address` leave, and whether it is a neighbour there; `None` where no route leads there, or
    /// one does not forward.
    pub(super) fn way_to(&self, address: IpAddr) -> Option<(String, bool)> {
        let covers = |route: &&kernel::host::Route| {
            route.table == RouteTable::Main
                && route.destination.is_ipv4() == address.is_ipv4()
                && IpNet::new(route.destination, route.prefix_length).is_ok_and(|net| net.contains(&address))
        };
        let routes = self.routes.iter().filter(covers);
        let best = routes.min_by_key(|route| (u8::MAX - route.prefix_length, route.metric))?;
        let link = self.links.get(&best.link_index?)?;
        (best.kind == RouteKind::Unicast).then(|| (link.name.clone(), best.gateway.is_none()))
    }

    /// Is it a neighbour on a bridge of this host?
    fn is_on_bridge(&self, address: IpAddr) -> bool {
        let way = self.way_to(address).filter(|(_, is_on_link)| *is_on_link);
        way.and_then(|(link, _)| self.link(&link)?.bridge_calls).is_some()
    }

    /// An address of this host that clients who come in by this link may dial.
    fn address_on(&self, link: &str, family: Family) -> Option<IpAddr> {
        let is_usable = |ip: &IpAddr| Family::of(*ip) == family && !ip.is_loopback() && !is_link_local(*ip);
        let mut on_link =
            self.addresses.iter().filter(|address| address.link_name == link).map(|address| address.ip);
        on_link.find(|ip| is_usable(ip))
    }

    /// Clients from outside: for each link with a default route, its router; on a host without one, a neighbour on each link.
    fn outside(&self, family: Family) -> BTreeSet<Client> {
        let client = |link: &u32, source: IpAddr| {
            let link = self.links.get(link).filter(|link| !link.is_inward)?;
            Some(Client { link: link.name.clone(), source, is_pod: false, is_certain: true })
        };
        let is_default = |route: &&kernel::host::Route| {
            route.table == RouteTable::Main
                && route.prefix_length == 0
                && route.gateway.is_some_and(|ip| Family::of(ip) == family)
        };
        let routers = self.routes.iter().filter(is_default);
        let routers: BTreeSet<Client> =
            routers.filter_map(|route| client(&route.link_index?, route.gateway?)).collect();
        if !routers.is_empty() {
            return routers;
        }
        let is_wide = |address: &&kernel::host::Address| {
            let bits = if address.ip.is_ipv4() { 32 } else { 128 };
            Family::of(address.ip) == family
                && address.prefix_length < bits
                && !address.ip.is_loopback()
                && !is_link_local(address.ip)
        };
        let wide = self.addresses.iter().filter(is_wide);
        wide.filter_map(|address| client(&address.link_index, neighbour(address.ip))).collect()
    }
}

/// The address beside this one.
pub(super) fn neighbour(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) ^ 1).into()),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) ^ 1).into()),
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

impl Path {
    /// Whether this host forwards it: it comes in by a link and is for another host.
    pub fn is_forwarded(&self) -> bool {
        self.in_link.is_some() && !self.is_delivered_here
    }

    /// Asks the rules on the forward hook about this packet. `mark` is the bit that our rules set on packets to be masqueraded.
    pub fn ask(&mut self, filter: &mut Filter, mark: u32) {
        if !self.is_forwarded() || self.out_link.is_none() {
            return;
        }
        let packet = self.filtered(self.source, mark);
        let by_source = || {
            let unused = UNUSED_SOURCES.iter().filter_map(|text| text.parse::<IpAddr>().ok());
            unused.filter(|ip| ip.is_ipv4() == self.source.is_ipv4()).map(|ip| self.filtered(ip, mark)).next()
        };
        self.filter = match filter.judge(&packet) {
            Verdict::Accepted => FilterVerdict::Accepted,
            Verdict::Unknown { because } => FilterVerdict::Unknown(because),
            Verdict::Dropped { by } => {
                let fix = let_pass(&by.table, &by.chain, self.source.is_ipv4());
                let is_certain = self.is_from_pod
                    || by_source()
                        .is_none_or(|packet| matches!(filter.judge(&packet), Verdict::Dropped { .. }));
                let by = by.to_string();
                if is_certain {
                    FilterVerdict::Dropped { by, fix }
                } else {
                    FilterVerdict::DroppedBySource { by, fix }
                }
            }
        };
    }

    fn filtered(&self, source: IpAddr, mark: u32) -> Filtered {
        Filtered {
            in_interface: self.in_link.clone(),
            out_interface: self.out_link.clone(),
            source,
            destination: self.endpoint,
            protocol: self.protocol.into(),
            source_port: None,
            destination_port: Some(self.endpoint_port),
            is_destination_translated: true,
            mark: if self.is_masqueraded { mark } else { 0 },
        }
    }
}

/// The command that lets translated connections pass, both ways, in the very chain that drops them: an accept in another chain
/// does not overrule a drop.
fn let_pass(table: &str, chain: &str, is_ipv4: bool) -> String {
    let program = xtables::program(if is_ipv4 { xtables::Family::V4 } else { xtables::Family::V6 });
    match table.split_once(' ') {
        Some(("ip" | "ip6", name @ ("filter" | "mangle" | "raw" | "security"))) => {
            format!("{program} -t {name} -I {chain} -m conntrack --ctstate DNAT -j ACCEPT")
        }
        Some(("ip" | "ip6" | "inet", _)) => format!("nft insert rule {table} {chain} ct status dnat accept"),
        Some((program, name)) => {
            format!("{program} -t {name} -I {chain} -m conntrack --ctstate DNAT -j ACCEPT")
        }
        None => format!("{program} -I {chain} -m conntrack --ctstate DNAT -j ACCEPT"),
    }
}
