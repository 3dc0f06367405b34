//! A mode of rules behind one of the real programs, in a network namespace of its own, side by side with the twin.
//!
//! Every text goes to both, both must say the same, and before each packet of a scenario what the program saves must be what
//! the twin saves, as typed rules. Rules of somebody else stand in front of ours and behind them all the time.
//!
//! Absent on purpose: packets. They are sent in `packets.rs`.

use std::collections::BTreeSet;

use dataplane::Mode;
use dataplane::iptables;
use dataplane::iptables::sim::Iptables;
use dataplane::registry::known_chains;
use dataplane::sim::difference;
use dataplane::upstream;
use dataplane::userspace::{self, Userspace};
use dataplane::xtables::sim::listing;
use dataplane::{Dataplane, Scope, relay};
use kernel::xtables::{self, Family, Programs, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;
use model::{Delta, ForwardingTable, Packet, Promises, ServicePortId};
use playground::namespace::Namespace;

use super::foreign;
use crate::run;
use crate::simulated::{settle, sync};
use crate::step::Scenario;
use crate::subject::{Subject, Visit};

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) restored: usize,
    pub(crate) listings: usize,
}

/// Writes all scenarios by one program, each into a namespace of its own, with the rules of one mode. Returns what was done, and
/// all that failed; an error says why nothing could be.
pub(crate) fn ask(
    mode: Mode,
    variant: Variant,
    scenarios: &[Scenario],
) -> Result<(Done, Vec<String>), String> {
    let mut programs = Programs::find().programs;
    programs.retain(|door| door.variant() == variant);
    if programs.len() < Family::ALL.len() {
        return Err(format!("{variant} is not installed for both families"));
    }
    let (mut done, mut failures) = (Done::default(), Vec::new());
    for scenario in scenarios {
        let namespace = Namespace::create().map_err(|e| format!("a network namespace needs root: {e}"))?;
        let programs = programs.clone();
        let found = namespace.run(|| told(mode, scenario, programs)).map_err(|e| e.to_string())?;
        done.restored += found.0.restored;
        done.listings += found.0.listings;
        failures.extend(found.1);
    }
    Ok((done, failures))
}

fn told(mode: Mode, scenario: &Scenario, programs: Vec<Programs>) -> (Done, Vec<String>) {
    let mut real = match Real::new(mode, programs) {
        Ok(real) => real,
        Err(problem) => return (Done::default(), vec![problem]),
    };
    let mut failures = run::run(scenario, &mut real).failures;
    failures.extend(real.end().err());
    (real.done(), failures)
}

/// A mode that writes rules through pairs.
trait Ruled: Dataplane {
    fn pairs(&mut self) -> Vec<&mut Pair>;
}

impl Ruled for Iptables<Pair> {
    fn pairs(&mut self) -> Vec<&mut Pair> {
        self.doors().collect()
    }
}

impl Ruled for Userspace<Pair, relay::Simulated> {
    fn pairs(&mut self) -> Vec<&mut Pair> {
        self.doors().collect()
    }
}

/// The mode behind a real program.
struct Real {
    dataplane: Box<dyn Ruled>,
    promises: Promises,
    table: ForwardingTable,
    has_begun: bool,
    /// What is there now was not compared yet.
    is_new: bool,
}

/// A real program and a simulated one, of one family.
#[derive(Debug)]
struct Pair {
    real: Programs,
    twin: Simulated,
    done: Done,
}

impl Real {
    fn new(mode: Mode, programs: Vec<Programs>) -> Result<Self, String> {
        let pair = |real: Programs| {
            let twin = Simulated::new(real.variant(), real.family());
            let mut pair = Pair { real, twin, done: Done::default() };
            foreign::before_us(&mut pair).map(|()| pair)
        };
        let pairs = programs.into_iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let dataplane: Box<dyn Ruled> = if mode == userspace::MODE {
            let options = userspace::Options::default();
            Box::new(Userspace::new(pairs, relay::Simulated::default(), options))
        } else {
            Box::new(Iptables::new(pairs, iptables::Options::default()))
        };
        let (promises, table) = (mode.semantics(), ForwardingTable::default());
        Ok(Self { dataplane, promises, table, has_begun: false, is_new: false })
    }

    fn done(&mut self) -> Done {
        let each = self.dataplane.pairs().into_iter().map(|door| door.done);
        each.fold(Done::default(), |sum, one| Done {
            restored: sum.restored + one.restored,
            listings: sum.listings + one.listings,
        })
    }

    fn compare(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        let shared = [&iptables::SHARED[..], &userspace::SHARED[..]].concat();
        for Pair { real, twin, done } in self.dataplane.pairs() {
            let difference = difference(&listing(real, &shared)?, &listing(twin, &shared)?);
            if !difference.is_empty() {
                return Err(format!("the program (here) and the twin (there) differ: {difference}"));
            }
            done.listings += 1;
            foreign::are_in_place(real)?;
        }
        Ok(())
    }

    /// Nothing is left to write, and when all of ours goes, theirs stays.
    fn end(&mut self) -> Result<(), String> {
        self.compare()?;
        settle(&mut *self.dataplane)?;
        self.is_new = true;
        self.compare()?;
        if sync(&mut *self.dataplane, &self.table, Scope::Everything)?.operations > 0 {
            return Err("a full sync writes something, but nothing changed".into());
        }
        let clear = |pair| upstream::clear_all(known_chains(), pair).map_err(|e| e.to_string());
        self.dataplane.pairs().into_iter().try_for_each(clear)?;
        self.dataplane.pairs().into_iter().try_for_each(|door| foreign::are_alone(&mut door.real))
    }
}

impl Subject for Real {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        self.promises
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        self.is_new = true;
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut *self.dataplane, table, Scope::Changed(&ids))?;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.dataplane.pairs().into_iter().try_for_each(|door| foreign::after_us(door))?;
        }
        Ok(())
    }

    fn pass(&mut self, _seconds: u64) {}

    fn ask(&mut self, _packet: &Packet) -> Result<Vec<Visit>, String> {
        self.compare().map(|()| Vec::new())
    }
}

impl Xtables for Pair {
    fn variant(&self) -> Variant {
        self.real.variant()
    }

    fn family(&self) -> Family {
        self.real.family()
    }

    fn save(&mut self, table: Table) -> xtables::Result<Option<String>> {
        self.real.save(table)
    }

    fn restore(&mut self, text: &str) -> xtables::Result<()> {
        self.done.restored += 1;
        let (real, twin) = (self.real.restore(text), self.twin.restore(text));
        assert_eq!(real.is_ok(), twin.is_ok(), "the program: {real:?}, the twin: {twin:?}, {text}");
        real
    }
}
