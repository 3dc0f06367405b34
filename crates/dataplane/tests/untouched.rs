//! A full pass reads the kernel only when somebody else may have written to it.

use std::collections::BTreeSet;

use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Family, Kernel, Listed, Operation, Result, Table, Transaction};
use kernel_sim::nft::Simulated;
use model::object::{self, Read};
use model::{Cluster, Config, Event, ForwardingTable};
use serde_json::json;

/// A kernel that counts how often it is listed.
#[derive(Default)]
struct Counting {
    kernel: Simulated,
    listings: usize,
}

impl Kernel for Counting {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        self.kernel.run(transaction)
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        self.kernel.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        self.listings += 1;
        self.kernel.list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>> {
        self.kernel.tables(family)
    }

    fn generation(&mut self) -> Result<u32> {
        self.kernel.generation()
    }
}

/// A table of one service with so many endpoints.
fn table(endpoints: u8) -> ForwardingTable {
    let mut cluster = Cluster::new(Config { node_name: "a".into(), ..Config::default() });
    let addresses: Vec<_> =
        (1..=endpoints).map(|n| json!({"addresses": [format!("10.244.1.{n}")]})).collect();
    for value in [
        json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80}]}}),
        json!({"kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"port": 8080}], "endpoints": addresses,
            "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}}}),
    ] {
        let Read::Fact(fact) = object::read(&value) else { panic!("not a fact: {value}") };
        cluster.apply(Event::Apply(fact));
    }
    ForwardingTable::of(&cluster)
}

#[test]
fn a_kernel_that_nobody_else_wrote_to_is_not_read_again() {
    let mut mode = Nftables::new(Counting::default(), Options::default());
    mode.sync(&table(3), Scope::Everything).expect("it is taken");
    let read = mode.kernel().listings;
    let again = mode.sync(&table(3), Scope::Everything).expect("it is taken");
    assert_eq!((again.operations, again.was_full, mode.kernel().listings), (0, true, read));

    // What changed in the table is found all the same, and what waited is still deleted.
    let changed = mode.sync(&table(2), Scope::Everything).expect("it is taken");
    assert!(changed.operations > 0 && changed.settle_after.is_some(), "{changed:?}");
    mode.settle().expect("it is taken");
    assert_eq!(mode.kernel().listings, read);
    assert_eq!(mode.differences(&table(2)).expect("it can be read"), Vec::<String>::new());
}

#[test]
fn what_somebody_else_wrote_is_found_by_the_next_full_pass() {
    let mut mode = Nftables::new(Counting::default(), Options::default());
    mode.sync(&table(3), Scope::Everything).expect("it is taken");
    let read = mode.kernel().listings;
    let mut foreign = Transaction::new(Family::V4, "kube-proxy");
    foreign.push(Operation::FlushSet("endpoints".into()));
    mode.kernel().run(&foreign).expect("anybody may do so");

    // A change in part cannot know. The full pass that follows must.
    mode.sync(&table(3), Scope::Changed(&BTreeSet::new())).expect("it is taken");
    let repaired = mode.sync(&table(3), Scope::Everything).expect("it is taken");
    assert!(repaired.operations > 0 && mode.kernel().listings > read, "{repaired:?}");
    assert_eq!(mode.differences(&table(3)).expect("it can be read"), Vec::<String>::new());
}
