//! Random clusters that change: what is followed step by step is what is written from scratch.

use dataplane::Scope;
use dataplane::sim::cluster::{Small, tcp};

use crate::common::{Simulation, assert_same, assert_writes_nothing, expected, from_scratch, settle, sync};
use crate::world::World;

const CLUSTERS: u64 = 60;
const STEPS: usize = 40;

pub(crate) fn changed_leaves_what_everything_leaves(simulation: &Simulation) {
    let mut unsettled = 0;
    for seed in 0..CLUSTERS {
        let mut world = World::new(seed ^ 0x57e9);
        let mut follower = simulation.node(seed);
        for step in 0..STEPS {
            let when = format!("{}, seed {seed}, step {step}", simulation.name);
            let ids = world.step().before.into_keys().collect();
            let synced = sync(&mut *follower, &world.table, Scope::Changed(&ids));
            unsettled += usize::from(synced.settle_after.is_some());
            // Deletions wait for every third step.
            if step.is_multiple_of(3) {
                settle(&mut *follower);
            }
            let mut settled = follower.copy();
            settle(&mut *settled);
            assert_same(&mut *from_scratch(&*settled, &world.table), &mut *settled, &when);
            assert_writes_nothing(&mut *settled, &world.table, &when);
        }
    }
    let (name, steps) = (&simulation.name, u64::try_from(STEPS).unwrap() * CLUSTERS);
    eprintln!(
        "counted: {steps} random steps of {name}, Changed as Everything, {unsettled} with deletions that waited"
    );
}

/// The Services of a load balancer's address, before and after.
const SOURCE_CHANGES: [[&str; 2]; 2] = [
    [
        "svc old 10.96.0.10 80 ranges=203.0.113.0/24 lb=198.51.100.1",
        "svc new 10.96.0.11 80 ranges=192.168.0.0/16 lb=198.51.100.1",
    ],
    [
        "svc old 10.96.0.10 80 ranges=192.168.0.0/16,203.0.113.0/24 lb=198.51.100.1",
        "svc old 10.96.0.10 80 ranges=192.168.0.0/16 lb=198.51.100.1",
    ],
];

pub(crate) fn a_source_that_may_not_come_any_more_reaches_no_endpoint_that_is_new(simulation: &Simulation) {
    for [before, after] in SOURCE_CHANGES {
        let mut small = Small::of(&format!("{before}\nep old 8080 10.244.1.2@a\nep new 8080 10.244.1.1@a"));
        let (old, mut running) = (small.table.clone(), simulation.node(1));
        sync(&mut *running, &old, Scope::Everything);
        small.take_changed();
        small.remove("old");
        small.say(after);
        let mut restarted = running.restart(&simulation.settings(1));
        assert!(small.follow(running.dataplane()).refused.is_empty());
        sync(&mut *restarted, &small.table, Scope::Everything);
        for (source, node) in ["203.0.113.77", "192.168.5.7"]
            .iter()
            .flat_map(|source| [(source, running.copy()), (source, restarted.copy())])
        {
            let (packet, mut node) = (tcp(source, "198.51.100.1:80", Some("uplink0")), node);
            let allowed = [&old, &small.table].map(|table| expected(&*node, table, &packet));
            let found = node.ends(&packet, &[&small.table]).unwrap();
            assert!(allowed.contains(&found), "{after}: {source}: {found:?}, and not {allowed:?}");
        }
    }
}
