//! Checks that judge the host as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use kernel::host::{Route, RouteTable};
use model::fate::Payload;
use model::net::show_address_and_port;
use model::{Action, Family, Fate, Frontend, Packet, Protocol, ServiceName};

use super::packet::setting;
use super::{Check, HostTrouble, Probe, Severity, Subject, Trouble};

/// Whether connections without an entry of the connection tracker go on.
pub const TCP_LOOSE: Check = Check {
    name: "tcp-loose",
    question: "does the connection tracker pick up connections that are open already?",
    traffic: "open TCP connections whose conntrack entry is gone",
    probe: Probe::Host(tcp_loose),
};

/// Whether the default route of IPv6 stays.
pub const ACCEPT_RA: Check = Check {
    name: "accept-ra",
    question: "does the IPv6 default route stay while this host forwards?",
    traffic: "IPv6 clients and endpoints beyond the router",
    probe: Probe::Host(accept_ra),
};

/// Whether another proxy serves here too.
pub const OTHER_PROXY: Check = Check {
    name: "other-proxy",
    question: "are ours the only rules that serve?",
    traffic: "every Service that the other proxy knows",
    probe: Probe::Host(other_proxy),
};

/// Whether this host has the address of its Node.
pub const NODE_ADDRESS: Check = Check {
    name: "node-address",
    question: "does this host have the address of its Node?",
    traffic: "node ports",
    probe: Probe::Host(node_address),
};

/// Whether this host runs under the name of its Node.
pub const NODE_NAME: Check = Check {
    name: "node-name",
    question: "is there a Node with the name of this one?",
    traffic: "Services with a traffic policy `Local`, and those that prefer this node or zone",
    probe: Probe::Host(node_name),
};

/// What is known of this node and of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name that this node runs by.
    pub name: String,
    /// An object describes it.
    pub is_known: bool,
    /// The operator named its addresses.
    pub has_chosen_ips: bool,
    /// All Nodes were told, and an API server has none of this name.
    pub is_unknown_to_server: bool,
    /// Other Nodes, with their addresses.
    pub others: BTreeMap<String, Vec<IpAddr>>,
    /// Services with endpoints on those of the other Nodes that have an address of this host.
    pub services_of: BTreeMap<String, BTreeSet<ServiceName>>,
}

impl NodeFacts {
    /// The other Node that has an address of this host.
    pub fn same_host(&self, own: impl Fn(&IpAddr) -> bool) -> Option<(&String, IpAddr)> {
        self.others.iter().find_map(|(name, ips)| Some((name, *ips.iter().find(|ip| own(ip))?)))
    }
}

fn tcp_loose(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let is_tcp = |frontend: &Frontend| frontend.protocol() == Protocol::Tcp;
    let has_tcp = subject.table.ports().any(|port| port.routes.iter().any(|route| is_tcp(&route.frontend)));
    if subject.conditions.tcp_loose != Some(false) || !has_tcp {
        return Vec::new();
    }
    vec![possible(
        "nf_conntrack_tcp_loose is 0: a packet of an open connection without a conntrack entry is not translated, so the connection \
         hangs after its entry expires or is deleted",
        "sysctl -w net.netfilter.nf_conntrack_tcp_loose=1",
        TCP_LOOSE.traffic,
    )]
}

/// A router that forwards is no host to router advertisements: with `accept_ra` 1 they are ignored then, and the route that an
/// earlier one made expires. Such a route has a link-local router.
fn accept_ra(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let conditions = subject.conditions;
    if conditions.ipv6_forwarding != Some(true) {
        return Vec::new();
    }
    let is_advertised = |index: u32| {
        conditions.routes.iter().any(|route| {
            let is_link_local = matches!(route.gateway, Some(IpAddr::V6(ip)) if ip.is_unicast_link_local());
            route.table == RouteTable::Main
                && route.prefix_length == 0
                && route.link_index == Some(index)
                && is_link_local
        })
    };
    let trouble = |name: &str| {
        let name = setting("ipv6", name, "accept_ra");
        possible(
            &format!(
                "{name} is 1 while IPv6 forwarding is on, so router advertisements are ignored and the IPv6 default route expires"
            ),
            &format!("sysctl -w {name}=2"),
            ACCEPT_RA.traffic,
        )
    };
    let links = conditions.links.iter().filter(|(index, link)| link.accept_ra == 1 && is_advertised(**index));
    links.map(|(_, link)| trouble(&link.name)).collect()
}

fn other_proxy(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let trouble = |served: &String| {
        possible(
            &format!(
                "another proxy's rules serve here too: {served}; whose rule comes first decides, and theirs may lead to pods that are gone"
            ),
            "kubectl -n kube-system get daemonset kube-proxy   (stop it on this node; portway removes its rules at the next start)",
            OTHER_PROXY.traffic,
        )
    };
    subject.conditions.serving.iter().map(trouble).collect()
}

fn node_address(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let (node, own) = (subject.node, own_addresses(subject));
    if !(node.is_known || node.has_chosen_ips) {
        return Vec::new();
    }
    Family::ALL.into_iter().filter_map(|family| address_of_family(subject, &own, family)).collect()
}

