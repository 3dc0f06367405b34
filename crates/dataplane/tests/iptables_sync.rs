//! The iptables mode follows random clusters: step by step as from scratch, on the twin and on both real programs.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Family, FoundTable, Programs, Table, Variant, Xtables};
use kernel_sim::sysctl;
use kernel_sim::xtables::Simulated;
use model::{ForwardingTable, Frontend};
use playground::namespace::Namespace;
use world::World;

const STEPS: usize = 40;

fn twins(variant: Variant) -> Iptables<Simulated> {
    Iptables::new(Family::ALL.map(|family| Simulated::new(variant, family)), Options::default())
}

/// All chains with their rules; where no order matters, in one order.
fn listed<X: Xtables>(mode: &mut Iptables<X>) -> BTreeMap<(Family, Table, String), Vec<String>> {
    let mut all = BTreeMap::new();
    for door in mode.doors() {
        for table in [Table::Filter, Table::Nat, Table::Mangle] {
            let Some(text) = door.save(table).unwrap() else { continue };
            for chain in FoundTable::parse(&text).chains {
                let text = |rule: &kernel::xtables::FoundRule| {
                    rule.known().map_or_else(|| rule.to_string(), |rule| rule.canonical().to_string())
                };
                let mut rules: Vec<String> = chain.rules.iter().map(text).collect();
                let last = rules.last().cloned();
                if ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"]
                    .contains(&chain.name.as_str())
                {
                    rules.sort();
                    if table == Table::Nat && chain.name == "KUBE-SERVICES" {
                        rules.extend(last.filter(|rule| rule.ends_with("-j KUBE-NODEPORTS")));
                    }
                }
                all.insert((door.family(), table, chain.name), rules);
            }
        }
    }
    all
}

fn assert_same<A: Xtables, B: Xtables>(one: &mut Iptables<A>, other: &mut Iptables<B>, when: &str) {
    let (one, other) = (listed(one), listed(other));
    for key in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
        assert_eq!(one.get(key), other.get(key), "{when}: {key:?}");
    }
}

fn assert_writes_nothing<X: Xtables>(mode: &mut Iptables<X>, table: &ForwardingTable, when: &str) {
    assert_eq!(mode.differences(table).unwrap(), Vec::<String>::new(), "{when}");
    assert_eq!(mode.sync(table, Scope::Everything).unwrap().operations, 0, "{when}");
}

/// Who follows must forget the flows to what went while nobody ran.
#[test]
fn what_an_earlier_life_served_and_nobody_asks_for_is_told() {
    let mut told = 0;
    for seed in 0..20 {
        let mut mode = twins(Variant::Nft);
        let mut world = World::new(seed ^ 0x1ef7);
        (0..STEPS).for_each(|_| drop(world.step()));
        mode.sync(&world.table, Scope::Everything).unwrap();
        let before = served(&world.table);
        (0..STEPS).for_each(|_| drop(world.step()));
        // Not all is known yet, so nothing goes, and it is told as kept.
        let synced = mode.sync(&world.table, Scope::AllThatIsKnown).unwrap();
        assert_eq!(synced.left_behind, BTreeSet::new(), "seed {seed}");
        let kept = synced.kept;
        let synced = mode.sync(&world.table, Scope::Everything).unwrap();
        let gone = before.into_iter().filter(|frontend| world.table.route(frontend).is_none());
        let gone: BTreeSet<Frontend> = gone.collect();
        assert_eq!(synced.left_behind, gone, "seed {seed}");
        assert_eq!(kept, gone, "seed {seed}");
        told += gone.len();
    }
    assert!(told > 0, "nothing ever went");
}

/// The frontends that lead to endpoints.
fn served(table: &ForwardingTable) -> BTreeSet<Frontend> {
    let routes = table.ports().flat_map(|port| &port.routes);
    routes.filter(|route| route.inside.pool().is_some()).map(|route| route.frontend).collect()
}

mod needs_root {
    use super::*;
    use dataplane::registry::known_chains;
    use dataplane::upstream::clear_all;

    #[test]
    fn root_both_programs_follow_random_steps_as_the_twin() {
        let namespace = match Namespace::create() {
            Ok(namespace) => namespace,
            Err(e) => return eprintln!("skipped: a network namespace of its own needs root: {e}"),
        };
        for variant in Variant::ALL {
            let mut found = Programs::find();
            found.programs.retain(|door| door.variant() == variant);
            if found.programs.len() < 2 {
                eprintln!("skipped: {variant} is not installed");
                continue;
            }
            let steps = namespace
                .run(move || {
                    let mut steps = 0;
                    for seed in 0..3 {
                        let mut real = Iptables::new(found.programs.clone(), Options::default());
                        real.doors().for_each(|door| clear_all(known_chains(), door).unwrap());
                        let mut twin = twins(variant);
                        let mut world = World::new(seed ^ 0xc0de);
                        for step in 0..15 {
                            let delta = world.step();
                            let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
                            let synced = real.sync(&world.table, Scope::Changed(&ids)).unwrap();
                            assert!(synced.refused.is_empty(), "{synced:?}");
                            twin.sync(&world.table, Scope::Changed(&ids)).unwrap();
                            real.settle().unwrap();
                            twin.settle().unwrap();
                            assert_same(
                                &mut real,
                                &mut twin,
                                &format!("{variant}, seed {seed}, step {step}"),
                            );
                            steps += 1;
                        }
                        assert_writes_nothing(&mut real, &world.table, &format!("{variant}, seed {seed}"));
                    }
                    steps
                })
                .unwrap();
            eprintln!("counted: {steps} random steps of {variant} on the real kernel, saved as on the twin");
        }
    }
}

#[test]
fn a_liberal_tracker_has_no_invalid_packet_dropped_from_the_next_full_sync_on() {
    let setting = "net/netfilter/nf_conntrack_tcp_be_liberal";
    let table = World::new(1).table;
    for variant in Variant::ALL {
        let doors = Family::ALL.map(|family| Simulated::new(variant, family));
        let settings = sysctl::Simulated::new([(setting, "1")]);
        let mut mode = Iptables::beside(doors, Options::default(), settings);
        let drops = |mode: &mut Iptables<Simulated>| {
            let forward = |(key, rules): (&(Family, Table, String), &Vec<String>)| {
                key.2 == "KUBE-FORWARD" && rules.iter().any(|rule| rule.contains("INVALID"))
            };
            listed(mode).iter().filter(|entry| forward(*entry)).count()
        };
        mode.sync(&table, Scope::Everything).unwrap();
        assert_eq!(drops(&mut mode), 0);
        for (value, dropped) in [("0", 2), ("1", 0)] {
            mode.settings().values.insert(setting.to_owned(), value.to_owned());
            let before = drops(&mut mode);
            mode.sync(&table, Scope::Changed(&BTreeSet::new())).unwrap();
            assert_eq!(drops(&mut mode), before, "it is read at full syncs");
            let told = mode.sync(&table, Scope::Everything).unwrap().settings;
            assert!(told.len() == 1 && told[0].contains(&format!("be_liberal is {value}")), "{told:?}");
            assert!(mode.sync(&table, Scope::Everything).unwrap().settings.is_empty());
            assert_eq!((drops(&mut mode), mode.differences(&table).unwrap()), (dropped, vec![]), "{value}");
        }
    }
}
