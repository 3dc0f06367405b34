//! Refuses ranges that this host's own network already uses.
//!
//! A cluster IP that is also somebody's address cannot be reached: the kernel would send packets for one to the other.
//! So a `--service-cidr` may share nothing with an address of this host nor with a route. Default routes (and their
//! halves, `0.0.0.0/1` and `128.0.0.0/1`, which VPNs write) say nothing about who lives there and do not count.
//!
//! Addresses for load balancers often lie in the network of the node itself, since that is where neighbours can reach
//! them, and some are bound to this host by other programs (keepalived). So for `--load-balancer-cidr` only routes that lie inside the
//! range count. An address of this host inside it is no reason to refuse: it is a Service's, or is given to none and reported.
//!
//! Absent on purpose: advice to remove an address. Which program put it there, and who relies upon it, is not known here.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dataplane::registry;
use kernel::host::{Address, Route, RouteKind, RouteTable};
use model::net::IpNet;
use model::{ObjectRef, Report};

use super::StoreError;
use super::options::{LOAD_BALANCER_CIDR, Options, SERVICE_CIDR, overlaps};

/// Whether a mode keeps addresses of Services on this link: they are ours, and clash with nothing.
fn is_our_link(name: &str) -> bool {
    registry::service_interfaces().contains(&name)
}

/// What this host uses already.
#[derive(Clone, Debug, Default)]
pub struct HostNetwork {
    /// Its addresses.
    pub addresses: BTreeSet<Address>,
    /// Its routes.
    pub routes: BTreeSet<Route>,
}

impl HostNetwork {
    /// Asks the kernel. What cannot be read is left out, with a warning: a host that hides its routes can still serve.
    pub fn read() -> Self {
        let unreadable = |what: &str, error: &kernel::netlink::Error| {
            tracing::warn!(%error, "cannot list the {what} of this host: ranges are not compared with them");
        };
        let mut addresses =
            kernel::host::addresses().inspect_err(|e| unreadable("addresses", e)).unwrap_or_default();
        // Those of an interface that the operator named for a mode are ours, too. A mode's own link is left out with its routes.
        for is_of_a_service in registry::MODES.iter().filter_map(|mode| mode.service_addresses()) {
            addresses.retain(|address| is_our_link(&address.link_name) || !is_of_a_service(address));
        }
        let routes = kernel::host::routes().inspect_err(|e| unreadable("routes", e)).unwrap_or_default();
        Self { addresses, routes }
    }

    /// The same without these addresses, and without the routes that stem from them.
    #[must_use]
    pub fn without(&self, addresses: &BTreeSet<IpAddr>) -> Self {
        let (dropped, kept): (BTreeSet<Address>, BTreeSet<Address>) =
            self.addresses.iter().cloned().partition(|address| addresses.contains(&address.ip));
        let on = |address: &Address, route: &Route| {
            let net = IpNet::new(address.ip, address.prefix_length).map(|net| net.trunc());
            route.gateway.is_none()
                && route.link_index == Some(address.link_index)
                && route_net(route) == net.ok()
        };
        let stems_from_them = |route: &&Route| {
            dropped.iter().any(|address| on(address, route)) && !kept.iter().any(|address| on(address, route))
        };
        let routes = self.routes.iter().filter(|route| !stems_from_them(route)).cloned().collect();
        Self { addresses: kept, routes }
    }

    /// The addresses that are this host's own.
    pub fn own_addresses(&self) -> BTreeSet<IpAddr> {
        let own = self.addresses.iter().filter(|address| !is_our_link(&address.link_name));
        own.map(|address| address.ip).collect()
    }

    /// Networks that are in use here, each with the words for it. Addresses first.
    fn used(&self) -> Vec<Used> {
        let ours: BTreeSet<u32> =
            self.addresses.iter().filter(|a| is_our_link(&a.link_name)).map(|a| a.link_index).collect();
        let addresses = self.addresses.iter().filter(|a| !ours.contains(&a.link_index)).map(Used::address);
        let is_ours = |route: &Route| route.link_index.is_some_and(|link| ours.contains(&link));
        let routes = self.routes.iter().filter(|route| says_who_lives_there(route) && !is_ours(route));
        addresses.chain(routes.filter_map(Used::route)).collect()
    }
}

