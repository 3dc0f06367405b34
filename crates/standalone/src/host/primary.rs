//! Which address of this host is its primary one, where neither a Node object nor `--node-ip` says so.
//!
//! In: the addresses and routes of this host, the source addresses that the kernel selects, and the primary addresses so far. Out: the
//! addresses in order; the first of each family is the primary one.
//!
//! The primary address stays as long as this host has it, unless it was a stopgap: chosen while this host had no lasting address on the way
//! to the outside, as before DHCP has answered or while a link is down. A stopgap gives way to the first lasting one. A new one is chosen as the kernel chooses the source address of a packet to the
//! outside: the preferred source of the default route, else the best address on that route's link. An address that comes and goes is
//! chosen only where there is no other: one of a single host (`/32`, `/128`: usually a virtual IP), a secondary one, a deprecated,
//! temporary or tentative one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kernel::host::{Address, Host, Route, RouteKind, RouteTable, Scope};
use model::Family;

/// Stand for the outside in the question which source address the kernel selects. They are reserved for documentation (RFC 5737,
/// RFC 3849), so no usual host has a route of its own to them. Nothing is sent there.
const OUTSIDE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// What the kernel knows of the way to the outside. What it does not tell is left out.
#[derive(Debug, Default)]
pub(super) struct WayOut {
    /// The best metric of a default route, by family and link.
    links: BTreeMap<(Family, u32), u32>,
    /// The source addresses that the best default route of each family names.
    preferred_sources: BTreeSet<IpAddr>,
    /// The source addresses that the kernel selects.
    selected: BTreeSet<IpAddr>,
}

impl WayOut {
    pub(super) fn read(host: &mut impl Host) -> Self {
        let routes = host.routes().unwrap_or_default();
        let selected = OUTSIDE.iter().filter_map(|outside| host.source_address(*outside).ok().flatten());
        let mut way = Self { selected: selected.collect(), ..Self::default() };
        for family in Family::ALL {
            way.take(family, &routes);
        }
        way
    }

    fn take(&mut self, family: Family, routes: &BTreeSet<Route>) {
        let is_default = |route: &&Route| {
            route.prefix_length == 0
                && route.table == RouteTable::Main
                && route.kind == RouteKind::Unicast
                && Family::of(route.destination) == family
        };
        let mut defaults: Vec<&Route> = routes.iter().filter(is_default).collect();
        defaults.sort_by_key(|route| route.metric);
        self.preferred_sources.extend(defaults.first().and_then(|route| route.preferred_source));
        for route in defaults {
            if let Some(link) = route.link_index {
                self.links.entry((family, link)).or_insert(route.metric);
            }
        }
    }
}

/// The addresses of this host without its loopback ones. The first of each family is the primary address.
pub(super) fn in_order(addresses: &BTreeSet<Address>, way: &WayOut, before: &Before<'_>) -> Vec<IpAddr> {
    let mut usable: Vec<&Address> = addresses.iter().filter(|address| !address.ip.is_loopback()).collect();
    let families = |is_so: &dyn Fn(&Address) -> bool| -> BTreeSet<Family> {
        usable.iter().filter(|address| is_so(address)).map(|address| Family::of(address.ip)).collect()
    };
    let (global, lasting) = (families(&is_global), families(&|address| is_lasting(address, way)));
    let stays = |address: &Address| {
        let family = Family::of(address.ip);
        // An address of one link is a stopgap before the first router advertisement.
        before.primary.contains(&address.ip)
            && (is_global(address) || !global.contains(&family))
            && (before.lasting.contains(&address.ip) || !lasting.contains(&family))
    };
    usable.sort_by_key(|address| (!stays(address), rank(address, way)));
    let mut seen = BTreeSet::new();
    usable.into_iter().map(|address| address.ip).filter(|ip| seen.insert(*ip)).collect()
}

/// What was chosen so far.
#[derive(Debug)]
pub(super) struct Before<'a> {
    /// The primary addresses.
    pub(super) primary: &'a [IpAddr],
    /// Those of them that were no stopgap when they were chosen.
    pub(super) lasting: &'a BTreeSet<IpAddr>,
}

/// Those addresses that are no stopgap.
pub(super) fn lasting(addresses: &BTreeSet<Address>, way: &WayOut) -> BTreeSet<IpAddr> {
    addresses.iter().filter(|address| is_lasting(address, way)).map(|address| address.ip).collect()
}

