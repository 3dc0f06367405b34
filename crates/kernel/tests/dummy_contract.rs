//! Dummy links and the addresses on them: the same steps on a simulated host and on a real one end alike.
//!
//! The real side needs a kernel that has dummy links: it runs in the VM.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::host::{ChangeError, ChangeHost, Host};
use kernel_sim::host::Simulated;

const DUMMY: &str = "kube-ipvs0";

fn ips(last: std::ops::Range<u16>) -> Vec<IpAddr> {
    last.flat_map(|n| [format!("10.96.{}.{}", n / 256, n % 256), format!("fd00:96::{n:x}")])
        .map(|text| text.parse().unwrap())
        .collect()
}

/// Addresses on a link with the lengths of their prefixes, without those that the kernel gives by itself.
fn on(host: &mut impl Host, link: &str) -> BTreeSet<(IpAddr, u8)> {
    let all = host.addresses().unwrap().into_iter().filter(|address| address.link_name == link);
    let is_own = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    all.filter(|address| !is_own(&address.ip)).map(|address| (address.ip, address.prefix_length)).collect()
}

fn single(ips: &[IpAddr]) -> BTreeSet<(IpAddr, u8)> {
    ips.iter().map(|ip| (*ip, if ip.is_ipv4() { 32 } else { 128 })).collect()
}

/// The steps, on a host that has a link `eth0` with `192.168.7.1/24`, and no dummy.
fn walk(host: &mut impl ChangeHost) {
    let missing = Err(ChangeError::NoLink(DUMMY.to_owned()));
    assert_eq!(host.add_addresses(DUMMY, &ips(1..3)), missing);
    assert_eq!(host.delete_dummy(DUMMY), Ok(()), "it is not there");
    for _ in 0..2 {
        host.make_dummy(DUMMY).unwrap();
        let link = host.links().unwrap().into_iter().find(|link| link.name == DUMMY).unwrap();
        assert!(link.is_dummy && !link.is_up && !link.is_loopback, "{link:?}");
    }
    for _ in 0..2 {
        assert_eq!(host.add_addresses(DUMMY, &ips(1..600)), Ok(vec![]));
        assert_eq!(on(host, DUMMY), single(&ips(1..600)));
    }
    for _ in 0..2 {
        assert_eq!(host.delete_addresses(DUMMY, &ips(3..900)), Ok(vec![]));
        assert_eq!(on(host, DUMMY), single(&ips(1..3)));
    }

    // A link of somebody else: addresses can be put on it, but its own stay, and it is not deleted.
    assert_eq!(host.make_dummy("eth0"), Err(ChangeError::NoDummy("eth0".to_owned())));
    assert_eq!(host.delete_dummy("eth0"), Err(ChangeError::NoDummy("eth0".to_owned())));
    let (own, ours) = ("192.168.7.1".parse().unwrap(), ips(9..10));
    assert_eq!(host.add_addresses("eth0", &ours), Ok(vec![]));
    assert_eq!(host.delete_addresses("eth0", &[own, ours[0], ours[1]]), Ok(vec![]));
    assert_eq!(on(host, "eth0"), BTreeSet::from([(own, 24)]));

    host.delete_dummy(DUMMY).unwrap();
    assert!(host.links().unwrap().iter().all(|link| link.name != DUMMY));
    assert_eq!(on(host, DUMMY), BTreeSet::new());
}

#[test]
fn dummies_and_their_addresses_come_and_go_on_the_twin() {
    let mut twin = Simulated::default();
    twin.add("lo", "127.0.0.1".parse().unwrap(), 8);
    twin.add("eth0", "192.168.7.1".parse().unwrap(), 24);
    walk(&mut twin);
}

#[test]
fn a_kernel_without_dummies_names_the_module() {
    let mut twin = Simulated { change_fault: Some(ChangeError::Missing), ..Simulated::default() };
    let error = twin.make_dummy(DUMMY).unwrap_err();
    assert!(error.to_string().contains("load the module `dummy`"), "{error}");
}

mod needs_root {
    use super::*;
    use kernel::host::ThisMachine;

    #[test]
    fn root_a_kernel_without_dummies_says_so_and_one_with_them_makes_one() {
        if !common::enter_namespace() {
            eprintln!("skipped: a network namespace of its own needs root");
            return;
        }
        let made = ThisMachine.make_dummy(DUMMY);
        let is_there = kernel::host::links().unwrap().iter().any(|link| link.name == DUMMY);
        assert_eq!(made, if is_there { Ok(()) } else { Err(ChangeError::Missing) });
    }
}

mod needs_vm {
    use super::*;
    use kernel::host::ThisMachine;

    #[test]
    fn root_dummies_and_their_addresses_come_and_go_on_the_real_kernel() {
        if std::env::var_os("PORTWAY_VM").is_none() {
            eprintln!("skipped: it needs the VM's kernel: `cargo xtask vm --smoke`");
            return;
        }
        assert!(common::enter_namespace() && common::ip(&["link set lo up"]));
        assert!(common::ip(&[
            "link add eth0 type veth peer name eth1",
            "link set eth0 up",
            "addr add 192.168.7.1/24 dev eth0"
        ]));
        walk(&mut ThisMachine);
        // Addresses are this host's, and no route leads anywhere because of them.
        ThisMachine.make_dummy(DUMMY).unwrap();
        let before = kernel::host::routes().unwrap();
        ThisMachine.add_addresses(DUMMY, &ips(1..2)).unwrap();
        let after = kernel::host::routes().unwrap();
        let new: Vec<_> = after.difference(&before).collect();
        assert!(new.iter().all(|route| route.table == kernel::host::RouteTable::Local), "{new:?}");
        assert!(!new.is_empty());
    }
}
