//! `nf_tables`, real and simulated: they are compared after each step, and the program `nft` must be able to show what is there.

use std::collections::BTreeSet;

use dataplane::sim::{Listing, NftPair, difference};
use dataplane::{ConntrackSettings, Dataplane, Mode, ModeSettings, RenderRequest, Scope};
use kernel::nft::{Family, Kernel, Netlink};
use kernel_sim::nft::Simulated;
use model::{Delta, ForwardingTable, Packet, Promises, ServicePortId};
use playground::namespace::Namespace;

use super::nft_program;
use crate::run;
use crate::simulated::{settle, sync};
use crate::step::Scenario;
use crate::subject::{Subject, Visit};
use crate::tally::Tried;
use crate::way::namespace;

type Open = fn(NftPair) -> Box<dyn Dataplane>;
type List = fn(&mut dyn Kernel) -> Result<Listing, String>;

pub(super) fn compare(mode: Mode, open: Open, list: List, scenarios: &[Scenario]) -> Result<Tried, String> {
    // What cannot be opened now is missing on this machine; later it is a failure.
    Rules::new(mode, open, list)?;
    let (mut done, mut failures) = (Done::default(), Vec::new());
    for scenario in scenarios {
        let mut rules = match Rules::new(mode, open, list) {
            Ok(rules) => rules,
            Err(problem) => {
                failures.push(problem);
                continue;
            }
        };
        failures.extend(run::run(scenario, &mut rules).failures);
        done.add(&rules);
    }
    let Done { transactions, listings, shown } = done;
    let counted = format!(
        "{transactions} transactions, {listings} listings as on the twin, {shown} tables shown to nft"
    );
    let is_shown = shown > 0;
    let skipped = (!is_shown).then(|| "tables shown to nft: the program is not installed".to_owned());
    Ok(Tried { counted, skipped, failures })
}

#[derive(Default)]
struct Done {
    transactions: usize,
    listings: usize,
    shown: usize,
}

impl Done {
    fn add(&mut self, rules: &Rules) {
        self.transactions += rules.pair.both().writes;
        self.listings += rules.listings;
        self.shown += rules.shown;
    }
}

/// The rules of a mode in a namespace.
struct Rules {
    namespace: Namespace,
    mode: Mode,
    dataplane: Box<dyn Dataplane>,
    list: List,
    pair: NftPair,
    table: ForwardingTable,
    steps: usize,
    listings: usize,
    /// How many tables the program has shown; and whether it has not seen the present one yet.
    shown: usize,
    is_unshown: bool,
}

impl Rules {
    fn new(mode: Mode, open: Open, list: List) -> Result<Self, String> {
        let namespace = namespace()?;
        let real = namespace.run(Netlink::open).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        let pair = NftPair::new(real, Simulated::default());
        let (dataplane, table) = (open(pair.clone()), ForwardingTable::default());
        Ok(Self {
            namespace,
            mode,
            dataplane,
            list,
            pair,
            table,
            steps: 0,
            listings: 0,
            shown: 0,
            is_unshown: false,
        })
    }

    fn compare(&mut self) -> Result<(), String> {
        let both = &mut *self.pair.both();
        let difference = difference(&(self.list)(&mut both.real)?, &(self.list)(&mut both.simulated)?);
        if !difference.is_empty() {
            return Err(format!("the kernel (here) and the twin (there) differ: {difference}"));
        }
        self.listings += Family::ALL.len();
        Ok(())
    }

    fn show_to_program(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.is_unshown) && nft_program::lists(&self.namespace, &self.table)? {
            nft_program::accepts(&self.namespace, &self.render())?;
            self.shown += 1;
        }
        Ok(())
    }

    fn render(&self) -> String {
        self.mode.render(&RenderRequest {
            table: &self.table,
            family: model::Family::V4,
            settings: &ModeSettings::of(self.mode),
            tracker: ConntrackSettings::default(),
        })
    }
}

impl Subject for Rules {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        self.mode.semantics().of_rules()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        self.steps += 1;
        self.is_unshown = true;
        let (ids, semantics): (BTreeSet<ServicePortId>, _) =
            (delta.before.keys().cloned().collect(), self.mode.semantics());
        sync(&mut *self.dataplane, &semantics, table, Scope::Changed(&ids))?;
        self.compare()?;
        if self.steps.is_multiple_of(2) {
            settle(&mut *self.dataplane)?;
            self.compare()?;
        }
        if sync(&mut *self.dataplane, &semantics, table, Scope::Everything)?.operations > 0 {
            return Err("a full sync writes something, but nothing changed".into());
        }
        Ok(())
    }

    fn pass(&mut self, _seconds: u64) {}

    fn ask(&mut self, _packet: &Packet) -> Result<Vec<Visit>, String> {
        self.show_to_program().map(|()| Vec::new())
    }
}
