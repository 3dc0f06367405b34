//! Other programs: what they wrote is there after a cleanup, and nothing of ours; and what they changed of ours is put right.

use dataplane::Scope;
use dataplane::registry::known_chains;
use dataplane::sim::cluster::Small;
use dataplane::sim::difference;

use crate::common::{Simulation, assert_same, assert_writes_nothing, settle, sync};
use crate::world::World;

pub(crate) fn cleanup_leaves_what_is_foreign_alone(simulation: &Simulation) {
    let mut written = 0;
    for seed in 1..=10 {
        let mut node = simulation.node(1);
        node.add_foreign().unwrap();
        let before = node.listing().unwrap();
        let mut world = World::new(seed);
        sync(&mut *node, &world.table, Scope::Everything);
        world.step();
        sync(&mut *node, &world.table, Scope::Everything);
        if seed.is_multiple_of(2) {
            settle(&mut *node);
        }
        written += usize::from(node.listing().unwrap() != before);
        // Another process cleans up, too.
        if seed.is_multiple_of(3) {
            node = node.restart(&simulation.settings(1));
        }
        node.clean_up(known_chains()).unwrap();
        assert_eq!(difference(&before, &node.listing().unwrap()), "", "seed {seed}");
    }
    assert!(written > 5, "{written}");
}

/// A full sync puts it right, and then has nothing more to write.
pub(crate) fn what_other_programs_changed_is_put_right(simulation: &Simulation) {
    let small = Small::of(
        "svc web 10.96.0.10 80
         ep web 8080 10.244.1.1@a 10.244.1.2@a
         svc sticky 10.96.0.11 80 affinity=ClientIP
         ep sticky 8080 10.244.1.1@a 10.244.1.2@a
         svc outside 10.96.0.12 80@30080
         ep outside 8080 10.244.1.1@a 10.244.1.2@a
         svc empty 10.96.0.13 80",
    );
    let mut node = simulation.node(1);
    sync(&mut *node, &small.table, Scope::Everything);
    settle(&mut *node);
    let (mut good, mut seen, mut all) = (node.copy(), 0, 0);
    for (name, mut damaged) in node.damaged().unwrap() {
        let when = format!("{}: {name}", simulation.name);
        let is_other = damaged.listing().unwrap() != good.listing().unwrap();
        // Some of what a process writes down for the next one is not listed.
        let differs = !damaged.dataplane().differences(&small.table).unwrap().is_empty();
        assert!(differs || !is_other, "{when} is told by `differences`");
        let synced = damaged.dataplane().sync(&small.table, Scope::Everything).unwrap();
        assert!(synced.operations > 0 || synced.settle_after.is_some() || !is_other, "{when}");
        settle(&mut *damaged);
        assert_same(&mut *damaged, &mut *good, &when);
        assert_writes_nothing(&mut *damaged, &small.table, &when);
        (seen, all) = (seen + usize::from(is_other), all + 1);
    }
    let is_enough = seen >= 12 || simulation.mode.is_test_only();
    assert!(is_enough, "{seen} of {all}: `SimulatedMode::damaged` says what other programs may change");
    eprintln!("counted: {seen} changes of other programs on {}, put right", simulation.name);
}
