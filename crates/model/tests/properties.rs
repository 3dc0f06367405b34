//! The table is a function of the facts: of nothing else, and above all not of the order in which they came.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use model::Place;
use model::facts::Fact;
use model::fate::{Fate, Payload};
use model::{Cluster, Config, Event, ForwardingTable, NodePortAddress, Packet, Promises, Rechoice, Report};
use support::{Random, any_object, config, deletion, fact};

const WORLDS: u64 = 1_500;

/// A cluster and the table that followed it step by step.
struct Follower {
    cluster: Cluster,
    table: ForwardingTable,
}

impl Follower {
    fn new(config: &Config) -> Self {
        let cluster = Cluster::new(config.clone());
        let table = ForwardingTable::of(&cluster);
        Self { cluster, table }
    }

    fn apply(&mut self, event: Event) {
        let before = self.table.clone();
        let changed = self.cluster.apply(event);
        let delta = self.table.update(&self.cluster, &changed);
        for (id, was) in &delta.before {
            assert_eq!(before.port(id), was.as_ref(), "the delta tells how {id} was");
            assert_ne!(self.table.port(id), was.as_ref(), "the delta names only what is different: {id}");
        }
        for port in before.ports().chain(self.table.ports()) {
            let is_same = before.port(port.id()) == self.table.port(port.id());
            assert!(is_same || delta.before.contains_key(port.id()), "the delta names {}", port.id());
        }
    }

    fn reports(&self) -> BTreeSet<Report> {
        self.cluster.reports().chain(self.table.reports()).cloned().collect()
    }

    fn assert_is(&self, other: &Follower, seed: u64) {
        assert_same(&self.table, &other.table, seed);
        assert_eq!(self.reports(), other.reports(), "seed {seed}");
    }
}

/// Names the first service port in which two tables differ, rather than printing both whole.
fn assert_same(one: &ForwardingTable, other: &ForwardingTable, seed: u64) {
    for port in one.ports().chain(other.ports()) {
        assert_eq!(one.port(port.id()), other.port(port.id()), "seed {seed}");
    }
    assert!(one == other, "seed {seed}: claims, node or health checks differ");
}

/// The facts of a world, each named once.
fn world(r: &mut Random) -> BTreeMap<String, Fact> {
    let mut facts = BTreeMap::new();
    for _ in 0..4 + r.below(12) {
        let fact = fact(&any_object(r));
        facts.insert(format!("{:?}", deletion(&fact)), fact);
    }
    facts
}

#[test]
fn a_choice_made_later_is_as_if_it_had_been_made_at_the_start() {
    for seed in 0..WORLDS {
        let mut r = Random::new(seed);
        let before = config(&mut r);
        let choice = Rechoice {
            masquerade_all: r.one_in(2),
            node_port_addresses: [NodePortAddress::Primary, NodePortAddress::Localhost][..r.below(3)]
                .to_vec(),
        };
        let after = Config {
            masquerade_all: choice.masquerade_all,
            node_port_addresses: choice.node_port_addresses.clone(),
            ..before.clone()
        };
        let (mut later, mut at_once) = (Follower::new(&before), Follower::new(&after));
        for fact in world(&mut r).into_values() {
            later.apply(Event::Apply(fact.clone()));
            at_once.apply(Event::Apply(fact));
        }
        later.apply(Event::Rechosen(choice.clone()));
        later.assert_is(&at_once, seed);
        assert!(later.cluster.apply(Event::Rechosen(choice)).is_empty(), "the same choice is no news");
    }
}

#[test]
fn an_address_of_one_family_leaves_the_other_to_the_node_object() {
    let said =
        Config { node_name: "a".into(), node_ips: vec!["192.0.2.9".parse().unwrap()], ..Config::default() };
    let mut node = Follower::new(&said);
    let addresses = serde_json::json!([
        {"type": "InternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": "2001:db8::1"}
    ]);
    let object =
        serde_json::json!({"kind": "Node", "metadata": {"name": "a"}, "status": {"addresses": addresses}});
    node.apply(Event::Apply(fact(&object)));
    let primary = |family| node.table.node().primary.get(family).map(|ip| ip.to_string());
    assert_eq!(primary(model::Family::V4).as_deref(), Some("192.0.2.9"));
    assert_eq!(primary(model::Family::V6).as_deref(), Some("2001:db8::1"));
}

#[test]
fn what_is_kept_is_enough_to_make_the_same_table_elsewhere() {
    for seed in 0..WORLDS {
        let mut r = Random::new(seed);
        let config = config(&mut r);
        let mut here = Follower::new(&config);
        for fact in world(&mut r).into_values() {
            here.apply(Event::Apply(fact));
        }
        let mut elsewhere = Follower::new(&config);
        for object in here.cluster.objects() {
            elsewhere.apply(Event::Apply(fact(&object)));
        }
        assert_same(&here.table, &elsewhere.table, seed);
    }
}

#[test]
fn the_table_depends_on_the_facts_and_not_on_their_order() {
    for seed in 0..WORLDS {
        let mut r = Random::new(seed);
        let config = config(&mut r);
        let facts = world(&mut r);
        let mut straight = Follower::new(&config);
        for fact in facts.values() {
            straight.apply(Event::Apply(fact.clone()));
        }
        let mut detour = Follower::new(&config);
        for event in detour_to(&mut r, &facts) {
            detour.apply(event);
        }
        detour.assert_is(&straight, seed);
    }
    eprintln!("counted: {WORLDS} random worlds, seeds 0 to {}, each in two orders", WORLDS - 1);
}

