//! How IPVS mode follows changes: whose virtual servers are whose, what real servers wait for, schedulers, and the sores of upstream's.
#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

mod iptables_guides;
mod ipvs_ends;
mod twin;
mod userspace_services;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::ipvs::{Bound, DUMMY, Doors as _, Ipvs, Options, Scheduler, SetId};
use dataplane::{Dataplane, Leaving, Scope, Synced};
use iptables_guides::{plain, service, slice, table};
use ipvs_ends::{Clock, Mode, Twin, canonical, kernel, of_packet, programs, shown};
use kernel::host::ChangeHost as _;
use kernel::ipset::{Entry, Ipsets as _, Kind, Request as SetRequest, Set, SetName};
use kernel::ipvs::{Ipvs as _, Protocol as Number, RealServer, Request, VirtualServer, What};
use kernel::xtables::{Simulated, Table, Variant, Xtables as _};
use model::fate::Payload;
use model::{ForwardingTable, Packet, Protocol, ServicePortId};
use serde_json::{Value, json};
use twin::End;
use userspace_services::{id, of, web};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn tcp(text: &str) -> What {
    What::Address(at(text), Number::TCP)
}

fn with(twin: &Twin, options: Options, clock: &Clock) -> Mode {
    let clock = clock.clone();
    Ipvs::new(programs(twin, Variant::Nft), twin.clone(), options, move || clock.now())
}

fn fresh() -> (Mode, Clock) {
    let clock = Clock::default();
    (with(&kernel(), Options::default(), &clock), clock)
}

/// Another process, on what this one has left.
fn again(mode: &mut Mode, options: Options, clock: &Clock) -> Mode {
    let (programs, twin): (Vec<Simulated>, _) =
        (mode.programs().map(|one| one.clone()).collect(), mode.doors().clone());
    let clock = clock.clone();
    Ipvs::new(programs, twin, options, move || clock.now())
}

fn changed(mode: &mut Mode, table: &ForwardingTable, ids: &[ServicePortId]) -> Synced {
    mode.sync(table, Scope::Changed(&ids.iter().cloned().collect())).unwrap()
}

fn weights(mode: &mut Mode, what: &What) -> Vec<(SocketAddr, u32)> {
    let found = mode.doors().servers().real_servers(what).unwrap();
    found.iter().map(|one| (one.server.address, one.server.weight)).collect()
}

fn server(mode: &mut Mode, what: &What) -> Option<VirtualServer> {
    mode.doors().servers().virtual_servers().unwrap().into_iter().find(|one| one.what == *what)
}

fn send(
    mode: &mut Mode,
    table: &ForwardingTable,
    source: &str,
    to: &str,
    interface: Option<&str>,
) -> Vec<End> {
    let to = at(to);
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: to.port() };
    let interface = interface.map(str::to_owned);
    let packet = Packet { source: ip(source), destination: to.ip(), payload, interface };
    of_packet(mode, table, &packet).unwrap().into_keys().collect()
}

fn annotated(mut objects: [Value; 2], key: &str, value: &str) -> [Value; 2] {
    objects[0]["metadata"]["annotations"] = json!({ key: value });
    objects
}

#[test]
fn a_change_writes_as_little_in_a_large_cluster_as_in_a_small_one() {
    let mut written = Vec::new();
    for count in [10_u8, 200] {
        let service = |n: u8, endpoints: &[&str]| {
            let mut objects = web("a", &format!("10.96.1.{n}"), "TCP", endpoints);
            objects[0]["metadata"]["name"] = json!(format!("a{n}"));
            objects[1]["metadata"]["name"] = json!(format!("a{n}-1"));
            objects[0]["spec"]["ports"][0]["nodePort"] = json!(30_000 + u16::from(n));
            objects[1]["metadata"]["labels"]["kubernetes.io/service-name"] = json!(format!("a{n}"));
            objects
        };
        let all = |endpoints: &[&str]| {
            let others = (2..=count).map(|n| service(n, &["10.244.0.1", "10.244.0.2"]));
            of(&others.chain([service(1, endpoints)]).collect::<Vec<_>>())
        };
        let (mut mode, _) = fresh();
        mode.sync(&all(&["10.244.0.1"]), Scope::Everything).unwrap();
        assert!(mode.doors().servers().virtual_servers().unwrap().len() > usize::from(count));
        mode.doors().servers.take_requests();
        let restored: usize = mode.programs().map(|program| program.restored.len()).sum();
        let before = (mode.doors().servers.messages(), mode.doors().sets.messages());
        let synced = changed(&mut mode, &all(&["10.244.0.1", "10.244.0.9"]), &[id("a1", Protocol::Tcp)]);
        let after = (mode.doors().servers.messages(), mode.doors().sets.messages());
        written.push((synced.operations, after.0 - before.0, after.1 - before.1));
        assert_eq!(
            mode.programs().map(|program| program.restored.len()).sum::<usize>(),
            restored,
            "no rule changes"
        );
    }
    assert_eq!(written[0], written[1]);
    assert!(written[0].0 <= 4, "{written:?}");
}

