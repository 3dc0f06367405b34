//! What is true of userspace mode alone: what is opened, written and held, and what an earlier life leaves. What every mode must do is
//! in `conformance`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

#[path = "../golden/guides.rs"]
mod guides;
mod order;
mod real;
#[path = "../world/mod.rs"]
mod world;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use dataplane::relay::{self, ListenerId, Purpose};
use dataplane::sim::cluster::{changed, everything, id, of, web, web_with};
use dataplane::userspace::{Options, Userspace};
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;
use model::flows::StaleFlows;
use model::{ForwardingTable, Protocol, ServicePortId};

type Mode = Userspace<Simulated, relay::Simulated>;

fn mode(doors: [Simulated; 2], relay: relay::Simulated) -> Mode {
    Userspace::new(doors, relay, Options::default())
}

fn fresh() -> Mode {
    mode(Family::ALL.map(|family| Simulated::new(Variant::Nft, family)), relay::Simulated::default())
}

/// What a process finds after another one was killed: the rules, and no listener.
fn killed(before: &mut Mode) -> Mode {
    let doors: Vec<Simulated> = before.doors().map(|door| door.clone()).collect();
    mode(doors.try_into().unwrap(), relay::Simulated::default())
}

/// A Service of TCP with these endpoints.
fn a(endpoints: &[&str]) -> ForwardingTable {
    of(&[web("a", "10.96.0.1", "TCP", endpoints)])
}

/// The listener of a service port, and its port.
fn listener(mode: &mut Mode, port: &ServicePortId) -> (relay::Listener, u16) {
    let (port, family, purpose) = (port.clone(), model::Family::V4, Purpose::Cluster);
    let (listener, port) = mode.relays().listener(&ListenerId { port, family, purpose }).unwrap();
    (listener.clone(), port)
}

/// The port of ours at which the Service `a` is relayed, and to how many endpoints.
fn port_of_a(mode: &mut Mode, protocol: Protocol) -> (u16, usize) {
    let (listener, port) = listener(mode, &id("a", protocol));
    (port, listener.pool.endpoints().len())
}

fn endpoints_of(mode: &mut Mode, port: &ServicePortId) -> Vec<String> {
    let endpoints = listener(mode, port).0.pool;
    endpoints.endpoints().iter().map(|one| format!("{}:{}", one.address, one.port)).collect()
}

/// Two Services, of TCP and of UDP.
fn a_and_b() -> [String; 2] {
    [web("a", "10.96.0.1", "TCP", &["10.244.0.1"]), web("b", "10.96.0.2", "UDP", &["10.244.0.2"])]
}

fn saved(mode: &mut Mode) -> String {
    mode.doors().map(|door| door.save(Table::Nat).unwrap().unwrap()).collect()
}

#[test]
fn a_change_of_endpoints_alone_changes_the_relay_and_writes_no_rule() {
    let mut mode = fresh();
    everything(&mut mode, &a(&["10.244.0.1"]));
    let restores: Vec<usize> = mode.doors().map(|door| door.restored.len()).collect();
    let (port, _) = port_of_a(&mut mode, Protocol::Tcp);
    let synced = changed(&mut mode, &a(&["10.244.0.1", "10.244.0.2"]), &[id("a", Protocol::Tcp)]);
    assert_eq!(synced.operations, 0);
    assert_eq!(mode.doors().map(|door| door.restored.len()).collect::<Vec<_>>(), restores);
    assert_eq!(port_of_a(&mut mode, Protocol::Tcp), (port, 2));
}

#[test]
fn after_a_crash_the_same_ports_are_bound_and_no_rule_changes() {
    let local = [
        web("a", "10.96.0.1", "TCP", &["10.244.0.1@a"]),
        web_with("b", "10.96.0.2", "UDP", &["10.244.0.2@a", "10.244.1.1@b"], "internal=Local"),
        web_with("c", "10.96.0.3", "TCP", &["10.244.0.3@a", "10.244.1.2@b"], "external=Local"),
    ];
    let mut first = fresh();
    // Ports that a counter would not give again in this order.
    for count in [1, 3, 2, 3] {
        everything(&mut first, &of(&local[..count]));
    }
    let ports = first.ports().clone();
    assert_eq!(ports.iter().count(), 5, "{ports:?}");
    let mut second = killed(&mut first);
    let synced = everything(&mut second, &of(&local));
    assert_eq!((synced.operations, second.ports()), (0, &ports));
    assert_eq!(synced.stale, Some(BTreeSet::new()), "flows lead where they led");
}

