//! One way in which a kernel comes from the old table to the new one, and what must hold when something goes wrong on it.
//!
//! The rule, for each packet by itself: after every write that reached the kernel, whatever went wrong before or after it,
//! the packet ends where the old table sends it or where the new one does, with the same shares; never at a third place. Two
//! packets may differ in which: the families are written one after the other, and a service port that the kernel refuses
//! stays as it was while all others are new. Where it does, and the node has another address at the same time, "as it was"
//! means: its endpoints are the old ones, and the node is the new one.
//!
//! Then nothing goes wrong any more, and the next sync, of the same process or of a fresh one after a crash, must lead to the
//! very table that an empty kernel would have got, with nothing left over; and one more sync must write nothing.

use std::collections::BTreeSet;

use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::sim::Ends;
use dataplane::{Dataplane, Scope, ServicePortIds, SyncError, Synced};
use kernel::nft::Listed;
use kernel_sim::nft::{Faulty, Simulated};
use model::affinity::Memory;
use model::{ForwardingTable, ServiceName, ServicePortId};

use crate::points::{Calls, Point};
use crate::probes::Probes;
use crate::states::{At, States};
use crate::watched::{Watched, written};
use crate::world::{self, Change};

/// The mode, on a kernel that fails on command.
pub(crate) type Process = Nftables<Faulty<Watched>>;

/// What the process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    WhatChanged,
    Everything,
}

/// A way from the old table to the new one.
#[derive(Debug)]
pub(crate) struct Story {
    services: u16,
    /// Just before the sync of the change.
    process: Process,
    told: Told,
    change: Change,
    probes: Probes,
    /// How packets end before the change, and after it.
    old: Vec<Ends>,
    new: Vec<Ends>,
    /// What the header of a test allows besides.
    besides: Vec<Vec<Ends>>,
    /// Refused service ports are not as they were, but absent: the process did not see how they were.
    is_blind: bool,
    is_restarted: bool,
    /// What the new table is in an empty kernel.
    cold: Vec<Listed>,
    /// The states of the kernel that were met.
    known: States,
    begin: At,
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    pub(crate) points: usize,
    pub(crate) states: usize,
    pub(crate) withheld: usize,
    pub(crate) failed: usize,
    pub(crate) crashed: usize,
}

impl Story {
    /// From the old table, in a kernel of ours.
    pub(crate) fn from_old(services: u16, told: Told, prepare: impl Fn(Process, &Change) -> Process) -> Self {
        let change = Change::of(services);
        let mut process = start(Simulated::default());
        process.sync(&change.old, Scope::Everything).expect("it is taken");
        process.settle().expect("it is taken");
        let mut probes = Probes::of(&[&change.old, &change.new], change.old.node());
        let kernel = &mut process.kernel().below().kernel;
        let by_model = probes.by_model(&change.old);
        let by_twin = probes.all_by_twin(kernel).expect("packets end somewhere");
        assert_eq!(by_twin, by_model, "the old table does what the model says");
        assert!(probes.welcome(&change.old, kernel) > 0, "nobody stays");
        let process = prepare(process, &change);
        Self::new(services, change, process, told, probes.welcomed())
    }

    /// From whatever this kernel holds.
    pub(crate) fn from_kernel(services: u16, kernel: Simulated) -> Self {
        Self::new(services, Change::of(services), start(kernel), Told::Everything, Memory::default()).blind()
    }

    fn new(services: u16, change: Change, mut process: Process, told: Told, memory: Memory) -> Self {
        let probes = Probes::of(&[&change.old, &change.new], change.new.node()).with(memory);
        let kernel = &process.kernel().below().kernel;
        let old = probes.all_by_twin(kernel).expect("packets end somewhere");
        let (known, begin) = States::begin(kernel, &probes).expect("packets end somewhere");
        let new = probes.by_model(&change.new);
        let mut fresh = start(Simulated::default());
        fresh.sync(&change.new, Scope::Everything).expect("it is taken");
        let cold = written(fresh.kernel().below());
        assert_writes_nothing(
            &mut start(fresh.kernel().below().kernel.clone()),
            &change.new,
            "a fresh process",
        );
        let besides = Vec::new();
        Self {
            services,
            process,
            told,
            change,
            probes,
            old,
            new,
            besides,
            is_blind: false,
            is_restarted: false,
            cold,
            known,
            begin,
        }
    }

    /// Refused service ports may be absent.
    pub(crate) fn blind(mut self) -> Self {
        self.is_blind = true;
        self
    }

    /// For a refused service port, what the kernel held before the restart may stay.
    pub(crate) fn restarted(mut self) -> Self {
        self.is_restarted = true;
        self
    }

    /// How many packets are asked for.
    pub(crate) fn packets(&self) -> usize {
        self.probes.count()
    }

    /// What the sync asks of the kernel when nothing goes wrong.
    pub(crate) fn calls(&self) -> Calls {
        let mut process = self.process.clone();
        let before = (process.kernel().listings(), process.kernel().generations());
        process.kernel().below().forget();
        self.sync(&mut process).expect("it is taken");
        process.settle().expect("it is taken");
        let kernel = process.kernel();
        Calls {
            listings: kernel.listings() - before.0,
            generations: kernel.generations() - before.1,
            written: kernel.below().take_past().into_iter().map(|(_, transaction)| transaction).collect(),
        }
    }