#[test]
fn a_removed_endpoint_waits_for_its_connections_and_a_returning_one_gets_its_weight_back() {
    let (mut mode, clock) = fresh();
    let two = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1", "10.244.0.2"])]);
    let one = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]);
    let (what, gone, ids) = (tcp("10.96.0.1:80"), at("10.244.0.2:8080"), [id("a", Protocol::Tcp)]);
    mode.sync(&two, Scope::Everything).unwrap();
    assert!(mode.doors().servers.set_connections(&what, gone, 1, 0));
    assert!(changed(&mut mode, &one, &ids).drain_after.is_some());
    assert_eq!(weights(&mut mode, &what), [(at("10.244.0.1:8080"), 1), (gone, 0)]);
    clock.pass(7);
    assert!(mode.settle().unwrap().drain_after.is_some(), "it has a connection");
    assert_eq!(mode.leaving(), Some(Leaving { count: 1, longest: Duration::from_secs(7) }));
    assert_eq!(weights(&mut mode, &what).len(), 2);
    // It comes back, and goes again.
    changed(&mut mode, &two, &ids);
    assert_eq!(weights(&mut mode, &what), [(at("10.244.0.1:8080"), 1), (gone, 1)]);
    changed(&mut mode, &one, &ids);
    // Another process finds it, and leaves it in peace.
    let mut second = again(&mut mode, Options::default(), &clock);
    assert!(second.sync(&one, Scope::Everything).unwrap().drain_after.is_some());
    assert_eq!(second.sync(&one, Scope::Everything).unwrap().operations, 0);
    clock.pass(10);
    assert!(second.settle().unwrap().drain_after.is_some());
    second.doors().servers.set_connections(&what, gone, 0, 0);
    assert_eq!(second.settle().unwrap().drain_after, None);
    assert_eq!(second.leaving(), None);
    assert_eq!(weights(&mut second, &what), [(at("10.244.0.1:8080"), 1)]);
}

#[test]
fn no_endpoint_waits_longer_than_the_operator_allows() {
    let (mut mode, clock) = fresh();
    let what = tcp("10.96.0.1:80");
    mode.sync(&of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1", "10.244.0.2"])]), Scope::Everything)
        .unwrap();
    mode.doors().servers.set_connections(&what, at("10.244.0.2:8080"), 1, 1);
    changed(&mut mode, &of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]), &[id("a", Protocol::Tcp)]);
    clock.pass(Options::default().drain_limit.as_secs());
    assert_eq!(mode.settle().unwrap().drain_after, None);
    assert_eq!(weights(&mut mode, &what).len(), 1);
}

#[test]
fn endpoints_of_udp_and_of_dh_go_at_once() {
    for (protocol, scheduler) in [("UDP", "rr"), ("SCTP", "rr"), ("TCP", "dh")] {
        let (mut mode, _) = fresh();
        let service = |endpoints: &[&str]| {
            of(&[annotated(
                web("a", "10.96.0.1", protocol, endpoints),
                "portway.io/ipvs-scheduler",
                scheduler,
            )])
        };
        mode.sync(&service(&["10.244.0.1", "10.244.0.2"]), Scope::Everything).unwrap();
        let ids = [id("a", Protocol::parse(protocol).unwrap())];
        assert_eq!(changed(&mut mode, &service(&["10.244.0.1"]), &ids).drain_after, None, "{protocol}");
        let servers = mode.doors().servers().virtual_servers().unwrap();
        assert!(servers.iter().all(|one| weights(&mut mode, &one.what).len() == 1), "{protocol}");
    }
}