#[test]
fn the_ports_of_the_old_proxy_of_upstream_are_taken_over_from_its_rules() {
    for guide in guides::documents().into_iter().take(2) {
        let lines = guide.lines.clone();
        let chains = ["PORTALS-CONTAINER", "PORTALS-HOST", "NODEPORT-CONTAINER", "NODEPORT-HOST"];
        let chains = chains.map(|chain| format!(":KUBE-{chain} - [0:0]\n")).concat();
        let mut doors = Family::ALL.map(|family| Simulated::new(Variant::Legacy, family));
        let jump = "-A OUTPUT -m addrtype --dst-type LOCAL -m comment --comment \"handle service NodePorts; NOTE: this must be \
                    the last rule in the chain\" -j KUBE-NODEPORT-HOST";
        doors[0].restore(&format!("*nat\n{chains}{}\n{jump}\nCOMMIT\n", lines.join("\n"))).unwrap();
        let mut mode = mode(doors, relay::Simulated::default());
        everything(&mut mode, &guide.table);
        assert_eq!(mode.ports(), &guide.ports, "{}", guide.name);
        let text = saved(&mut mode);
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        assert!(!text.contains(jump), "it led loopback addresses, too: {text}");
    }
}

#[test]
fn a_port_that_another_program_took_meanwhile_is_replaced_and_its_flows_are_stale() {
    let table = of(&[web("a", "10.96.0.1", "UDP", &["10.244.0.1"])]);
    let mut first = fresh();
    everything(&mut first, &table);
    let (lost, _) = port_of_a(&mut first, Protocol::Udp);
    let mut second = killed(&mut first);
    second.relays().take(Protocol::Udp, lost);
    let synced = everything(&mut second, &table);
    let (now, _) = port_of_a(&mut second, Protocol::Udp);
    assert_ne!(now, lost);
    assert!(synced.operations > 0 && !saved(&mut second).contains(&lost.to_string()));
    let stale = synced.stale.unwrap();
    let to_cluster_ip = stale.iter().find(|flows| flows.destination.0.to_string() == "10.96.0.1").unwrap();
    assert!(to_cluster_ip.still_served_by.iter().all(|(_, port)| *port == now), "{stale:?}");
    assert!(stale.iter().any(|flows| flows.destination.1 == 30_097), "the node port's too: {stale:?}");
}

#[test]
fn what_becomes_of_flows() {
    let endpoints = ["10.244.0.1@a", "10.244.1.1@b"];
    let both = of(&[web("a", "10.96.0.1", "UDP", &endpoints)]);
    let one = of(&[web("a", "10.96.0.1", "UDP", &endpoints[..1])]);
    let none = of(&[web("a", "10.96.0.1", "UDP", &[])]);
    let local = of(&[web_with("a", "10.96.0.1", "UDP", &endpoints, "external=Local")]);
    let gone = of(&[]);
    let ids = [id("a", Protocol::Udp)];
    let numbers = |stale: &BTreeSet<StaleFlows>| -> Vec<u16> {
        stale.iter().map(|flows| flows.destination.1).collect()
    };
    let mut mode = fresh();
    for (step, table, stale) in [
        ("it is new: who dialled it before was led nowhere", &both, &[80, 30_097][..]),
        ("an endpoint goes: flows lead to us, and we to the other one", &one, &[]),
        ("the last one goes", &none, &[80, 30_097]),
        ("they come back", &both, &[80, 30_097]),
        ("the world is led elsewhere", &local, &[30_097]),
        ("and back", &both, &[30_097]),
        ("nothing changes", &both, &[]),
        ("it is deleted", &gone, &[80, 30_097]),
    ] {
        let synced = changed(&mut mode, table, &ids);
        assert_eq!(numbers(&synced.stale.unwrap()), stale, "{step}");
    }
}

