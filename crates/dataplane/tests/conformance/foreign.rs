//! What other programs wrote is there after a cleanup, and nothing of ours.

use dataplane::Scope;
use dataplane::registry::known_chains;
use dataplane::sim::difference;

use crate::common::{Simulation, settle, sync};
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
