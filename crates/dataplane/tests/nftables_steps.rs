//! Random clusters that change: nftables mode follows them on the real kernel as on the simulated one.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod world;

use std::collections::BTreeSet;

use dataplane::nftables::Options;
use dataplane::nftables::sim::{Nftables, listing};
use dataplane::sim::difference;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Kernel, Netlink};
use kernel_sim::nft::Simulated;
use model::ForwardingTable;
use playground::namespace::Namespace;
use world::World;

const STEPS: usize = 40;

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

fn from_scratch(table: &ForwardingTable) -> Nftables<Simulated> {
    let mut fresh = Nftables::new(Simulated::default(), Options::default());
    fresh.sync(table, Scope::Everything).unwrap();
    fresh
}

fn assert_same<A: Kernel, B: Kernel>(one: &mut Nftables<A>, other: &mut Nftables<B>, when: &str) {
    let (one, other) = (listing(one.kernel()).unwrap(), listing(other.kernel()).unwrap());
    assert_eq!(difference(&one, &other), "", "{when}");
}

fn assert_writes_nothing<K: Kernel>(dataplane: &mut Nftables<K>, table: &ForwardingTable, when: &str) {
    assert_eq!(dataplane.differences(table).unwrap(), Vec::<String>::new(), "{when}");
    let synced = dataplane.sync(table, Scope::Everything).unwrap();
    assert_eq!((synced.operations, synced.settle_after), (0, None), "{when}");
}
