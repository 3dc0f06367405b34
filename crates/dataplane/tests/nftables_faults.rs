//! A kernel that refuses: nothing is half applied, the last good rules stay, the error names what was refused, and the next
//! sync converges. One Service that is refused does not hold back the others.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;
mod world;

use std::collections::BTreeSet;

use cluster::Small;
use dataplane::nftables::Options;
use dataplane::nftables::sim::{Nftables, comparable};
use dataplane::{Dataplane, Scope, SyncError};
use kernel::nft::{Family, Kernel, Listed, Operation, Transaction};
use kernel_sim::nft::Simulated;
use model::ForwardingTable;
use world::World;

fn empty() -> Nftables<Simulated> {
    Nftables::new(Simulated::default(), Options::default())
}

fn listed(dataplane: &mut Nftables<Simulated>) -> Vec<Option<Listed>> {
    let list = |family| dataplane.kernel().list(family, "kube-proxy").unwrap().map(comparable);
    Family::ALL.map(list).into()
}

fn from_scratch(table: &ForwardingTable) -> Vec<Option<Listed>> {
    let mut fresh = empty();
    fresh.sync(table, Scope::Everything).unwrap();
    listed(&mut fresh)
}

/// The number that is injected, and what the message must say of it.
const FAULTS: [(i32, &str); 5] = [
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::EBUSY, "the kernel refused operation 1 of"),
    (libc::EINTR, "somebody else changed nf_tables meanwhile"),
    (libc::ENOMEM, "out of memory"),
    (libc::EPERM, "run as root"),
];

#[test]
fn after_a_fault_at_any_transaction_the_next_sync_converges() {
    let mut injected = 0;
    for (errno, said) in FAULTS {
        for seed in 0..6 {
            let mut world = World::new(seed);
            let mut dataplane = empty();
            let mut is_clean = false;
            for _ in 0..15 {
                let delta = world.step();
                let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
                let before = listed(&mut dataplane);
                dataplane.kernel().refuse_next(usize::from(world.random.one_in(2)), errno);
                let result = dataplane.sync(&world.table, Scope::Changed(&ids));
                let settled = dataplane.settle();
                dataplane.kernel().stop_refusing();
                if let Err(error) = &result {
                    injected += 1;
                    assert!(error.to_string().contains(said), "{error}");
                    assert_eq!(error.retry_helps(), errno != libc::EPERM);
                    // One family was refused; the other was written.
                    let same = before.iter().zip(listed(&mut dataplane)).filter(|(a, b)| **a == *b).count();
                    assert!(same >= 1, "nothing is half applied");
                }
                is_clean = result.is_ok() && settled.is_ok();
            }
            let synced = dataplane.sync(&world.table, Scope::Changed(&BTreeSet::new())).unwrap();
            assert!(is_clean || synced.was_full, "after a fault the kernel is read");
            dataplane.settle().unwrap();
            assert_eq!(listed(&mut dataplane), from_scratch(&world.table), "errno {errno}, seed {seed}");
        }
    }
    eprintln!("counted: {injected} syncs refused by {} kinds of faults", FAULTS.len());
}

#[test]
fn a_fault_in_the_middle_of_a_cold_start_is_made_good() {
    let mut small = Small::new();
    small.service("web", "10.96.0.10", "None");
    small.endpoints("web", &["10.244.1.1"]);
    for passed in 0..8 {
        let mut dataplane = Nftables::new(FailsOnce::after(passed), Options::default());
        let is_refused = dataplane.sync(&small.table, Scope::Everything).is_err();
        assert_eq!(
            is_refused,
            passed < 6,
            "table, new chains, services and doors of IPv4; table and doors of IPv6"
        );
        let synced = dataplane.sync(&small.table, Scope::Changed(&BTreeSet::new())).unwrap();
        assert_eq!(synced.was_full, is_refused);
        let mut whole = Nftables::new(dataplane.kernel().kernel.clone(), Options::default());
        assert_eq!(listed(&mut whole), from_scratch(&small.table), "refused after {passed}");
    }
}

