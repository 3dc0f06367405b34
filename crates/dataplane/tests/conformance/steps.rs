//! Random clusters that change: what is followed step by step is what is written from scratch.

use std::collections::BTreeSet;

use dataplane::Scope;

use crate::common::{Simulation, assert_same, assert_writes_nothing, from_scratch, settle, sync};
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
            let delta = world.step();
            let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
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