/// Events that end in `facts`, in a random order, with repetitions, with other versions first, and with objects that come
/// and go.
fn detour_to(r: &mut Random, facts: &BTreeMap<String, Fact>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for _ in 0..10 {
        let other = fact(&any_object(r));
        if r.one_in(3) {
            events.push(deletion(&other));
        }
        events.push(Event::Apply(other));
    }
    let strangers: Vec<Event> = events
        .iter()
        .filter_map(|e| if let Event::Apply(f) = e { Some(deletion(f)) } else { None })
        .collect();
    events.extend(strangers.into_iter().filter(|d| !facts.contains_key(&format!("{d:?}"))));
    let mut last: Vec<&Fact> = facts.values().chain(facts.values()).collect();
    r.shuffle(&mut last);
    for fact in last {
        if r.one_in(4) {
            events.push(deletion(fact));
        }
        events.push(Event::Apply(fact.clone()));
    }
    events
}

#[test]
fn step_by_step_equals_from_scratch() {
    for seed in 0..WORLDS {
        let mut r = Random::new(seed ^ 0xabcd);
        let config = config(&mut r);
        let mut follower = Follower::new(&config);
        for _ in 0..25 {
            let fact = fact(&any_object(&mut r));
            follower.apply(if r.one_in(4) { deletion(&fact) } else { Event::Apply(fact) });
            assert_same(&follower.table, &ForwardingTable::of(&follower.cluster), seed);
        }
    }
    eprintln!("counted: {} steps compared with a table from scratch", WORLDS * 25);
}

#[test]
fn a_service_is_never_sent_to_an_endpoint_of_another() {
    for seed in 0..WORLDS {
        let mut r = Random::new(seed ^ 0x5eed);
        let facts = world(&mut r);
        let mut follower = Follower::new(&config(&mut r));
        for fact in facts.values() {
            follower.apply(Event::Apply(fact.clone()));
        }
        for port in follower.table.ports() {
            let own = endpoints_of(&facts, port.id().service.as_str());
            for route in &port.routes {
                for pool in [&route.inside, &route.outside].into_iter().filter_map(|action| action.pool()) {
                    assert!(
                        pool.endpoints().iter().all(|e| own.contains(&e.address)),
                        "seed {seed}: {port:?}"
                    );
                    assert_eq!(
                        pool.slots(),
                        pool.endpoints().iter().map(|e| u32::from(e.slots)).sum::<u32>()
                    );
                }
            }
        }
    }
}

fn endpoints_of(facts: &BTreeMap<String, Fact>, service: &str) -> BTreeSet<std::net::IpAddr> {
    let slices =
        facts.values().filter_map(|f| if let Fact::EndpointSlice(slice) = f { Some(slice) } else { None });
    let own = slices.filter(|slice| slice.service.as_ref().is_some_and(|s| s.as_str() == service));
    own.flat_map(|slice| slice.endpoints.iter().map(|e| e.address)).collect()
}

#[test]
fn every_fate_is_one_that_the_table_allows() {
    let sources = ["10.244.0.1", "10.244.0.3", "192.168.0.1", "203.0.113.77", "fd00:244::1", "2001:db8::77"];
    let mut asked = 0;
    for seed in 0..WORLDS {
        let mut r = Random::new(seed ^ 0xfa7e);
        let mut follower = Follower::new(&config(&mut r));
        for fact in world(&mut r).into_values() {
            follower.apply(Event::Apply(fact));
        }
        let frontends: Vec<_> =
            follower.table.ports().flat_map(|p| p.routes.iter().map(|x| x.frontend)).collect();
        for frontend in frontends {
            let model::Frontend::Address { ip, protocol, port } = frontend else { continue };
            let source: std::net::IpAddr = r.pick(&sources).parse().unwrap();
            if source.is_ipv4() != ip.is_ipv4() {
                continue;
            }
            let packet = Packet {
                source,
                destination: ip,
                payload: Payload::Transport { protocol, port },
                interface: None,
            };
            let answer = follower.table.fate(&packet, &Promises::default());
            assert_ne!(answer.fate, Fate::Untouched, "a frontend is ours: seed {seed}, {packet:?}");
            assert!(!answer.why.is_empty());
            if let Fate::OneOf(one_of) = &answer.fate {
                let slots: u32 = one_of.landings.iter().map(|l| u32::from(l.slots)).sum();
                assert_eq!(slots, one_of.slots);
                let (_, route) = follower.table.route(&frontend).expect("it was found there");
                for landing in one_of.landings.iter().filter(|l| l.address == source && !l.masqueraded) {
                    let pools =
                        [&route.inside, &route.outside].into_iter().filter_map(|action| action.pool());
                    let endpoint =
                        pools.flat_map(model::Pool::endpoints).find(|e| e.address == landing.address);
                    assert!(
                        endpoint.is_some_and(|e| e.place == Place::Elsewhere),
                        "a hairpin is masqueraded: seed {seed}"
                    );
                }
            }
            asked += 1;
        }
    }
    eprintln!("counted: {asked} packets asked of {WORLDS} random worlds");
}