/// Refuses the first range of `options` that overlaps something of this host.
pub fn refuse_overlap(options: &Options, host: &HostNetwork) -> Result<(), StoreError> {
    let used = host.used();
    let service = options.service_cidrs.iter().map(|range| (SERVICE_CIDR, range.trunc()));
    let load_balancer = options.load_balancer_cidrs.iter().map(|range| (LOAD_BALANCER_CIDR, range.trunc()));
    for (flag, range) in service.chain(load_balancer) {
        let clashes = |used: &&Used| {
            overlaps(&range, &used.net)
                && (flag == SERVICE_CIDR || range.contains(&used.net) && !used.is_address)
        };
        if let Some(clash) = used.iter().find(clashes) {
            let (what, suggestion) = (clash.words.clone(), suggestion(flag, &range, options, &used));
            return Err(StoreError::Overlap { flag, range, what, suggestion });
        }
    }
    Ok(())
}

/// A network in use.
#[derive(Debug)]
struct Used {
    net: IpNet,
    words: String,
    is_address: bool,
}

/// A report on an address of this host that lies in the range for load balancers and belongs to no Service.
pub(crate) fn skipped(pool: &IpNet, ip: IpAddr) -> Report {
    let object = ObjectRef { kind: "Range", name: format!("{LOAD_BALANCER_CIDR} {pool}").into() };
    let problem =
        "is an address of this host, so no Service is given it unless its `loadBalancerIP` names it";
    Report::new(object, "address", &ip.to_string(), problem)
}

impl Used {
    fn address(address: &Address) -> Self {
        let words = format!("the address {} on {}", address.ip, address.link_name);
        Self { net: IpNet::from(address.ip), words, is_address: true }
    }

    fn route(route: &Route) -> Option<Self> {
        let net = route_net(route)?;
        let via = route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
        Some(Self { net, words: format!("the route {net}{via}"), is_address: false })
    }
}

fn route_net(route: &Route) -> Option<IpNet> {
    IpNet::new(route.destination, route.prefix_length).ok().map(|net| net.trunc())
}

/// Routes of the table `local`, and those that merely repeat an address, are left out, as are default routes.
fn says_who_lives_there(route: &Route) -> bool {
    let repeats_an_address = matches!(route.kind, RouteKind::Local | RouteKind::Broadcast);
    route.table == RouteTable::Main && !repeats_an_address && route.prefix_length > 1
}

/// Ranges that few hosts use, the usual ones first.
const FOR_SERVICES: [&str; 10] = [
    "10.96.0.0/12",
    "10.200.0.0/16",
    "172.30.0.0/16",
    "192.168.240.0/20",
    "100.64.128.0/17",
    "198.18.0.0/16",
    "fd00:96::/112",
    "fd5a:7e1f:96::/112",
    "fdc9:30b2:96::/112",
    "fd12:6ca4:96::/112",
];
const FOR_LOAD_BALANCERS: [&str; 10] = [
    "192.168.240.0/24",
    "172.31.240.0/24",
    "10.250.240.0/24",
    "100.64.240.0/24",
    "198.19.240.0/24",
    "192.0.2.0/24",
    "fd00:97::/112",
    "fd5a:7e1f:97::/112",
    "fdc9:30b2:97::/112",
    "fd12:6ca4:97::/112",
];

/// A range of the same family that shares nothing with this host, with the other ranges of `options`, nor with the one
/// that was refused. `None` when this host uses all that we know of.
fn suggestion(flag: &str, range: &IpNet, options: &Options, used: &[Used]) -> Option<IpNet> {
    let (candidates, others) = if flag == SERVICE_CIDR {
        (FOR_SERVICES, &options.load_balancer_cidrs)
    } else {
        (FOR_LOAD_BALANCERS, &options.service_cidrs)
    };
    let taken: Vec<&IpNet> = used.iter().map(|used| &used.net).chain(others).chain([range]).collect();
    let usual = candidates.iter().filter_map(|text| model::net::parse_cidr(text));
    let mut of_family = usual.chain(sixteens()).filter(|net| net.addr().is_ipv4() == range.addr().is_ipv4());
    of_family.find(|net| taken.iter().all(|taken| !overlaps(net, taken)))
}

/// Every private network of 65,536 addresses, for hosts that use the usual ones.
fn sixteens() -> impl Iterator<Item = IpNet> {
    let starts = (0..=255).map(|second| (10, second)).chain((16..=31).map(|second| (172, second)));
    starts.filter_map(|(first, second)| IpNet::new([first, second, 0, 0].into(), 16).ok())
}
