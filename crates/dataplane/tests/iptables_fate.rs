//! Random clusters, random packets: rendered rules send each packet where the model says, with the same shares.
//!
//! The rules are walked here as netfilter walks them: `nat` before `filter`, PREROUTING and FORWARD or INPUT for what
//! arrives, OUTPUT and perhaps INPUT for what this host sends. What `recent` remembers is not: every client is a new one.
//!
//! `PORTWAY_PACKETS` asks for more of them, `PORTWAY_SEED` for others; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod iptables_guides;
mod iptables_walk;
mod world;

use std::collections::BTreeMap;

use dataplane::iptables::{Comments, Options, Renderer, SHARED, TO_SERVICES, Tables};
use iptables_guides::{plain, service, slice, table};
use iptables_walk::{self as walk, End, Ends};
use model::fate::Payload;
use model::{Event, Family, Fate, ForwardingTable, Packet, Protocol};
use serde_json::json;
use world::World;

const PACKETS: u64 = 100_000;
const STEPS: u64 = 25;
const PACKETS_PER_STEP: u64 = 50;

#[test]
fn rules_send_random_packets_where_the_model_says() {
    let packets = number("PORTWAY_PACKETS").unwrap_or(PACKETS);
    let clusters = packets.div_ceil(STEPS * PACKETS_PER_STEP);
    let first = number("PORTWAY_SEED").unwrap_or(1);
    let mut counts = BTreeMap::new();
    for seed in first..first + clusters {
        let mut world = World::new(seed);
        // Every second cluster lets node ports answer on loopback addresses.
        let options = Options { localhost_node_ports: seed % 2 == 0, ..Options::default() };
        for _ in 0..STEPS {
            world.step();
            packets_of_a_step(&mut world, &options, seed, &mut counts);
        }
    }
    eprintln!(
        "counted: {} random packets over {clusters} clusters, seed {first}",
        counts.values().sum::<u64>()
    );
    eprintln!("counted: of these {counts:?}");
    assert!(counts.len() > 4 || packets < PACKETS, "{counts:?}");
}

#[test]
fn a_refused_address_of_this_host_is_not_taken_for_a_node_port_of_that_number() {
    let port = json!([{"port": 30080}]);
    let refused = json!({"clusterIPs": ["10.96.0.1"], "ports": port, "externalIPs": ["192.168.0.1"]});
    let node_port = json!([{"port": 80, "nodePort": 30080}]);
    let other = json!({"type": "NodePort", "clusterIPs": ["10.96.0.2"], "ports": node_port});
    let objects = [
        service("default", "refused", &refused),
        service("default", "other", &other),
        slice("default", "other", &json!([{"port": 8080}]), &["10.244.0.1"]),
    ];
    let (table, options) = (table(plain(), &objects), Options::default());
    let tables = Family::ALL.map(|family| Renderer::new(&table, family, &options).tables());
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: 30080 };
    let (source, destination) = ("203.0.113.7".parse().unwrap(), "192.168.0.1".parse().unwrap());
    let packet = Packet { source, destination, payload, interface: Some("eth0".into()) };
    assert_eq!(got(&tables, &table, &packet), Ends::from([(End::Rejected, 1_000_000)]));
    assert_eq!(got(&tables, &table, &packet), expected(&table, &packet, &options));
}

#[test]
fn the_whole_is_made_of_its_parts() {
    let (mut world, options) = (World::new(7), Options::default());
    for _ in 0..STEPS {
        world.step();
        for family in Family::ALL {
            let renderer = Renderer::new(&world.table, family, &options);
            let (whole, base) = (renderer.tables(), renderer.base());
            let parts: Vec<_> = world.table.ports().map(|port| renderer.of_port(port)).collect();
            let own: usize = parts.iter().map(|part| part.own.len()).sum();
            assert_eq!(whole.nat.len(), own + base.nat.len() + 2);
            for shared in SHARED {
                let rules = parts.iter().filter_map(|part| part.shared.get(&shared)).flatten();
                let last = base.last.iter().filter(|_| shared == TO_SERVICES);
                let found = whole.chains(shared.table).iter().find(|chain| chain.name == shared.chain());
                let mut rules: Vec<_> = rules.chain(last).cloned().collect();
                shared.arrange(&mut rules);
                assert_eq!(found.unwrap().rules, rules);
            }
        }
    }
}

