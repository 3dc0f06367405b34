//! Addresses, links and routes of a namespace, read and watched.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::net::IpAddr;
use std::time::Duration;

use kernel::host::{self, Change, RouteKind, RouteTable, Scope, Watch};

const LIMIT: Duration = Duration::from_secs(5);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A namespace with a dummy link that has addresses of both families.
fn namespace() -> bool {
    if !common::enter_namespace() {
        eprintln!("skipped: a network namespace of its own needs root");
        return false;
    }
    common::ip(&[
        "link set lo up",
        "link add veth0 type veth peer name veth1",
        "link set veth0 up",
        "addr add 192.168.7.1/24 dev veth0",
        "addr add fd00:7::1/64 dev veth0 nodad",
        "route add default via 192.168.7.254 dev veth0 src 192.168.7.1",
    ])
}

#[test]
fn this_machine_has_a_loopback_link() {
    let links = host::links().unwrap();
    assert!(links.iter().any(|link| link.is_loopback && link.name == "lo"), "{links:?}");
    host::addresses().unwrap();
    host::routes().unwrap();
}

#[test]
fn root_addresses_carry_their_link_and_scope() {
    if !namespace() {
        return;
    }
    let addresses = host::addresses().unwrap();
    let find = |text: &str| addresses.iter().find(|address| address.ip == ip(text)).unwrap();
    let v4 = find("192.168.7.1");
    assert_eq!((v4.link_name.as_str(), v4.prefix_length, v4.scope), ("veth0", 24, Scope::Global));
    assert_eq!(find("127.0.0.1").scope, Scope::Host);
    assert_eq!(find("fd00:7::1").prefix_length, 64);
    let links = host::links().unwrap();
    let veth = links.iter().find(|link| link.name == "veth0").unwrap();
    assert_eq!((veth.index, veth.is_up, veth.is_loopback), (v4.link_index, true, false));
}

#[test]
fn root_addresses_carry_their_flags_and_the_kernel_names_the_source_it_selects() {
    if !namespace() {
        return;
    }
    std::fs::write("/proc/sys/net/ipv6/conf/veth0/use_tempaddr", "2").unwrap();
    assert!(common::ip(&[
        "link set veth1 up",
        "addr add 192.168.7.9/32 dev veth0",
        "addr add 192.168.7.2/24 dev veth0",
        "addr add fd00:7::8/64 dev veth0 nodad preferred_lft 0",
        "addr add fd00:7::9/128 dev veth0 nodad",
        "addr add fd00:8::1/64 dev veth0 mngtmpaddr nodad",
    ]));
    let addresses = host::addresses().unwrap();
    let is = |text: &str, what: fn(&host::Address) -> bool| {
        what(addresses.iter().find(|address| address.ip == ip(text)).unwrap())
    };
    assert!(
        is("192.168.7.2", host::Address::is_secondary) && !is("192.168.7.1", host::Address::is_secondary)
    );
    assert!(
        is("192.168.7.9", host::Address::is_single_host) && is("fd00:7::9", host::Address::is_single_host)
    );
    assert!(is("fd00:7::8", host::Address::is_deprecated) && !is("fd00:7::1", host::Address::is_deprecated));
    let temporary: Vec<_> = addresses.iter().filter(|address| address.is_temporary()).collect();
    assert!(temporary.len() == 1 && temporary[0].ip.to_string().starts_with("fd00:8:"), "{addresses:#?}");
    assert_eq!(host::source_address(ip("198.51.100.1")).unwrap(), Some(ip("192.168.7.1")));
    assert_eq!(host::source_address(ip("2001:db8::1")).unwrap(), None, "there is no route");
}

#[test]
fn root_routes_tell_table_kind_and_link() {
    if !namespace() {
        return;
    }
    let routes = host::routes().unwrap();
    let default = routes.iter().find(|route| route.prefix_length == 0 && route.gateway.is_some()).unwrap();
    assert_eq!(default.gateway, Some(ip("192.168.7.254")));
    assert_eq!(default.preferred_source, Some(ip("192.168.7.1")));
    assert_eq!((default.table, default.kind), (RouteTable::Main, RouteKind::Unicast));
    let local = routes.iter().find(|route| route.destination == ip("192.168.7.1")).unwrap();
    assert_eq!((local.table, local.kind, local.prefix_length), (RouteTable::Local, RouteKind::Local, 32));
    assert_eq!(local.link_index, default.link_index);
    assert!(routes.iter().any(|route| route.destination == ip("fd00:7::") && route.prefix_length == 64));
}

#[test]
fn root_changes_of_addresses_and_links_are_heard() {
    if !namespace() {
        return;
    }
    let number = host::links().unwrap().iter().find(|link| link.name == "veth0").unwrap().index;
    let mut watch = Watch::open().unwrap();
    // Links settle when the kernel finds time for it, and that is told, too.
    let mut hear = |wanted| while watch.next(LIMIT).unwrap().expect("it is told") != wanted {};
    assert!(common::ip(&["addr add 192.168.7.2/24 dev veth0"]));
    hear(Change::AddressAdded(number));
    assert!(common::ip(&["addr del 192.168.7.2/24 dev veth0"]));
    hear(Change::AddressDeleted(number));
    assert!(common::ip(&["link set veth0 down"]));
    hear(Change::Links);
}
