//! The same on the real kernel, in a network namespace of its own, side by side with the twin.
//!
//! Every write that reaches the kernel goes to both, and both must say the same to it. After each step both must list the
//! same; so packets end in the real one where they do in the twin, and there they are asked. Crashes and lost answers are
//! played by the layer above; refusals are the kernel's own as well, of a transaction with something impossible in it.

use std::collections::BTreeSet;

use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::sim::Ends;
use dataplane::{Dataplane, Scope, SyncError, Synced};
use kernel::nft::{Error, Family, Kernel, Listed, Netlink, Result, Table, Transaction};
use kernel_sim::nft::{Faulty, Simulated};
use playground::namespace::Namespace;

use crate::points::{Calls, Point};
use crate::probes::Probes;
use crate::states::{States, differences};
use crate::story::Told;
use crate::watched::written;
use crate::world::Change;

/// A real kernel and a simulated one.
#[derive(Debug)]
struct Both {
    real: Netlink,
    twin: Simulated,
    written: Vec<Transaction>,
}

/// Where the points are tried.
#[derive(Debug)]
pub(crate) struct Ground {
    namespace: Namespace,
    change: Change,
    probes: Probes,
    states: States,
    /// How packets end before the change, and after it.
    old: Vec<Ends>,
    new: Vec<Ends>,
    cold: Vec<Listed>,
    pub(crate) refused_by_the_kernel: usize,
    pub(crate) listings: usize,
}

type Process = Nftables<Faulty<Both>>;

impl Ground {
    /// An error says why it cannot be.
    pub(crate) fn new(services: u16) -> std::result::Result<Self, String> {
        let namespace =
            Namespace::create().map_err(|e| format!("a network namespace of its own needs root: {e}"))?;
        let change = Change::of(services);
        let probes = Probes::of(&[&change.old, &change.new], change.new.node());
        let mut before = Nftables::new(Simulated::default(), Options::default());
        before.sync(&change.old, Scope::Everything).map_err(|e| e.to_string())?;
        let (old, new) = (probes.all_by_twin(before.kernel())?, probes.by_model(&change.new));
        let mut fresh = Nftables::new(Simulated::default(), Options::default());
        fresh.sync(&change.new, Scope::Everything).map_err(|e| e.to_string())?;
        let cold = written(fresh.kernel());
        let (states, _) = States::begin(&Simulated::default(), &probes)?;
        Ok(Self { namespace, change, probes, states, old, new, cold, refused_by_the_kernel: 0, listings: 0 })
    }

    /// What the sync asks of the kernel when nothing goes wrong.
    pub(crate) fn calls(&self, told: Told) -> Calls {
        let mut process = self.at_the_old_table();
        self.sync(&mut process, told).expect("it is taken");
        process.settle().expect("it is taken");
        Calls { written: process.kernel().below().written.split_off(0), listings: 0, generations: 0 }
    }

    /// Lets this go wrong.
    pub(crate) fn try_one(&mut self, point: &Point, told: Told) -> std::result::Result<(), String> {
        let mut process = self.at_the_old_table();
        point.arm(process.kernel());
        let first = self.sync(&mut process, told);
        if let Err(SyncError::Nft(Error::Refused { .. })) = &first {
            self.refused_by_the_kernel += 1;
        }
        self.compare(&mut process)?;
        if first.is_ok() {
            // Whatever became of it, the next sync finds what is left.
            let _ = process.settle();
            self.compare(&mut process)?;
        }
        if process.kernel().struck() == 0 {
            return Err("nothing went wrong".into());
        }
        process.kernel().heal();
        if process.kernel().is_dead() {
            let twin = process.kernel().below().twin.clone();
            process = self.start(twin);
        }
        self.converge(&mut process)
    }

    fn converge(&mut self, process: &mut Process) -> std::result::Result<(), String> {
        process.sync(&self.change.new, Scope::Everything).map_err(|e| format!("the next sync: {e}"))?;
        process.settle().map_err(|e| format!("the next settling: {e}"))?;
        self.compare(process)?;
        let left = written(&mut process.kernel().below().real);
        if left != self.cold {
            return Err(format!("the next sync does not converge: {}", differences(&left, &self.cold)));
        }
        let before = process.kernel().writes();
        process.sync(&self.change.new, Scope::Everything).map_err(|e| format!("one more sync: {e}"))?;
        let more = process.kernel().writes() - before;
        if more == 0 { Ok(()) } else { Err(format!("one more sync writes {more} times")) }
    }

    fn sync(&self, process: &mut Process, told: Told) -> std::result::Result<Synced, SyncError> {
        let scope = match told {
            Told::WhatChanged => Scope::Changed(&self.change.ids),
            Told::Everything => Scope::Everything,
        };
        process.sync(&self.change.new, scope)
    }

    /// Both kernels hold the same, and packets end as before or as after the change.
    fn compare(&mut self, process: &mut Process) -> std::result::Result<(), String> {
        let both = process.kernel().below();
        let (real, twin) = (written(&mut both.real), written(&mut both.twin));
        if real != twin {
            return Err(format!(
                "the kernel (here) and the twin (there) differ: {}",
                differences(&real, &twin)
            ));
        }
        self.listings += 1;
        for found in self.states.look(&both.twin, &self.probes)? {
            self.probes.third(found, &[&self.old, &self.new])?;
        }
        Ok(())
    }

    /// A process that has written the old table, and nothing else is there.
    fn at_the_old_table(&self) -> Process {
        let mut process = self.start(Simulated::default());
        for family in Family::ALL {
            let mut nothing = Transaction::new(family, "kube-proxy");
            nothing.destroy_table();
            process.kernel().run(&nothing).expect("it is taken");
        }
        process.sync(&self.change.old, Scope::Everything).expect("it is taken");
        process.settle().expect("it is taken");
        process.kernel().below().written.clear();
        process
    }

    fn start(&self, twin: Simulated) -> Process {
        let real = self.namespace.run(Netlink::open).expect("the namespace is ours").expect("it is root's");
        Nftables::new(Faulty::new(Both { real, twin, written: Vec::new() }), Options::default())
    }
}

impl Kernel for Both {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        let (real, twin) = (self.real.run(transaction), self.twin.run(transaction));
        assert_eq!(said(&real), said(&twin), "the kernel: {real:?}, the twin: {twin:?}");
        if real.is_ok() {
            self.written.push(transaction.clone());
        }
        real
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        self.real.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        self.real.list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>> {
        self.real.tables(family)
    }

    fn generation(&mut self) -> Result<u32> {
        self.real.generation()
    }
}

/// Which operation was refused, and with which number.
fn said(result: &Result<()>) -> BTreeSet<(usize, i32)> {
    match result {
        Err(Error::Refused { index, refusal, .. }) => [(*index, refusal.errno.0)].into(),
        Err(error) => panic!("neither taken nor refused: {error}"),
        Ok(()) => BTreeSet::new(),
    }
}