/// A kernel that refuses one transaction, after so many.
#[derive(Debug)]
struct FailsOnce {
    kernel: Simulated,
    passes: Option<usize>,
}

impl FailsOnce {
    fn after(passes: usize) -> Self {
        Self { kernel: Simulated::default(), passes: Some(passes) }
    }
}

impl Kernel for FailsOnce {
    fn run(&mut self, transaction: &Transaction) -> kernel::nft::Result<()> {
        if transaction.is_empty() {
            return Ok(());
        }
        if self.passes == Some(0) {
            self.kernel.refuse_next(1, libc::ENOMEM);
        }
        self.passes = self.passes.and_then(|passes| passes.checked_sub(1));
        self.kernel.run(transaction)
    }

    fn check(&mut self, transaction: &Transaction) -> kernel::nft::Result<()> {
        self.kernel.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> kernel::nft::Result<Option<Listed>> {
        self.kernel.list(family, table)
    }

    fn tables(&mut self, family: Family) -> kernel::nft::Result<Vec<kernel::nft::Table>> {
        self.kernel.tables(family)
    }

    fn generation(&mut self) -> kernel::nft::Result<u32> {
        self.kernel.generation()
    }
}

/// Three Services; the kernel takes no element of the second one's address.
fn three_services() -> Small {
    let mut small = Small::new();
    for (name, ip) in [("one", "10.96.0.1"), ("two", "10.96.0.2"), ("three", "10.96.0.3")] {
        small.service(name, ip, "None");
        small.endpoints(name, &["10.244.1.1", "10.244.1.2"]);
    }
    small
}

#[test]
fn a_refused_change_leaves_the_service_as_it_was() {
    let mut small = three_services();
    let mut dataplane = empty();
    dataplane.sync(&small.table, Scope::Everything).unwrap();
    let before = small.table.clone();
    small.take_changed();
    small.endpoints("two", &["10.244.1.1", "10.244.1.2", "10.244.1.3"]);
    dataplane.kernel().refuse_address([10, 96, 0, 2].into(), libc::ENFILE);
    let changed = small.take_changed();
    let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
    assert_eq!(synced.refused.len(), 1);
    dataplane.settle().unwrap();
    assert_eq!(listed(&mut dataplane), from_scratch(&before), "as it was");
    // A full sync tries again, in vain, and leaves it as it was again.
    let synced = dataplane.sync(&small.table, Scope::Everything).unwrap();
    assert_eq!(synced.refused.len(), 1);
    dataplane.settle().unwrap();
    assert_eq!(listed(&mut dataplane), from_scratch(&before), "as it was, again");
    // A change of it is tried at once.
    dataplane.kernel().stop_refusing();
    small.endpoints("two", &["10.244.1.7"]);
    let changed = small.take_changed();
    let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
    assert!(synced.refused.is_empty());
    dataplane.settle().unwrap();
    assert_eq!(listed(&mut dataplane), from_scratch(&small.table));
}

#[test]
fn a_passing_refusal_withholds_nobody() {
    let small = three_services();
    let mut dataplane = empty();
    dataplane.kernel().refuse_address([10, 96, 0, 2].into(), libc::ENOMEM);
    let error = dataplane.sync(&small.table, Scope::Everything).unwrap_err();
    assert!(error.retry_helps());
    assert!(matches!(error, SyncError::Nft(_)));
}

#[test]
fn cleanup_leaves_tables_of_others_alone() {
    let mut dataplane = empty();
    let mut foreign = Transaction::new(Family::V4, "kube-proxy");
    foreign.push(Operation::AddTable(Some("rules for kube-proxy".into())));
    dataplane.kernel().run(&foreign).unwrap();
    dataplane.sync(&ForwardingTable::default(), Scope::Changed(&BTreeSet::new())).unwrap();
    let mut other = Transaction::new(Family::V4, "mine");
    other.push(Operation::AddTable(None));
    dataplane.kernel().run(&other).unwrap();
    dataplane.cleanup().unwrap();
    let left: Vec<_> = Family::ALL.iter().flat_map(|f| dataplane.kernel().tables(*f).unwrap()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(&*left[0].name, "mine");
}