fn address_of_family(subject: &Subject<'_>, own: &BTreeSet<IpAddr>, family: Family) -> Option<HostTrouble> {
    let primary = (*subject.table.node().primary.get(family)).filter(|primary| !own.contains(primary))?;
    let here = address_for_clients(subject, own, family)?;
    let (whose, fix) = if subject.node.has_chosen_ips {
        (format!("`--node-ip` names {primary}"), format!("--node-ip {here}"))
    } else {
        let name = &subject.node.name;
        let fix = format!("kubectl get node {name} -o wide   (then correct the Node, or --node-name)");
        (format!("Node `{name}` has the address {primary}"), fix)
    };
    let cause = format!("{whose}, which this host does not have (it has {here})");
    let lost = refused_node_port(subject, here, family);
    let severity = if lost.is_some() { Severity::Error } else { Severity::Possible };
    let traffic = lost.unwrap_or_else(|| NODE_ADDRESS.traffic.to_owned());
    Some(HostTrouble { trouble: Trouble { severity, cause, fix }, traffic })
}

/// An address of this host: one that clients from outside dial, else one on the link of the default route, where no pods are.
fn address_for_clients(subject: &Subject<'_>, own: &BTreeSet<IpAddr>, family: Family) -> Option<IpAddr> {
    let conditions = subject.conditions;
    let is_default = |route: &&Route| {
        route.table == RouteTable::Main && route.prefix_length == 0 && Family::of(route.destination) == family
    };
    let uplinks: BTreeSet<u32> =
        conditions.routes.iter().filter(is_default).filter_map(|route| route.link_index).collect();
    let on_uplink = conditions.addresses.iter().filter(|address| uplinks.contains(&address.link_index));
    let dialled = subject.paths.iter().filter(|path| !path.is_from_pod).map(|path| path.destination);
    let candidates = dialled.chain(on_uplink.map(|address| address.ip)).chain(own.iter().copied());
    candidates.into_iter().find(|ip| Family::of(*ip) == family && own.contains(ip))
}

/// A node port that answers at the missing address alone, so that no client can reach it here.
fn refused_node_port(subject: &Subject<'_>, here: IpAddr, family: Family) -> Option<String> {
    let routes = subject.table.ports().flat_map(|port| port.routes.iter().map(move |route| (port, route)));
    let mut node_ports = routes
        .filter(|(_, route)| matches!(route.frontend, Frontend::NodePort { family: of, .. } if of == family));
    node_ports.find_map(|(port, route)| {
        let (protocol, number) = (route.frontend.protocol(), route.frontend.port());
        let payload = Payload::Transport { protocol, port: number };
        let source = subject.paths.iter().find(|path| !path.is_from_pod && Family::of(path.source) == family);
        let source = source.map_or(super::path::neighbour(here), |path| path.source);
        let packet = Packet { source, destination: here, payload, interface: None };
        let is_untouched = subject.table.fate(&packet, subject.promises).fate == Fate::Untouched;
        let dialled = show_address_and_port(here, number);
        is_untouched.then(|| format!("{source} → {dialled}/{protocol}, Service {}", port.id().service))
    })
}

fn node_name(subject: &Subject<'_>) -> Vec<HostTrouble> {
    let (node, own) = (subject.node, own_addresses(subject));
    if node.is_known || (node.others.is_empty() && !node.is_unknown_to_server) {
        return Vec::new();
    }
    let name = &node.name;
    if let Some((same_host, ip)) = node.same_host(|ip| own.contains(ip)) {
        let cause = format!(
            "this portway runs as node `{name}`, which is no Node; this host has the address {ip} of Node `{same_host}`"
        );
        let lost = dropped_by_name(subject, same_host);
        let severity = if lost.is_some() { Severity::Error } else { Severity::Possible };
        let traffic = lost.unwrap_or_else(|| NODE_NAME.traffic.to_owned());
        return vec![HostTrouble {
            trouble: Trouble { severity, cause, fix: format!("--node-name {same_host}") },
            traffic,
        }];
    }
    let known: Vec<&str> = node.others.keys().take(5).map(String::as_str).collect();
    let known = if known.is_empty() { String::new() } else { format!(" (there are {})", known.join(", ")) };
    vec![possible(
        &format!(
            "this portway runs as node `{name}`, which is no Node{known}: no endpoint counts as local, and the Node's zone and addresses are unknown"
        ),
        "--node-name NAME   (kube-proxy: --hostname-override NAME), as `kubectl get nodes` shows it",
        NODE_NAME.traffic,
    )]
}

/// A Service whose endpoints are on this very host by its other name, and whose policy therefore drops packets here.
fn dropped_by_name(subject: &Subject<'_>, same_host: &str) -> Option<String> {
    let services = subject.node.services_of.get(same_host)?;
    let mut ports = subject.table.ports().filter(|port| services.contains(&port.id().service));
    ports.find_map(|port| {
        let is_dropped =
            |route: &&model::Route| route.outside == Action::Drop || route.inside == Action::Drop;
        let route = port.routes.iter().find(is_dropped)?;
        Some(format!(
            "a client → {}, Service {}: dropped, since no endpoint counts as local",
            route.frontend,
            port.id().service
        ))
    })
}

fn own_addresses(subject: &Subject<'_>) -> BTreeSet<IpAddr> {
    let is_wide =
        |ip: &IpAddr| !ip.is_loopback() && !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    subject.conditions.addresses.iter().map(|address| address.ip).filter(is_wide).collect()
}

fn possible(cause: &str, fix: &str, traffic: &str) -> HostTrouble {
    let trouble = Trouble { severity: Severity::Possible, cause: cause.to_owned(), fix: fix.to_owned() };
    HostTrouble { trouble, traffic: traffic.to_owned() }
}