/// Does it stay, and do packets to the outside leave from it?
fn is_lasting(address: &Address, way: &WayOut) -> bool {
    let has_default_route = way.links.contains_key(&(Family::of(address.ip), address.link_index));
    is_global(address)
        && (way.preferred_sources.contains(&address.ip) || has_default_route && !comes_and_goes(address))
}

/// The lowest is the best.
fn rank(address: &Address, way: &WayOut) -> impl Ord + use<> {
    let default_route = way.links.get(&(Family::of(address.ip), address.link_index)).copied();
    (
        !way.preferred_sources.contains(&address.ip),
        (default_route.is_none(), default_route),
        !is_global(address),
        comes_and_goes(address),
        !way.selected.contains(&address.ip),
        (address.link_index, address.ip),
    )
}

fn is_global(address: &Address) -> bool {
    address.scope == Scope::Global
}

fn comes_and_goes(address: &Address) -> bool {
    address.is_single_host()
        || address.is_secondary()
        || address.is_deprecated()
        || address.is_temporary()
        || address.is_tentative()
}

#[cfg(test)]
mod tests {
    use kernel::host::AddressFlags;
    use kernel_sim::host::Simulated;

    use super::*;

    const NONE: AddressFlags = AddressFlags(0);

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("it is an address")
    }

    /// A host with these addresses, as `LINK ADDRESS/LENGTH`. Its default routes leave by the first link.
    fn host(addresses: &[(&str, AddressFlags)]) -> Simulated {
        let mut host = Simulated::default();
        for (text, flags) in addresses {
            let (link, net) = text.split_once(' ').expect("a link and an address");
            let (address, length) = net.split_once('/').expect("an address and a length");
            host.add_flagged(link, ip(address), length.parse().expect("it is a length"), *flags);
        }
        host.routes = ["192.168.77.1", "fe80::1"].map(|gateway| default_route(gateway, 1, 100)).into();
        host
    }

    fn default_route(gateway: &str, link: u32, metric: u32) -> Route {
        let gateway = ip(gateway);
        let destination = if gateway.is_ipv4() { ip("0.0.0.0") } else { ip("::") };
        Route {
            table: RouteTable::Main,
            kind: RouteKind::Unicast,
            destination,
            prefix_length: 0,
            link_index: Some(link),
            gateway: Some(gateway),
            preferred_source: None,
            metric,
        }
    }

    /// The primary addresses of both families, as text, where those before were no stopgaps.
    fn primary(host: &mut Simulated, before: &[&str]) -> String {
        primary_after(host, before, &[])
    }

    fn primary_after(host: &mut Simulated, before: &[&str], stopgaps: &[&str]) -> String {
        let before: Vec<IpAddr> = before.iter().map(|text| ip(text)).collect();
        let way = WayOut::read(host);
        let lasting = before.iter().copied().filter(|ip| !stopgaps.contains(&&*ip.to_string())).collect();
        let order = in_order(&host.addresses, &way, &Before { primary: &before, lasting: &lasting });
        let first = |family| order.iter().find(|ip| Family::of(**ip) == family).map(ToString::to_string);
        let both: Vec<String> = Family::ALL.into_iter().filter_map(first).collect();
        both.join(" ")
    }

    #[test]
    fn an_address_that_comes_and_goes_is_not_chosen_beside_one_that_stays() {
        let v4 = ("eth0 192.168.77.10/24", NONE);
        let v6 = ("eth0 fd00:77::10/64", NONE);
        let (second, deprecated) = (AddressFlags::SECONDARY_OR_TEMPORARY, AddressFlags::DEPRECATED);
        for (other, flags) in [
            ("eth0 192.168.77.9/32", NONE),
            ("eth0 192.168.77.9/24", second),
            ("eth0 192.168.77.9/24", deprecated),
            ("eth0 fd00:77::9/128", NONE),
            ("eth0 fd00:77::9/64", second),
            ("eth0 fd00:77::9/64", deprecated),
            ("eth0 fd00:77::9/64", AddressFlags::TENTATIVE),
            ("docker0 172.17.0.1/16", NONE),
        ] {
            let mut host = host(&[v4, v6, (other, flags)]);
            assert_eq!(primary(&mut host, &[]), "192.168.77.10 fd00:77::10", "{other} {flags:?}");
        }
    }

    /// Some clouds give a machine no more than a `/32`.
    #[test]
    fn an_address_that_comes_and_goes_is_chosen_where_there_is_no_other_on_the_link_to_the_outside() {
        let mut host = host(&[
            ("eth0 192.168.77.9/32", NONE),
            ("eth0 fd00::9/128", NONE),
            ("docker0 172.17.0.1/16", NONE),
        ]);
        assert_eq!(primary(&mut host, &[]), "192.168.77.9 fd00::9");
    }

    #[test]
    fn the_source_that_the_best_default_route_names_is_chosen() {
        let mut host =
            host(&[("eth0 192.168.77.10/24", NONE), ("eth1 10.0.0.1/24", NONE), ("lo 10.9.9.9/32", NONE)]);
        assert_eq!(primary(&mut host, &[]), "192.168.77.10");
        host.routes.insert(default_route("10.0.0.254", 2, 50));
        assert_eq!(primary(&mut host, &[]), "10.0.0.1", "the lower metric wins");
        let named = Route { preferred_source: Some(ip("10.9.9.9")), ..default_route("10.0.0.254", 2, 40) };
        host.routes.insert(named);
        assert_eq!(primary(&mut host, &[]), "10.9.9.9", "the route names it");
        let absent = Route { preferred_source: Some(ip("10.0.0.77")), ..default_route("10.0.0.254", 2, 30) };
        host.routes.insert(absent);
        assert_eq!(primary(&mut host, &[]), "10.0.0.1", "this host does not have what the route names");
    }

    #[test]
    fn among_equals_the_one_that_the_kernel_selects_is_chosen() {
        let mut host = host(&[("eth0 192.168.77.10/24", NONE), ("eth0 10.0.0.1/24", NONE)]);
        host.sources = [ip("192.168.77.10")].into();
        assert_eq!(primary(&mut host, &[]), "192.168.77.10");
        host.sources = [ip("10.0.0.1")].into();
        assert_eq!(primary(&mut host, &[]), "10.0.0.1");
    }

    #[test]
    fn a_primary_address_stays_as_long_as_this_host_has_it() {
        let mut host =
            host(&[("eth0 192.168.77.10/24", NONE), ("eth0 192.168.77.20/24", AddressFlags::DEPRECATED)]);
        assert_eq!(primary(&mut host, &["192.168.77.20"]), "192.168.77.20");
        host.routes.clear();
        assert_eq!(primary(&mut host, &["192.168.77.20"]), "192.168.77.20", "without a default route");
        host.addresses.retain(|address| address.ip != ip("192.168.77.20"));
        assert_eq!(primary(&mut host, &["192.168.77.20"]), "192.168.77.10", "it is gone");
    }

    /// The pod bridge after a link went down, a virtual IP while the host's own address was away, and whatever there was before DHCP.
    #[test]
    fn a_stopgap_gives_way_when_the_address_of_the_host_comes_back() {
        let mut host = host(&[
            ("eth0 192.168.77.10/24", NONE),
            ("eth0 192.168.77.9/32", NONE),
            ("cni0 10.244.0.1/24", NONE),
            ("eth0 fd00:77::10/64", NONE),
            ("cni0 fd00:244::1/64", NONE),
        ]);
        let back = "192.168.77.10 fd00:77::10";
        for stopgap in ["192.168.77.9", "10.244.0.1"] {
            let before = [stopgap, "fd00:244::1"];
            assert_eq!(primary_after(&mut host, &before, &before), back, "{stopgap}");
        }
        let before = ["10.244.0.1", "fd00:244::1"];
        assert_eq!(primary(&mut host, &before), before.join(" "), "no stopgap when it was chosen");
        host.routes.clear();
        assert_eq!(primary_after(&mut host, &before, &before), before.join(" "), "nothing better is known");
    }

    #[test]
    fn a_link_local_address_gives_way_to_the_first_global_one() {
        let mut host = host(&[]);
        host.add("eth0", ip("fe80::9"), 64);
        let link_local = host.addresses.pop_first().map(|address| Address { scope: Scope::Link, ..address });
        host.addresses.extend(link_local);
        assert_eq!(primary(&mut host, &["fe80::9"]), "fe80::9");
        host.add("eth0", ip("fd00:77::10"), 64);
        assert_eq!(primary(&mut host, &["fe80::9"]), "fd00:77::10");
    }
}