#[test]
fn a_listener_that_cannot_be_opened_is_told_by_name_and_holds_back_no_other() {
    let services =
        [web("a", "10.96.0.1", "TCP", &["10.244.0.1"]), web("b", "10.96.0.2", "TCP", &["10.244.0.2"])];
    let doors = Family::ALL.map(|family| Simulated::new(Variant::Legacy, family));
    let mut mode = mode(doors, relay::Simulated::with_range(40_000..=40_000));
    let synced = everything(&mut mode, &of(&services));
    let reason = &synced.refused[&id("b", Protocol::Tcp)];
    assert!(synced.refused.len() == 1 && reason.contains("--proxy-port-range"), "{synced:?}");
    let text = saved(&mut mode);
    assert!(text.contains("10.96.0.1/32") && !text.contains("10.96.0.2/32"), "{text}");
    // It gets the port when the other one goes, though that is closed only after the rules were written.
    let ids = [id("a", Protocol::Tcp), id("b", Protocol::Tcp)];
    changed(&mut mode, &of(&services[1..]), &ids);
    let synced = everything(&mut mode, &of(&services[1..]));
    assert!(synced.refused.is_empty() && saved(&mut mode).contains("10.96.0.2/32"));
}

#[test]
fn a_change_that_the_relay_refuses_leaves_a_service_as_it_was_and_others_follow() {
    let a = |endpoints: &[&str], keys| web_with("a", "10.96.0.1", "UDP", endpoints, keys);
    let b = |endpoints: &[&str]| web("b", "10.96.0.2", "UDP", endpoints);
    let before = of(&[a(&["10.244.0.1@a", "10.244.1.1@b"], ""), b(&["10.244.0.2"])]);
    let c = web("c", "10.96.0.3", "UDP", &["10.244.0.3"]);
    let desired = of(&[a(&["10.244.0.7@a"], "external=Local"), b(&["10.244.0.2", "10.244.0.8"]), c]);
    let [id_a, id_b, id_c] = ["a", "b", "c"].map(|name| id(name, Protocol::Udp));
    let doors = Family::ALL.map(|family| Simulated::new(Variant::Nft, family));
    let mut mode = mode(doors, relay::Simulated::with_range(40_000..=40_003));
    for port in [40_002, 40_003] {
        mode.relays().take(Protocol::Udp, port);
    }
    everything(&mut mode, &before);
    let (ports, rules) = (mode.ports().clone(), saved(&mut mode));
    // Its listener takes no part of the change, and no other is opened for it.
    let ids: BTreeSet<_> = [&id_a, &id_b, &id_c].into_iter().cloned().collect();
    for scope in [Scope::Changed(&ids), Scope::Everything] {
        let synced = mode.sync(&desired, scope).unwrap();
        assert!(synced.refused.keys().eq([&id_a, &id_c]), "{synced:?}");
        assert_eq!((synced.operations, synced.stale), (0, Some(BTreeSet::new())));
        assert_eq!((mode.ports().clone(), saved(&mut mode)), (ports.clone(), rules.clone()));
        let endpoints = [&id_a, &id_b].map(|id| endpoints_of(&mut mode, id));
        assert_eq!(
            endpoints,
            [["10.244.0.1:8080", "10.244.1.1:8080"], ["10.244.0.2:8080", "10.244.0.8:8080"]]
        );
        assert_eq!(mode.relays().held().len(), 2, "the node port of the new one is not held");
        assert_eq!(mode.differences(&desired).unwrap(), [] as [&str; 0]);
    }
    // The other program lets go of the ports.
    for port in [40_002, 40_003] {
        mode.relays().give_back(Protocol::Udp, port);
    }
    assert!(everything(&mut mode, &desired).refused.is_empty());
    let endpoints = [&id_a, &id_c].map(|id| endpoints_of(&mut mode, id));
    assert_eq!(endpoints, [["10.244.0.7:8080"], ["10.244.0.3:8080"]]);
    assert!(saved(&mut mode).contains("10.96.0.3/32") && mode.relays().held().len() == 3);
}

