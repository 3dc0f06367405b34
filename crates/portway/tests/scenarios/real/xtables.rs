//! An iptables program, real and simulated: before each packet of a scenario what the program saves must be what the simulated one saves, as
//! typed rules. Rules of another program stand in front of ours and behind them all the time.

use std::collections::BTreeSet;

use dataplane::registry::known_chains;
use dataplane::sim::{XtablesPair, difference};
use dataplane::xtables::Shared;
use dataplane::xtables::sim::listing;
use dataplane::{Dataplane, Scope, upstream};
use kernel::xtables::{Programs, Xtables as _};
use kernel_sim::xtables::Simulated;
use model::{Delta, ForwardingTable, Packet, Promises, ServicePortId};
use playground::namespace::Namespace;

use super::foreign;
use crate::run;
use crate::simulated::{settle, sync};
use crate::step::Scenario;
use crate::subject::{Subject, Visit};
use crate::tally::Tried;
use crate::way::{Way, namespace};

type Open = fn(Vec<XtablesPair>) -> Box<dyn Dataplane>;

pub(super) fn compare(
    way: Way,
    open: Open,
    shared: &'static [Shared],
    scenarios: &[Scenario],
) -> Result<Tried, String> {
    let programs = way.programs()?;
    let semantics = way.mode.semantics();
    let (mut done, mut failures) = (Done::default(), Vec::new());
    for scenario in scenarios {
        let told = || {
            let pairs = pairs(&programs)?;
            Ok(Rules::new(open(pairs.clone()), pairs, shared, semantics).hear(scenario))
        };
        let inside = |namespace: Namespace| namespace.run(told).map_err(|e| e.to_string()).flatten();
        match namespace().and_then(inside) {
            Ok((done_here, found)) => {
                done.restored += done_here.restored;
                done.listings += done_here.listings;
                failures.extend(found);
            }
            Err(problem) => failures.push(problem),
        }
    }
    let Done { restored, listings } = done;
    let counted = format!("{restored} texts restored, {listings} saved as on the twin");
    Ok(Tried { counted, skipped: None, failures })
}

fn pairs(programs: &[Programs]) -> Result<Vec<XtablesPair>, String> {
    let pair = |real: &Programs| {
        let mut pair = XtablesPair::new(real.clone(), Simulated::new(real.variant(), real.family()));
        foreign::before_us(&mut pair).map(|()| pair)
    };
    programs.iter().map(pair).collect()
}

#[derive(Default)]
struct Done {
    restored: usize,
    listings: usize,
}

/// The rules of a mode behind a program.
struct Rules {
    dataplane: Box<dyn Dataplane>,
    pairs: Vec<XtablesPair>,
    shared: &'static [Shared],
    semantics: Promises,
    table: ForwardingTable,
    has_begun: bool,
    /// What is there now was not compared yet.
    is_new: bool,
    listings: usize,
}

impl Rules {
    fn new(
        dataplane: Box<dyn Dataplane>,
        pairs: Vec<XtablesPair>,
        shared: &'static [Shared],
        semantics: Promises,
    ) -> Self {
        let table = ForwardingTable::default();
        Self { dataplane, pairs, shared, semantics, table, has_begun: false, is_new: false, listings: 0 }
    }

    fn hear(mut self, scenario: &Scenario) -> (Done, Vec<String>) {
        let mut failures = run::run(scenario, &mut self).failures;
        failures.extend(self.end().err());
        let restored = self.pairs.iter().map(|pair| pair.both().writes).sum();
        (Done { restored, listings: self.listings }, failures)
    }

    fn compare(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        for pair in &self.pairs {
            let both = &mut *pair.both();
            let real = listing(&mut both.real, self.shared)?;
            let difference = difference(&real, &listing(&mut both.simulated, self.shared)?);
            if !difference.is_empty() {
                return Err(format!("the program (here) and the twin (there) differ: {difference}"));
            }
            self.listings += 1;
            foreign::are_in_place(&mut both.real)?;
        }
        Ok(())
    }

    /// Nothing is left to write, and when all of ours goes, theirs stays.
    fn end(&mut self) -> Result<(), String> {
        self.compare()?;
        settle(&mut *self.dataplane)?;
        self.is_new = true;
        self.compare()?;
        if sync(&mut *self.dataplane, &self.semantics, &self.table, Scope::Everything)?.operations > 0 {
            return Err("a full sync writes something, but nothing changed".into());
        }
        let clear = |pair| upstream::clear_all(known_chains(), pair).map_err(|e| e.to_string());
        self.pairs.iter_mut().try_for_each(clear)?;
        self.pairs.iter().try_for_each(|pair| foreign::are_alone(&mut pair.both().real))
    }
}

impl Subject for Rules {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        self.semantics
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        self.is_new = true;
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut *self.dataplane, &self.semantics, table, Scope::Changed(&ids))?;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.pairs.iter_mut().try_for_each(|pair| foreign::after_us(pair))?;
        }
        Ok(())
    }

    fn pass(&mut self, _seconds: u64) {}

    fn ask(&mut self, _packet: &Packet) -> Result<Vec<Visit>, String> {
        self.compare().map(|()| Vec::new())
    }
}
