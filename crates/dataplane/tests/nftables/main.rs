//! What is true of the nftables mode alone. What every mode must do is in `conformance`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod adopt;
mod generations;
mod ranges;
mod reads;
mod refusals;
#[path = "../world/mod.rs"]
mod world;

use std::collections::BTreeSet;

use dataplane::nftables::Options;
use dataplane::nftables::sim::{Nftables, listing};
use dataplane::sim::cluster::{Small, everything};
use dataplane::sim::{Listing, difference};
use dataplane::{Dataplane, Scope};
use kernel::nft::{Element, Family, Kernel, Netlink, Operation, Transaction};
use kernel_sim::nft::{Faulty, Simulated};
use model::ForwardingTable;
use playground::namespace::Namespace;

const TABLE: &str = "kube-proxy";

type Mode = Nftables<Simulated>;

/// Another process on a kernel in the same state.
fn fresh(kernel: &Simulated) -> Mode {
    Nftables::new(kernel.clone(), Options::default())
}

fn empty() -> Mode {
    fresh(&Simulated::default())
}

/// The mode as it has written this.
fn written(small: &mut Small) -> Mode {
    let mut mode = empty();
    everything(&mut mode, &small.table);
    small.take_changed();
    mode
}

fn listed<K: Kernel>(mode: &mut Nftables<K>) -> Listing {
    listing(mode.kernel()).unwrap()
}

/// The kernel holds what a first process writes for this table.
#[track_caller]
fn assert_as_from_scratch<K: Kernel>(mode: &mut Nftables<K>, table: &ForwardingTable) {
    let mut cold = empty();
    cold.sync(table, Scope::Everything).unwrap();
    assert_eq!(difference(&listed(mode), &listed(&mut cold)), "");
}

#[track_caller]
fn assert_no_differences<K: Kernel>(mode: &mut Nftables<K>, small: &Small) {
    assert_eq!(mode.differences(&small.table).unwrap(), Vec::<String>::new());
}

/// Another program, or an earlier process, writes to a table of this family.
fn write(
    kernel: &mut dyn Kernel,
    family: Family,
    table: &str,
    operations: impl IntoIterator<Item = Operation>,
) {
    let mut transaction = Transaction::new(family, table);
    transaction.extend(operations);
    kernel.run(&transaction).unwrap();
}

fn elements(kernel: &mut dyn Kernel, set: &str) -> BTreeSet<Element> {
    kernel.list(Family::V4, TABLE).unwrap().unwrap().sets[set].elements.iter().cloned().collect()
}

fn tables(mode: &mut Mode) -> Vec<String> {
    let tables = mode.kernel().tables(Family::V4).unwrap();
    tables.iter().map(|table| table.name.to_string()).collect()
}

/// The Service `web` with two endpoints.
fn web() -> Small {
    Small::of("svc web 10.96.0.10 80\nep web 8080 10.244.1.1@a 10.244.1.2@a")
}

/// The Service `web`, and others that are sticky.
fn web_and(others: &[(&str, &str)]) -> Small {
    let mut small = web();
    for (name, ip) in others {
        let endpoints = "10.244.1.3@a 10.244.1.4@a 10.244.1.5@a";
        small.say(&format!("svc {name} {ip} 80 affinity=ClientIP\nep {name} 8080 {endpoints}"));
    }
    small
}
