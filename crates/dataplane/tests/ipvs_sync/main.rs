//! How IPVS mode follows changes: whose virtual servers are whose, what real servers wait for, schedulers, and the sores of upstream's.
#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

#[path = "../iptables_guides/mod.rs"]
mod iptables_guides;
#[path = "../ipvs_ends/mod.rs"]
mod ipvs_ends;
#[path = "../userspace_services/mod.rs"]
mod userspace_services;

mod addresses;
mod drains;
mod leaving;
mod owners;
mod refused;
mod schedulers;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::ipvs::{Bound, DUMMY, Doors as _, Ipvs, Options, Scheduler, SetId};
use dataplane::sim::{End, sim_packet};
use dataplane::{Dataplane, Leaving, Scope, Synced};
use iptables_guides::{plain, service, slice, table};
use ipvs_ends::{Clock, Mode, Twin, canonical, kernel, of_packet, programs, shown};
use kernel::IpProtocol as Number;
use kernel::host::ChangeHost as _;
use kernel::ipset::{Entry, Ipsets as _, Kind, Request as SetRequest, Set, SetName};
use kernel::ipvs::{Ipvs as _, RealServer, Request, VirtualServer, What};
use kernel::xtables::{Table, Variant, Xtables as _};
use kernel_sim::xtables::Simulated;
use model::fate::Payload;
use model::{ForwardingTable, Packet, Protocol, ServicePortId};
use serde_json::{Value, json};
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
    let sent = sim_packet(&answer, table.node());
    let states = BTreeSet::from([kernel::xtables::State::Established]);
    let program = mode.programs().next().unwrap();
    let outcome = program.send_as(&sent, &states, std::time::Duration::ZERO, &mut |_| true);
    assert_eq!(outcome.fate, kernel_sim::nft::Fate::Untouched);
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