#[test]
fn node_ports_are_held_and_one_that_another_program_has_is_told_by_name() {
    let services = a_and_b();
    let mut mode = fresh();
    mode.relays().take(Protocol::Udp, 30_098);
    let synced = everything(&mut mode, &of(&services));
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let held: Vec<_> = mode.relays().held().iter().copied().collect();
    assert_eq!(held, [(at("192.168.0.1:30097"), Protocol::Tcp)]);
    assert!(synced.warned[&id("b", Protocol::Udp)].contains("`192.168.0.1:30098`"));
    assert!(saved(&mut mode).contains("--dport 30098"), "the rule is there");
    // The other program ends, and the next comparison holds it.
    mode.relays().give_back(Protocol::Udp, 30_098);
    let synced = everything(&mut mode, &of(&services));
    assert!(synced.warned.is_empty() && mode.relays().held().len() == 2);
    changed(&mut mode, &of(&services[..1]), &[id("b", Protocol::Udp)]);
    assert_eq!(mode.relays().held().len(), 1);
    changed(&mut mode, &of(&[]), &[id("a", Protocol::Tcp)]);
    assert!(mode.relays().held().is_empty());
}

#[test]
fn what_nobody_asks_for_stays_until_all_is_known_and_leads_to_nobody_else() {
    let (a, b) =
        (web("a", "10.96.0.1", "TCP", &["10.244.0.1"]), web("b", "10.96.0.2", "TCP", &["10.244.0.2"]));
    let c = web("c", "10.96.0.3", "TCP", &["10.244.0.3"]);
    let mut first = fresh();
    everything(&mut first, &of(&[a, b.clone()]));
    let mut second = killed(&mut first);
    second.sync(&of(std::slice::from_ref(&b)), Scope::AllThatIsKnown).unwrap();
    assert!(saved(&mut second).contains("10.96.0.1/32"), "it may be asked for later");
    // Its port is kept for it meanwhile, and nobody else gets it.
    let lost = first.ports().get(&id("a", Protocol::Tcp), model::Family::V4, Purpose::Cluster).unwrap();
    changed(&mut second, &of(&[b.clone(), c.clone()]), &[id("c", Protocol::Tcp)]);
    assert!(second.ports().iter().all(|(_, port)| port != lost), "{:?}", second.ports());
    assert!(saved(&mut second).contains("10.96.0.1/32"));
    everything(&mut second, &of(&[b, c]));
    assert!(!saved(&mut second).contains("10.96.0.1/32"));
    let node_ports = second.relays().held().iter().filter(|(at, _)| !at.ip().is_unspecified()).count();
    assert_eq!((second.relays().held().len(), node_ports), (2, 2), "only node ports are held now");
}

#[test]
fn a_flush_of_the_kernels_own_chains_is_seen_at_a_glance() {
    let table = of(&a_and_b());
    let ours = ["PORTALS-CONTAINER", "PORTALS-HOST", "NODEPORT-CONTAINER", "NODEPORT-HOST"];
    let ours = ours.map(|name| (format!("KUBE-{name}"), false)).into_iter();
    for (chain, is_seen) in ours.chain(["PREROUTING", "OUTPUT"].map(|name| (name.to_owned(), true))) {
        let mut mode = fresh();
        everything(&mut mode, &table);
        assert!(!mode.is_flushed().unwrap());
        mode.doors().next().unwrap().restore(&format!("*nat\n-F {chain}\nCOMMIT\n")).unwrap();
        assert_eq!(mode.is_flushed().unwrap(), is_seen, "{chain}");
    }
}

#[test]
fn sctp_is_refused_by_name_and_nothing_leads_anywhere() {
    let mut seen = 0;
    for seed in 1..40 {
        let world = world::World::new(seed);
        let mut mode = fresh();
        let synced = everything(&mut mode, &world.table);
        let is_sctp = |port: &&std::sync::Arc<model::ServicePort>| port.id().protocol == Protocol::Sctp;
        let served = world.table.ports().filter(is_sctp).filter(|port| !port.routes.is_empty());
        let named: BTreeSet<_> = served.map(|port| port.id()).collect();
        assert_eq!(synced.refused.keys().collect::<BTreeSet<_>>(), named);
        assert!(synced.refused.values().all(|reason| reason.contains("cannot carry SCTP")), "{synced:?}");
        let save = |door: &mut Simulated| [Table::Filter, Table::Nat].map(|table| door.save(table).unwrap());
        assert!(mode.doors().flat_map(save).flatten().all(|text| !text.contains("sctp")), "seed {seed}");
        seen += named.len();
    }
    assert!(seen > 10, "{seen}");
}