    fn sync(&self, process: &mut Process) -> Result<Synced, SyncError> {
        let scope = match self.told {
            Told::WhatChanged => Scope::Changed(&self.change.ids),
            Told::Everything => Scope::Everything,
        };
        process.sync(&self.change.new, scope)
    }

    /// Lets these things go wrong, each in its own world.
    pub(crate) fn try_all(&mut self, points: &[Point]) -> Tried {
        let mut tried = Tried::default();
        for point in points {
            let mut process = self.process.clone();
            process.kernel().below().forget();
            if let Err(why) = self.try_one(process, point, &mut tried) {
                panic!("{point:?}: {why}");
            }
        }
        tried.states = self.known.count();
        tried
    }

    fn try_one(&mut self, mut process: Process, point: &Point, tried: &mut Tried) -> Result<(), String> {
        point.arm(process.kernel());
        let first = self.sync(&mut process);
        let settled = first.is_ok().then(|| process.settle());
        if process.kernel().struck() == 0 {
            return Err("nothing went wrong".into());
        }
        let refused: BTreeSet<ServicePortId> = first.iter().flat_map(|s| s.refused.keys().cloned()).collect();
        tried.points += 1;
        tried.withheld += usize::from(!refused.is_empty());
        tried.failed += usize::from(first.is_err() || matches!(settled, Some(Err(_))));
        tried.crashed += usize::from(process.kernel().is_dead());
        let turn = tried.points;
        let at = self.no_third(&mut process, self.begin, &refused)?;
        process.kernel().heal();
        if process.kernel().is_dead() {
            process = start(process.kernel().below().kernel.clone());
        }
        let scope = self.next_scope(&refused, turn);
        self.converge(process, scope, (at, &refused))
    }

    /// A process that knows that it failed reads everything, whatever it is told.
    fn next_scope(&self, refused: &BTreeSet<ServicePortId>, turn: usize) -> Scope<&'static ServicePortIds> {
        static NOTHING: BTreeSet<ServicePortId> = BTreeSet::new();
        let is_told = self.told == Told::WhatChanged && refused.is_empty() && turn.is_multiple_of(2);
        if is_told { Scope::Changed(&NOTHING) } else { Scope::Everything }
    }

    /// No packet ended at a third place, in any state after this one. Returns the last.
    fn no_third(
        &mut self,
        process: &mut Process,
        mut at: At,
        refused: &BTreeSet<ServicePortId>,
    ) -> Result<At, String> {
        let besides = self.besides(refused);
        let mut allowed: Vec<&[Ends]> = vec![&self.old, &self.new];
        allowed.extend(besides.iter().map(Vec::as_slice));
        for (n, step) in process.kernel().below().take_past().into_iter().enumerate() {
            let (next, found) = self.known.after(at, step, &self.probes)?;
            let checked = self.probes.third(found, &allowed);
            checked.map_err(|why| format!("after write {n}, with {refused:?} refused: {why}"))?;
            at = next;
        }
        Ok(at)
    }

    /// How packets may end besides, where these are withheld.
    fn besides(&self, refused: &BTreeSet<ServicePortId>) -> Vec<Vec<Ends>> {
        let mut besides = self.besides.clone();
        if refused.is_empty() {
            return besides;
        }
        let names: BTreeSet<ServiceName> = refused.iter().map(|id| id.service.clone()).collect();
        let was_absent = |id: &&ServicePortId| self.is_blind || self.change.old.port(id).is_none();
        let absent = refused.iter().filter(was_absent).cloned().collect();
        besides.push(self.probes.by_model(&world::mixed(self.services, &names)));
        besides.push(self.probes.by_model(&world::without(self.services, &absent)));
        if self.is_restarted {
            // What the kernel holds for their frontends stays. Node ports have no address of their own: they answer on those of now.
            besides.push(self.probes.by_model(&world::old_on_the_new_node(self.services)));
        }
        besides
    }

    fn converge(
        &mut self,
        mut process: Process,
        scope: Scope<&ServicePortIds>,
        (at, refused): (At, &BTreeSet<ServicePortId>),
    ) -> Result<(), String> {
        let again = process.sync(&self.change.new, scope).map_err(|e| format!("the next sync: {e}"))?;
        if !again.refused.is_empty() {
            return Err(format!("the next sync withholds {:?}", again.refused));
        }
        process.settle().map_err(|e| format!("the next settling: {e}"))?;
        let at = self.no_third(&mut process, at, refused)?;
        self.known.is_written(at, &self.cold)?;
        for found in self.known.found(at) {
            self.probes.third(found, &[&self.new]).map_err(|why| format!("at the end: {why}"))?;
        }
        let before = process.kernel().writes();
        process.sync(&self.change.new, Scope::Everything).map_err(|e| format!("one more sync: {e}"))?;
        process.settle().map_err(|e| format!("one more settling: {e}"))?;
        let more = process.kernel().writes() - before;
        if more == 0 { Ok(()) } else { Err(format!("one more sync writes {more} times")) }
    }
}

/// A process that knows nothing.
pub(crate) fn start(kernel: Simulated) -> Process {
    Nftables::new(Faulty::new(Watched::new(kernel)), Options::default())
}

fn assert_writes_nothing(process: &mut Process, table: &ForwardingTable, who: &str) {
    process.sync(table, Scope::Everything).expect("it is taken");
    process.settle().expect("it is taken");
    assert_eq!(process.kernel().writes(), 0, "{who} writes");
}
