//! Addresses of Services on interfaces: whose they are, and where they go.

use super::*;
use dataplane::registry::known_chains;

#[test]
fn addresses_may_be_bound_to_another_interface_which_stays_as_it_was() {
    let mut twin = kernel();
    twin.host.add("flannel.1", ip("10.2.17.0"), 32);
    let before = twin.host.addresses.clone();
    let options = || Options { interface: "flannel.1".to_owned(), ..Options::default() };
    let clock = Clock::default();
    let mut mode = with(&twin, options(), &clock);
    let table = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]);
    mode.sync(&table, Scope::Everything).unwrap();
    let bound = mode.doors().host().addresses().unwrap();
    assert!(bound.iter().any(|address| address.ip == ip("10.96.0.1") && address.link_name == "flannel.1"));
    assert_eq!(mode.bound(), BTreeSet::from([ip("10.96.0.1")]));
    let mut second = again(&mut mode, options(), &clock);
    assert_eq!(second.sync(&table, Scope::Everything).unwrap().operations, 0);
    second.sync(&of(&[]), Scope::Everything).unwrap();
    assert_eq!(second.doors().host.addresses, before, "its own address is nobody's to remove");
    second.sync(&table, Scope::Everything).unwrap();
    second.cleanup(known_chains()).unwrap();
    assert_eq!(second.doors().host.addresses, before);
}

#[test]
fn addresses_move_with_the_interface_and_those_of_the_host_stay() {
    let mut twin = kernel();
    twin.host.add("eth0", ip("192.168.0.1"), 24);
    twin.host.add("lo", ip("10.96.0.1"), 32);
    let options = |interface: &str| Options { interface: interface.to_owned(), ..Options::default() };
    let clock = Clock::default();
    let table = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]);
    let links = |mode: &mut Mode| {
        let all = mode.doors().host().addresses().unwrap();
        let of_service = all.into_iter().filter(|address| address.ip == ip("10.96.0.1"));
        of_service.map(|address| address.link_name).collect::<BTreeSet<_>>()
    };
    let mut mode = with(&twin, options(DUMMY), &clock);
    mode.sync(&table, Scope::Everything).unwrap();
    let mut second = again(&mut mode, options("eth0"), &clock);
    let leaving = format!("delete address 10.96.0.1 from {DUMMY}");
    assert!(second.differences(&table).unwrap().contains(&leaving));
    second.sync(&table, Scope::AllThatIsKnown).unwrap();
    assert_eq!(links(&mut second), BTreeSet::from(["eth0", DUMMY, "lo"].map(str::to_owned)));
    second.sync(&table, Scope::Everything).unwrap();
    assert_eq!(links(&mut second), BTreeSet::from(["eth0", "lo"].map(str::to_owned)));
    assert_eq!(second.sync(&table, Scope::Everything).unwrap().operations, 0);
    // A cleanup need not be told which interface it was.
    let mut third = again(&mut second, Options::default(), &clock);
    third.cleanup(known_chains()).unwrap();
    assert_eq!(links(&mut third), BTreeSet::from(["lo".to_owned()]));
    assert!(third.doors().sets().sets().unwrap().is_empty());
}

#[test]
fn what_is_bound_is_known_to_any_process_and_is_not_the_hosts_own() {
    let mut twin = kernel();
    twin.host.add("eth0", ip("192.168.0.1"), 24);
    twin.host.add("eth0", ip("192.168.0.2"), 32);
    let options = Options { interface: "eth0".to_owned(), ..Options::default() };
    let mut mode = with(&twin, options, &Clock::default());
    mode.sync(&of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]), Scope::Everything).unwrap();
    let bound = Bound::read(mode.doors().sets()).unwrap();
    let all = mode.doors().host().addresses().unwrap();
    let own: Vec<IpAddr> = all.iter().filter(|one| !bound.has(one)).map(|one| one.ip).collect();
    assert_eq!(own, [ip("192.168.0.1"), ip("192.168.0.2")]);
    mode.cleanup(known_chains()).unwrap();
    assert_eq!(Bound::read(mode.doors().sets()).unwrap(), Bound::default());
}