#[test]
fn schedulers_are_the_kernels_by_option_and_by_annotation() {
    let what = tcp("10.96.0.1:80");
    let endpoints = ["10.244.0.1", "10.244.0.2"];
    let weighted = || {
        annotated(web("a", "10.96.0.1", "TCP", &endpoints), "portway.io/weights", "10.244.0.1=3,10.244.0.2=1")
    };
    for (option, objects, expected, first) in [
        (None, web("a", "10.96.0.1", "TCP", &endpoints), "rr", 1),
        (None, weighted(), "wrr", 3),
        (Some("lc"), web("a", "10.96.0.1", "TCP", &endpoints), "lc", 1),
        (Some("lc"), weighted(), "lc", 3),
        (
            Some("lc"),
            annotated(web("a", "10.96.0.1", "TCP", &endpoints), "portway.io/ipvs-scheduler", "sh"),
            "sh",
            1,
        ),
    ] {
        let scheduler = option.map(|name| Scheduler::named(name).unwrap());
        let mut mode = with(&kernel(), Options { scheduler, ..Options::default() }, &Clock::default());
        assert!(mode.sync(&of(&[objects]), Scope::Everything).unwrap().warned.is_empty());
        assert_eq!(server(&mut mode, &what).unwrap().scheduler, expected);
        assert_eq!(weights(&mut mode, &what)[0].1, first, "{expected}");
    }
}

#[test]
fn an_unknown_scheduler_is_refused_by_name_and_one_without_a_module_takes_nobody_else_along() {
    assert_eq!(
        Scheduler::named("lest").unwrap_err().to_string(),
        "unknown IPVS scheduler `lest`: it must be one of rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh"
    );
    let named =
        |name| annotated(web("a", "10.96.0.1", "TCP", &["10.244.0.1"]), "portway.io/ipvs-scheduler", name);
    let (mut mode, _) = fresh();
    let synced = mode.sync(&of(&[named("lest")]), Scope::Everything).unwrap();
    assert!(synced.warned[&id("a", Protocol::Tcp)].contains("`lest`"), "{synced:?}");
    assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "rr");
    mode.doors().servers.forget_scheduler("nq");
    let both = of(&[named("nq"), web("b", "10.96.0.2", "TCP", &["10.244.0.2"])]);
    let synced = mode.sync(&both, Scope::Everything).unwrap();
    assert!(synced.refused[&id("a", Protocol::Tcp)].contains("nq"), "{synced:?}");
    assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")), None);
    assert_eq!(weights(&mut mode, &tcp("10.96.0.2:80")).len(), 1);
}

#[test]
fn a_new_service_whose_scheduler_has_no_module_is_refused_with_the_name_of_the_scheduler() {
    let (mut mode, _) = fresh();
    mode.doors().servers.forget_scheduler("nq");
    let service = annotated(web("a", "10.96.0.1", "TCP", &["10.244.0.1"]), "portway.io/ipvs-scheduler", "nq");
    let synced = mode.sync(&of(&[service]), Scope::Everything).unwrap();
    let reason = &synced.refused[&id("a", Protocol::Tcp)];
    assert!(reason.contains("nq") && !reason.contains("real server"), "{reason}");
}

#[test]
fn virtual_servers_of_others_survive_sync_restart_and_cleanup() {
    let foreign = [tcp("203.0.113.5:80"), tcp("192.168.0.1:9999"), What::Mark(7, kernel::ipvs::Family::V4)];
    let mut twin = kernel();
    twin.host.add("eth0", ip("192.168.0.1"), 24);
    for what in foreign {
        let real = RealServer::masquerading(at("192.0.2.1:80"), 5);
        let added = [Request::Add(VirtualServer::new(what, "lc")), Request::AddServer(what, real)];
        assert!(twin.servers.run(&added).unwrap().is_empty());
    }
    let before = shown(&mut twin);
    let clock = Clock::default();
    let mut mode = with(&twin, Options::default(), &clock);
    mode.sync(&of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]), Scope::Everything).unwrap();
    let mut second = again(&mut mode, Options::default(), &clock);
    second.sync(&of(&[]), Scope::Everything).unwrap();
    for what in &foreign {
        assert_eq!(weights(&mut second, what), [(at("192.0.2.1:80"), 5)], "{what}");
    }
    assert_eq!(server(&mut second, &tcp("10.96.0.1:80")), None, "ours are known by their record");
    second.cleanup().unwrap();
    assert_eq!(shown(second.doors()), before);
    assert!(second.doors().sets().sets().unwrap().is_empty());
    assert!(second.doors().host().links().unwrap().iter().all(|link| link.name != DUMMY));
    for program in second.programs() {
        for table in [Table::Mangle, Table::Filter, Table::Nat] {
            let saved = program.save(table).unwrap().unwrap_or_default();
            assert!(!saved.contains("PORTWAY") && !saved.contains("KUBE"), "{saved}");
        }
    }
}

