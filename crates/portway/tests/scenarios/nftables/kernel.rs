//! nftables on the real kernel, in a network namespace of its own, side by side with the twin.
//!
//! Every transaction goes to both, both must say the same, and after each step both must list the same. The `nft` program
//! must be able to list what is there. Packets are sent in `packets.rs`, not here.

use std::collections::BTreeSet;

use dataplane::Scope;
use dataplane::nftables::sim::{Nftables, listing};
use dataplane::nftables::{Options, render};
use dataplane::sim::difference;
use kernel::nft::{Error, Family, Kernel, Listed, Netlink, Table, Transaction};
use kernel_sim::nft::Simulated;
use model::{Delta, ForwardingTable, Packet, Promises, ServicePortId};
use playground::namespace::Namespace;

use super::nft;
use crate::simulated::{settle, sync};
use crate::subject::{Subject, Visit};

/// The mode on the real kernel.
#[derive(Debug)]
pub(crate) struct Real {
    namespace: Namespace,
    dataplane: Nftables<Pair>,
    table: ForwardingTable,
    steps: usize,
    /// The program has not seen the present table yet.
    is_unlisted: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) transactions: usize,
    pub(crate) listings: usize,
    pub(crate) seen_by_nft: usize,
}

/// A real kernel and a simulated one.
#[derive(Debug)]
struct Pair {
    real: Netlink,
    twin: Simulated,
    done: Done,
}

impl Real {
    /// In a new namespace. An error says why that cannot be.
    pub(crate) fn new() -> Result<Self, String> {
        let namespace = Namespace::create().map_err(|e| format!("a network namespace needs root: {e}"))?;
        let real = namespace.run(Netlink::open).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        let pair = Pair { real, twin: Simulated::default(), done: Done::default() };
        Ok(Self {
            namespace,
            dataplane: Nftables::new(pair, Options::default()),
            table: ForwardingTable::default(),
            steps: 0,
            is_unlisted: false,
        })
    }

    /// What was done.
    pub(crate) fn done(&mut self) -> Done {
        self.dataplane.kernel().done
    }

    fn compare(&mut self) -> Result<(), String> {
        let pair = self.dataplane.kernel();
        let difference = difference(&listing(&mut pair.real)?, &listing(&mut pair.twin)?);
        if !difference.is_empty() {
            return Err(format!("the kernel (here) and the twin (there) differ: {difference}"));
        }
        pair.done.listings += Family::ALL.len();
        Ok(())
    }

    fn show_to_nft(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.is_unlisted) && nft::lists(&self.namespace, &self.table)? {
            nft::accepts(&self.namespace, &render(&self.table, &Options::default()))?;
            self.dataplane.kernel().done.seen_by_nft += 1;
        }
        Ok(())
    }
}

impl Subject for Real {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        Promises::default().of_rules()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        self.steps += 1;
        self.is_unlisted = true;
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut self.dataplane, table, Scope::Changed(&ids))?;
        self.compare()?;
        if self.steps.is_multiple_of(2) {
            settle(&mut self.dataplane)?;
            self.compare()?;
        }
        if sync(&mut self.dataplane, table, Scope::Everything)?.operations > 0 {
            return Err("a full sync writes something, but nothing changed".into());
        }
        Ok(())
    }

    fn pass(&mut self, _seconds: u64) {}

    fn ask(&mut self, _packet: &Packet) -> Result<Vec<Visit>, String> {
        self.show_to_nft().map(|()| Vec::new())
    }
}

impl Kernel for Pair {
    fn run(&mut self, transaction: &Transaction) -> Result<(), Error> {
        self.done.transactions += usize::from(!transaction.is_empty());
        let (real, twin) = (self.real.run(transaction), self.twin.run(transaction));
        assert_eq!(real.is_ok(), twin.is_ok(), "the kernel: {real:?}, the twin: {twin:?}, {transaction:?}");
        real
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), Error> {
        self.real.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>, Error> {
        self.real.list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>, Error> {
        self.real.tables(family)
    }

    fn generation(&mut self) -> Result<u32, Error> {
        self.real.generation()
    }
}