#[test]
fn an_address_of_this_host_is_reported_and_never_removed() {
    let spec = json!({"clusterIPs": ["10.96.0.1"], "externalIPs": ["192.168.0.1"], "ports": [{"port": 80}]});
    let ports = json!([{"port": 8080}]);
    let table =
        table(plain(), &[service("default", "a", &spec), slice("default", "a", &ports, &["10.244.0.1"])]);
    let mut twin = kernel();
    twin.host.add("eth0", ip("192.168.0.1"), 24);
    let mut mode = with(&twin, Options::default(), &Clock::default());
    let synced = mode.sync(&table, Scope::Everything).unwrap();
    assert!(synced.warned[&id("a", Protocol::Tcp)].contains("192.168.0.1"), "{synced:?}");
    assert_eq!(mode.bound(), BTreeSet::from([ip("10.96.0.1")]));
    // Its other ports are the host's.
    assert_eq!(send(&mut mode, &table, "203.0.113.9", "192.168.0.1:22", Some("eth0")), [End::Untouched]);
    mode.cleanup(known_chains()).unwrap();
    assert!(mode.doors().host().addresses().unwrap().iter().any(|address| address.ip == ip("192.168.0.1")));
}

#[test]
fn what_this_host_sends_from_the_address_that_it_dials_is_hidden() {
    // The kernel takes the address that is dialled as the source, since this host has it; no endpoint could answer there.
    let (mut mode, _) = fresh();
    let table = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]);
    mode.sync(&table, Scope::Everything).unwrap();
    let host = mode.doors().host.clone();
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: 80 };
    let packet = Packet { source: ip("10.96.0.1"), destination: ip("10.96.0.1"), payload, interface: None };
    let mut sent = ipvs_ends::packet_of(&packet, &host, &table);
    sent.path = kernel_sim::nft::Path::Output;
    let program = mode.programs().next().unwrap();
    let ways = program.ways(&sent, std::time::Duration::ZERO);
    assert!(ways.len() == 1 && ways[0].outcome.masqueraded, "{ways:?}");
}

#[test]
fn every_address_that_is_the_hosts_too_is_told() {
    let spec = json!({"clusterIPs": ["10.96.0.1", "fd00:96::1"], "externalIPs": ["192.168.0.1", "192.168.0.2", "fd00:1::1", "203.0.113.7"],
                      "ports": [{"port": 80}]});
    let objects =
        [service("default", "a", &spec), slice("default", "a", &json!([{"port": 8080}]), &["10.244.0.1"])];
    let own = ["192.168.0.1", "192.168.0.2", "fd00:1::1"];
    let config = model::Config { node_ips: own.map(ip).to_vec(), ..plain() };
    let (mut mode, _) = fresh();
    let told =
        &mode.sync(&table(config, &objects), Scope::Everything).unwrap().warned[&id("a", Protocol::Tcp)];
    for (address, is_told) in own.map(|own| (own, true)).into_iter().chain([("203.0.113.7", false)]) {
        assert_eq!(told.contains(&format!("{address} is an address of this host, too")), is_told, "{told}");
    }
}

#[test]
fn node_ports_do_not_answer_at_link_local_addresses_of_ipv6() {
    let spec = json!({"type": "NodePort", "clusterIPs": ["fd00:96::1"], "ports": [{"port": 80, "nodePort": 30_080}]});
    let objects =
        [service("default", "a", &spec), slice("default", "a", &json!([{"port": 8080}]), &["fd00:244::1"])];
    let own = ["fd00:1::1", "fe80::5", "192.168.0.1"];
    let config = model::Config { node_ips: own.map(ip).to_vec(), ..plain() };
    let table = table(config, &objects);
    let (mut mode, _) = fresh();
    mode.sync(&table, Scope::Everything).unwrap();
    let servers = mode.doors().servers().virtual_servers().unwrap();
    let places: Vec<String> = servers.iter().map(|one| one.what.to_string()).collect();
    assert_eq!(places, ["TCP [fd00:1::1]:30080", "TCP [fd00:96::1]:80"]);
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: 30_080 };
    let packet = Packet {
        source: ip("fe80::9"),
        destination: ip("fe80::5"),
        payload,
        interface: Some("eth0".to_owned()),
    };
    assert_eq!(table.fate(&packet, &Options::default().promises()).fate, model::Fate::Untouched);
    let others = dataplane::iptables::Options::default().promises();
    assert!(
        matches!(table.fate(&packet, &others).fate, model::Fate::OneOf(_)),
        "rules know every local address"
    );
}