/// What upstream's IPVS mode leaves.
fn of_upstream(twin: &mut Twin) {
    twin.host.add("eth0", ip("192.168.0.1"), 24);
    twin.host.make_dummy(DUMMY).unwrap();
    twin.host.add_addresses(DUMMY, &[ip("10.96.0.1"), ip("10.96.0.77")]).unwrap();
    let node_ports = SetName::new("KUBE-NODE-PORT-TCP").unwrap();
    let create = [
        SetRequest::Create(Set::new(node_ports.clone(), Kind::Port)),
        SetRequest::Add(node_ports, Entry::Port(31_111)),
    ];
    assert!(twin.sets.run(&create).unwrap().is_empty());
    for what in ["10.96.0.1:80", "10.96.0.77:80", "192.168.0.1:31111", "192.168.0.1:22222"].map(tcp) {
        let real = RealServer::masquerading(at("10.244.0.1:8080"), 1);
        let requests = [Request::Add(VirtualServer::new(what, "rr")), Request::AddServer(what, real)];
        assert!(twin.servers.run(&requests).unwrap().is_empty());
    }
}

#[test]
fn upstreams_are_taken_over_and_its_stale_ones_go() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let mut mode = with(&twin, Options::default(), &Clock::default());
    let table = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]);
    mode.doors().servers.take_requests();
    let known = mode.sync(&table, Scope::AllThatIsKnown).unwrap();
    assert!(known.left_behind.is_empty());
    assert!(server(&mut mode, &tcp("10.96.0.77:80")).is_some(), "it may be asked for later");
    let requests = mode.doors().servers.take_requests();
    assert!(
        !requests.iter().any(|one| one.to_string().contains("TCP 10.96.0.1:80")),
        "it is right: {requests:?}"
    );
    let synced = mode.sync(&table, Scope::Everything).unwrap();
    assert_eq!(synced.replaced, ["set KUBE-NODE-PORT-TCP of upstream's IPVS mode"]);
    assert!(
        server(&mut mode, &tcp("10.96.0.77:80")).is_none()
            && server(&mut mode, &tcp("192.168.0.1:31111")).is_none()
    );
    assert!(server(&mut mode, &tcp("192.168.0.1:22222")).is_some(), "it is not upstream's");
    let bound = mode.doors().host().addresses().unwrap();
    assert!(!bound.iter().any(|address| address.ip == ip("10.96.0.77")));
    assert!(bound.iter().any(|address| address.ip == ip("192.168.0.1")), "the host's own stays");
}

#[test]
fn a_node_port_of_upstreams_has_a_protocol() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let name = SetName::new("KUBE-NODE-PORT-SCTP-HASH").unwrap();
    let entry = Entry::IpPort(ip("192.168.0.1"), Number::SCTP, 32_222);
    let kind = Kind::IpPort(kernel::ipset::Family::V4);
    let create = [SetRequest::Create(Set::new(name.clone(), kind)), SetRequest::Add(name, entry)];
    assert!(twin.sets.run(&create).unwrap().is_empty());
    let theirs = What::Address(at("192.168.0.1:32222"), Number::SCTP);
    let strangers = What::Address(at("192.168.0.1:31111"), Number::UDP);
    let add = [theirs, strangers].map(|what| Request::Add(VirtualServer::new(what, "rr")));
    assert!(twin.servers.run(&add).unwrap().is_empty());
    let mut mode = with(&twin, Options::default(), &Clock::default());
    mode.sync(&of(&[]), Scope::Everything).unwrap();
    assert_eq!(server(&mut mode, &theirs), None);
    assert!(server(&mut mode, &strangers).is_some(), "the set has TCP ports");
}

