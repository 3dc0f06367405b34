//! Addresses of Services on interfaces: whose they are, and where they go.

use super::*;

#[test]
fn addresses_may_be_bound_to_another_interface_which_stays_as_it_was() {
    let mut twin = kernel();
    twin.host.add("flannel.1", ip("10.2.17.0"), 32);
    let before = twin.host.addresses.clone();
    let options = || Options { interface: "flannel.1".to_owned(), ..Options::default() };
    let clock = Clock::default();
    let mut mode = with(&twin, options(), &clock);
    let table = a(&["10.244.0.1"]);
    everything(&mut mode, &table);
    assert_eq!(links_of(&mut mode, "10.96.0.1"), BTreeSet::from(["flannel.1".to_owned()]));
    assert_eq!(mode.bound(), BTreeSet::from([ip("10.96.0.1")]));
    let mut second = again(&mut mode, options(), &clock);
    assert_eq!(everything(&mut second, &table).operations, 0);
    everything(&mut second, &of(&[]));
    assert_eq!(second.doors().host.addresses, before, "its own address is nobody's to remove");
    everything(&mut second, &table);
    second.cleanup(known_chains()).unwrap();
    assert_eq!(second.doors().host.addresses, before);
}

#[test]
fn addresses_move_with_the_interface_and_those_of_the_host_stay() {
    let mut twin = host();
    twin.host.add("lo", ip("10.96.0.1"), 32);
    let options = |interface: &str| Options { interface: interface.to_owned(), ..Options::default() };
    let clock = Clock::default();
    let table = a(&["10.244.0.1"]);
    let mut mode = with(&twin, options(DUMMY), &clock);
    everything(&mut mode, &table);
    let mut second = again(&mut mode, options("eth0"), &clock);
    let leaving = format!("delete address 10.96.0.1 from {DUMMY}");
    assert!(second.differences(&table).unwrap().contains(&leaving));
    second.sync(&table, Scope::AllThatIsKnown).unwrap();
    assert_eq!(links_of(&mut second, "10.96.0.1"), BTreeSet::from(["eth0", DUMMY, "lo"].map(str::to_owned)));
    everything(&mut second, &table);
    assert_eq!(links_of(&mut second, "10.96.0.1"), BTreeSet::from(["eth0", "lo"].map(str::to_owned)));
    assert_eq!(everything(&mut second, &table).operations, 0);
    // A cleanup need not be told which interface it was.
    let mut third = again(&mut second, Options::default(), &clock);
    third.cleanup(known_chains()).unwrap();
    assert_eq!(links_of(&mut third, "10.96.0.1"), BTreeSet::from(["lo".to_owned()]));
    assert!(third.doors().sets().sets().unwrap().is_empty());
}

#[test]
fn what_is_bound_is_known_to_any_process_and_is_not_the_hosts_own() {
    let mut twin = host();
    twin.host.add("eth0", ip("192.168.0.2"), 32);
    let options = Options { interface: "eth0".to_owned(), ..Options::default() };
    let mut mode = with(&twin, options, &Clock::default());
    everything(&mut mode, &a(&["10.244.0.1"]));
    let bound = Bound::read(mode.doors().sets()).unwrap();
    let all = mode.doors().host().addresses().unwrap();
    let own: Vec<IpAddr> = all.iter().filter(|one| !bound.has(one)).map(|one| one.ip).collect();
    assert_eq!(own, [ip("192.168.0.1"), ip("192.168.0.2")]);
    mode.cleanup(known_chains()).unwrap();
    assert_eq!(Bound::read(mode.doors().sets()).unwrap(), Bound::default());
}

#[test]
fn an_address_of_this_host_is_reported_and_never_removed() {
    let table = table_of("svc a 10.96.0.1 80 ips=192.168.0.1\nep a 8080 10.244.0.1");
    let twin = host();
    let mut mode = with(&twin, Options::default(), &Clock::default());
    let synced = everything(&mut mode, &table);
    assert!(synced.warned[&id("a", Protocol::Tcp)].contains("192.168.0.1"), "{synced:?}");
    assert_eq!(mode.bound(), BTreeSet::from([ip("10.96.0.1")]));
    // Its other ports are the host's.
    assert_eq!(send(&mut mode, &table, "203.0.113.9", "192.168.0.1:22"), [End::Untouched]);
    mode.cleanup(known_chains()).unwrap();
    assert!(is_bound(&mut mode, "192.168.0.1"));
}

#[test]
fn what_this_host_sends_from_the_address_that_it_dials_is_hidden() {
    // The kernel takes the address that is dialled as the source, since this host has it; no endpoint could answer there.
    let (mut mode, _) = fresh();
    let table = a(&["10.244.0.1"]);
    everything(&mut mode, &table);
    let packet = packet("10.96.0.1", "10.96.0.1:80", None);
    let mut sent = packet_of(&mut mode, &table, &packet).unwrap();
    sent.path = kernel_sim::nft::Path::Output;
    let program = mode.programs().next().unwrap();
    let ways = program.ways(&sent, Duration::ZERO);
    assert!(ways.len() == 1 && ways[0].outcome.masqueraded, "{ways:?}");
}

#[test]
fn every_address_that_is_the_hosts_too_is_told() {
    let own = ["192.168.0.1", "192.168.0.2", "fd00:1::1"];
    let text =
        format!("svc a 10.96.0.1,fd00:96::1 80 ips={},203.0.113.7\nep a 8080 10.244.0.1", own.join(","));
    let (mut mode, _) = fresh();
    let told = &everything(&mut mode, &table(node_at(&own), &text)).warned[&id("a", Protocol::Tcp)];
    for (address, is_told) in own.map(|own| (own, true)).into_iter().chain([("203.0.113.7", false)]) {
        assert_eq!(told.contains(&format!("{address} is an address of this host, too")), is_told, "{told}");
    }
}

#[test]
fn node_ports_do_not_answer_at_link_local_addresses_of_ipv6() {
    let config = node_at(&["fd00:1::1", "fe80::5", "192.168.0.1"]);
    let table = table(config, "svc a fd00:96::1 80@30080\nep a 8080 fd00:244::1");
    let (mut mode, _) = fresh();
    everything(&mut mode, &table);
    let places: Vec<String> = servers(&mut mode).iter().map(|one| one.what.to_string()).collect();
    assert_eq!(places, ["TCP [fd00:1::1]:30080", "TCP [fd00:96::1]:80"]);
    let packet = packet("fe80::9", "[fe80::5]:30080", Some("eth0"));
    assert_eq!(
        table.fate(&packet, &dataplane::ipvs::MODE.semantics().of_rules()).fate,
        model::Fate::Untouched
    );
    let by_rules = table.fate(&packet, &dataplane::iptables::MODE.semantics().of_rules()).fate;
    assert!(matches!(by_rules, model::Fate::OneOf(_)), "rules know every local address");
}