#[test]
fn comments_of_own_chains_go_when_there_are_more_endpoints_than_that() {
    let objects = [
        service("default", "web", &json!({"clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]})),
        slice("default", "web", &json!([{"port": 80}]), &["10.244.0.1", "10.244.0.2"]),
    ];
    let table = table(plain(), &objects);
    for (comments, has_comments) in
        [(Comments::Always, true), (Comments::UpTo(2), true), (Comments::UpTo(1), false)]
    {
        let options = Options { comments, ..Options::default() };
        let renderer = Renderer::new(&table, Family::V4, &options);
        assert_eq!(renderer.has_comments(), has_comments, "{comments:?}");
        let text = renderer.tables().restore_text();
        assert_eq!(text.contains("default/web -> 10.244.0.1:80"), has_comments, "{text}");
        assert!(text.contains("default/web cluster IP"), "{text}");
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the variable must be a number"))
}

fn packets_of_a_step(
    world: &mut World,
    options: &Options,
    seed: u64,
    counts: &mut BTreeMap<&'static str, u64>,
) {
    let tables = Family::ALL.map(|family| Renderer::new(&world.table, family, options).tables());
    for _ in 0..PACKETS_PER_STEP {
        let packet = world.packet();
        let expected = expected(&world.table, &packet, options);
        let got = got(&tables, &world.table, &packet);
        *counts.entry(kind(&expected)).or_default() += 1;
        if got != expected {
            fail(world, options, seed, &packet);
        }
    }
}

/// The guard that comes with `route_localnet` drops such packets where no Service leads them elsewhere.
fn is_guarded_against(packet: &Packet) -> bool {
    packet.destination.is_ipv4() && packet.destination.is_loopback() && !packet.source.is_loopback()
}

fn kind(ends: &Ends) -> &'static str {
    match ends.keys().next() {
        Some(End::Untouched) => "untouched",
        Some(End::Rejected) => "rejected",
        Some(End::Dropped) => "dropped",
        Some(End::At { masqueraded: true, .. }) => "masqueraded",
        Some(End::At { .. }) => "landed",
        None => "nowhere",
    }
}

fn expected(table: &ForwardingTable, packet: &Packet, options: &Options) -> Ends {
    let one = |end| Ends::from([(end, 1_000_000)]);
    match table.fate(packet, &options.promises()).fate {
        Fate::Untouched | Fate::Rejected if options.localhost_node_ports && is_guarded_against(packet) => {
            one(End::Dropped)
        }
        Fate::Untouched => one(End::Untouched),
        Fate::Rejected => one(End::Rejected),
        Fate::Dropped => one(End::Dropped),
        Fate::OneOf(one_of) => {
            let end = |landing: &model::Landing| {
                let end = End::At { to: (landing.address, landing.port), masqueraded: landing.masqueraded };
                (end, walk::millionths(f64::from(landing.slots) / f64::from(one_of.slots)))
            };
            one_of.landings.iter().map(end).collect()
        }
    }
}

fn got(tables: &[Tables; 2], table: &ForwardingTable, packet: &Packet) -> Ends {
    let of_family = &tables[usize::from(packet.destination.is_ipv6())];
    walk::ends(of_family, packet, &|address| table.node().is_own(address))
}

fn fail(world: &World, options: &Options, seed: u64, packet: &Packet) {
    let config = world.cluster.config();
    let differ = |facts: &BTreeMap<String, Event>| {
        let table = world::table_of(config, facts.values());
        let tables = Family::ALL.map(|family| Renderer::new(&table, family, options).tables());
        let (expected, got) = (expected(&table, packet, options), got(&tables, &table, packet));
        (expected != got).then_some((expected, got, tables))
    };
    let mut facts = world.facts.clone();
    for key in world.facts.keys() {
        let mut fewer = facts.clone();
        fewer.remove(key);
        if differ(&fewer).is_some() {
            facts = fewer;
        }
    }
    let Some((expected, got, tables)) = differ(&facts) else { panic!("PORTWAY_SEED={seed}: {packet:?}") };
    panic!(
        "PORTWAY_SEED={seed} PORTWAY_PACKETS=1 replays it\n{config:?}\n{}\n{}\n{packet:?}\nexpected {expected:?}\ngot      {got:?}",
        world::show(&facts),
        tables[usize::from(packet.destination.is_ipv6())].restore_text(),
    );
}