#[test]
fn what_the_operator_excludes_is_left_alone() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let excluded = vec!["10.96.0.0/24".parse().unwrap()];
    let mut mode = with(&twin, Options { excluded, ..Options::default() }, &Clock::default());
    mode.sync(&of(&[]), Scope::Everything).unwrap();
    assert!(server(&mut mode, &tcp("10.96.0.77:80")).is_some());
    let bound = mode.doors().host().addresses().unwrap();
    assert!(bound.iter().any(|address| address.ip == ip("10.96.0.77")), "else it could not be reached");
    assert!(server(&mut mode, &tcp("192.168.0.1:31111")).is_none());
}

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
    second.cleanup().unwrap();
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
    third.cleanup().unwrap();
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
    mode.cleanup().unwrap();
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
    mode.cleanup().unwrap();
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
    sent.path = kernel::nft::Path::Output;
    let program = mode.programs().next().unwrap();
    let ways = program.ways(&sent, std::time::Duration::ZERO);
    assert!(ways.len() == 1 && ways[0].outcome.masqueraded, "{ways:?}");
}

#[test]
fn health_checks_and_answers_pass_where_nothing_is_let_in_by_default() {
    let (mut mode, _) = fresh();
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000,
        "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80, "nodePort": 30_080}]});
    let ports = json!([{"port": 8080}]);
    let table =
        table(plain(), &[service("default", "a", &spec), slice("default", "a", &ports, &["10.244.0.1"])]);
    mode.sync(&table, Scope::Everything).unwrap();
    let program = mode.programs().next().unwrap();
    program.restore("*filter\n-P INPUT DROP\n-P FORWARD DROP\nCOMMIT\n").unwrap();
    assert_eq!(send(&mut mode, &table, "203.0.113.9", "192.168.0.1:32000", Some("eth0")), [End::Untouched]);
    assert_eq!(send(&mut mode, &table, "203.0.113.9", "192.168.0.1:32001", Some("eth0")), [End::Dropped]);
    let answer = Packet {
        source: ip("10.244.0.1"),
        destination: ip("203.0.113.9"),
        payload: Payload::Transport { protocol: Protocol::Tcp, port: 50_000 },
        interface: Some("veth1".into()),
    };
    let sent = twin::sim_packet(&answer, table.node());
    let states = BTreeSet::from([kernel::xtables::State::Established]);
    let program = mode.programs().next().unwrap();
    let outcome = program.send_as(&sent, &states, std::time::Duration::ZERO, &mut |_| true);
    assert_eq!(outcome.fate, kernel::nft::Fate::Untouched);
}

#[test]
fn drift_is_found_counted_and_repaired() {
    let (mut mode, _) = fresh();
    let table = of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1", "10.244.0.2"])]);
    mode.sync(&table, Scope::Everything).unwrap();
    let whole = canonical(&mut mode);
    let what = tcp("10.96.0.1:80");
    for damage in [
        Request::Delete(what),
        Request::DeleteServer(what, at("10.244.0.1:8080")),
        Request::ChangeServer(what, RealServer::masquerading(at("10.244.0.1:8080"), 9)),
        Request::Change(VirtualServer::new(what, "lc")),
        Request::AddServer(what, RealServer::masquerading(at("192.0.2.1:1"), 1)),
    ] {
        assert!(mode.doors().servers().run(std::slice::from_ref(&damage)).unwrap().is_empty());
        assert!(!mode.differences(&table).unwrap().is_empty(), "{damage}");
        assert!(mode.sync(&table, Scope::Everything).unwrap().operations > 0, "{damage}");
        mode.settle().unwrap();
        assert_eq!(canonical(&mut mode), whole, "{damage}");
        assert!(mode.differences(&table).unwrap().is_empty());
    }
    for set in SetId::ALL {
        let name = set.name(model::Family::V4);
        mode.doors().sets().run(&[SetRequest::Flush(name)]).unwrap();
        mode.sync(&table, Scope::Everything).unwrap();
        assert_eq!(canonical(&mut mode), whole, "{set:?}");
    }
    mode.doors().host.delete_dummy(DUMMY).unwrap();
    mode.sync(&table, Scope::Everything).unwrap();
    assert_eq!(canonical(&mut mode), whole);
}

#[test]
fn a_kernel_without_ipvs_says_which_module_is_missing() {
    let (mut mode, _) = fresh();
    mode.doors().servers.set_fault(Some(kernel::ipvs::Error::Missing));
    let error = mode.sync(&of(&[]), Scope::Everything).unwrap_err();
    assert!(error.to_string().contains("`ip_vs`") && error.retry_helps(), "{error}");
}
