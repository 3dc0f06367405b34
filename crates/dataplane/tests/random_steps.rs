//! Random clusters that change: what is followed step by step is what is written from scratch, on the simulated kernel and on
//! the real one.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod twin;
mod world;

use std::collections::BTreeSet;

use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Family, Kernel, Listed, Netlink};
use kernel_sim::nft::Simulated;
use model::ForwardingTable;
use playground::namespace::Namespace;
use world::World;

const STEPS: usize = 40;

#[test]
fn changed_leaves_what_everything_leaves() {
    let (clusters, mut unsettled) = (60, 0);
    for seed in 0..clusters {
        let mut follower = Nftables::new(Simulated::default(), Options::default());
        let mut world = World::new(seed ^ 0x57e9);
        for step in 0..STEPS {
            unsettled += usize::from(follow(&mut world, &mut follower, step));
            let mut settled = follower.clone();
            settled.settle().unwrap();
            let mut fresh = from_scratch(&world.table);
            assert_same(&mut settled, &mut fresh, &format!("seed {seed}, step {step}"));
            assert_writes_nothing(&mut settled, &world.table, &format!("seed {seed}, step {step}"));
        }
    }
    let steps = u64::try_from(STEPS).unwrap() * clusters;
    eprintln!("counted: {steps} random steps, Changed as Everything, {unsettled} with deletions that waited");
}

mod needs_root {
    use super::*;

    #[test]
    fn root_the_real_kernel_follows_random_steps_as_the_twin() {
        let namespace = match Namespace::create() {
            Ok(namespace) => namespace,
            Err(e) => return eprintln!("skipped: a network namespace of its own needs root: {e}"),
        };
        let mut steps = 0;
        for seed in 0..8 {
            let mut real =
                Nftables::new(namespace.run(Netlink::open).unwrap().expect("root"), Options::default());
            real.cleanup().unwrap();
            let mut twin = Nftables::new(Simulated::default(), Options::default());
            let mut world = World::new(seed ^ 0xc0de);
            for step in 0..STEPS {
                let delta = world.step();
                let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
                let synced = real.sync(&world.table, Scope::Changed(&ids)).unwrap();
                assert_eq!(synced.refused, std::collections::BTreeMap::new(), "seed {seed}, step {step}");
                twin.sync(&world.table, Scope::Changed(&ids)).unwrap();
                if step % 2 == 0 {
                    real.settle().unwrap();
                    twin.settle().unwrap();
                }
                assert_same(&mut real, &mut twin, &format!("seed {seed}, step {step}"));
                steps += 1;
            }
            real.settle().unwrap();
            assert_same(&mut real, &mut from_scratch(&world.table), &format!("seed {seed}"));
            assert_writes_nothing(&mut real, &world.table, &format!("seed {seed}"));
        }
        eprintln!("counted: {steps} random steps on the real kernel, listed as on the twin");
    }
}

/// One more step. Deletions wait for every third one. Returns whether some do.
fn follow(world: &mut World, follower: &mut Nftables<Simulated>, step: usize) -> bool {
    let delta = world.step();
    let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
    let synced = follower.sync(&world.table, Scope::Changed(&ids)).unwrap();
    assert!(synced.refused.is_empty(), "{synced:?}");
    if step.is_multiple_of(3) {
        follower.settle().unwrap();
    }
    synced.settle_after.is_some()
}

fn from_scratch(table: &ForwardingTable) -> Nftables<Simulated> {
    let mut fresh = Nftables::new(Simulated::default(), Options::default());
    fresh.sync(table, Scope::Everything).unwrap();
    fresh
}

fn listed<K: Kernel>(dataplane: &mut Nftables<K>, family: Family) -> Option<Listed> {
    twin::comparable(dataplane.kernel().list(family, "kube-proxy").unwrap())
}

fn assert_same<A: Kernel, B: Kernel>(one: &mut Nftables<A>, other: &mut Nftables<B>, when: &str) {
    for family in Family::ALL {
        let (one, other) = (listed(one, family), listed(other, family));
        assert!(one == other, "{when}: {}", twin::difference(one.as_ref(), other.as_ref()));
    }
}

fn assert_writes_nothing<K: Kernel>(dataplane: &mut Nftables<K>, table: &ForwardingTable, when: &str) {
    assert_eq!(dataplane.differences(table).unwrap(), Vec::<String>::new(), "{when}");
    let synced = dataplane.sync(table, Scope::Everything).unwrap();
    assert_eq!((synced.operations, synced.settle_after), (0, None), "{when}");
}
