//! One family: what was written, and how it is brought to what is desired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kernel::xtables::{ChainName, Error, Rule, Table, Variant, Xtables};
use model::table::{HealthCheck, NodeView};
use model::{Family, ForwardingTable, Frontend, ServiceName, ServicePort, ServicePortId};

use super::observed::Observed;
use super::script::Script;
use super::steps::Steps;
use super::tally::{self, Tally};
use super::words::{Base, PortRules, Shared};
use super::written::Written;
use super::{DELETED_ONE_BY_ONE, Renderer, Style};
use crate::counted::Met;
use crate::quarantine::{Accepted, QUARANTINED_MAX, Quarantine, UnknownPrior};
use crate::{Scope, ServicePortIds, Synced};

/// To delete a rule from a chain, the nft-backed program reads the whole chain, which for `KUBE-SERVICES` takes longer than all
/// else. It does so this much later, once for all services that have gone by then.
const SETTLE_AFTER: Duration = Duration::from_secs(1);
/// A legacy table with so many rules of service ports is read in half a millisecond; it takes ten times as long with ten times as many.
const CHEAP_TABLE: usize = 1000;

/// The rules of one family, behind one door.
#[derive(Clone, Debug)]
pub(super) struct FamilyState<X> {
    pub(super) door: X,
    family: Family,
    /// Whether the rest is true. If not, the kernel must be read.
    is_known: bool,
    written: BTreeMap<ServicePortId, Written>,
    tally: Tally,
    base_rules: Option<BaseRules>,
    /// Rules that lead to empty chains, and those chains: they may go whenever there is time.
    later: Script,
    /// Service ports that the program refused, with its words.
    quarantine: Quarantine,
    accepted: Accepted,
    /// While there are some, rules of a previous process stay.
    unknown_prior: UnknownPrior,
    /// Not all that is desired is known, so what nobody asks for stays.
    keeps_leftovers: bool,
    /// Fixed chains that were written since somebody asked.
    rewritten: BTreeSet<(Table, ChainName)>,
}

/// What rules depend upon besides their service port.
#[derive(Clone, Debug, PartialEq)]
struct BaseRules {
    base: Base,
    has_comments: bool,
    node: NodeView,
    health_checks: BTreeMap<ServiceName, HealthCheck>,
}

/// What a look into the kernel has shown.
pub(super) struct Compared {
    /// What must be written, one after the other.
    pub(super) scripts: Vec<Script>,
    /// Frontends of an earlier life, which these scripts remove.
    left_behind: Vec<Frontend>,
    /// Chains that nobody asks for and that cannot go.
    stay: Vec<ChainName>,
}

impl BaseRules {
    fn of(renderer: &impl Renderer, desired: &ForwardingTable) -> Self {
        Self {
            base: renderer.base(),
            has_comments: renderer.has_comments(),
            node: desired.node().clone(),
            health_checks: desired.health_checks().clone(),
        }
    }
}

impl<X: Xtables> FamilyState<X> {
    pub(super) fn new(door: X, family: Family) -> Self {
        Self {
            door,
            family,
            is_known: false,
            written: BTreeMap::new(),
            tally: Tally::default(),
            base_rules: None,
            later: Script::default(),
            quarantine: Quarantine::default(),
            accepted: Accepted::default(),
            unknown_prior: UnknownPrior::default(),
            keeps_leftovers: false,
            rewritten: BTreeSet::new(),
        }
    }

    /// Fixed chains that were written since somebody asked: their rules count packets from 0.
    pub(super) fn take_rewritten(&mut self) -> BTreeSet<(Table, ChainName)> {
        std::mem::take(&mut self.rewritten)
    }

    /// What a rule of a fixed chain has counted. It is known by its place, so where the chain has not as many rules as we wrote, it is
    /// not known. A kernel that cannot be asked now may be asked later. A large legacy table, which is read whole, is left out of a look
    /// that must be cheap.
    pub(super) fn packets(
        &mut self,
        (table, name): (Table, &str),
        is_it: impl Fn(&Rule) -> bool,
        must_be_cheap: bool,
    ) -> Met {
        let Some(BaseRules { base, .. }) = &self.base_rules else { return Met::Unknown };
        let Some(chain) = base.of(table).iter().find(|chain| chain.name.as_str() == name) else {
            return Met::NoRule;
        };
        let Some(at) = chain.rules.iter().position(is_it) else { return Met::NoRule };
        let is_cheap = self.door.variant() == Variant::Nft || self.tally.of(table) <= CHEAP_TABLE;
        if must_be_cheap && !is_cheap {
            return Met::Unknown;
        }
        match self.door.packets(table, name) {
            Ok(Some(counts)) if counts.len() == chain.rules.len() => Met::Packets(counts[at]),
            Ok(Some(counts)) if counts.is_empty() => Met::NoRule,
            Ok(_) | Err(_) => Met::Unknown,
        }
    }

    fn note_rewritten(&mut self, scripts: &[Script]) {
        let Some(BaseRules { base, .. }) = &self.base_rules else { return };
        for table in [Table::Filter, Table::Nat] {
            let is_written = |name: &&ChainName| scripts.iter().any(|script| script.writes(table, name));
            let written = base.of(table).iter().map(|chain| &chain.name).filter(is_written);
            self.rewritten.extend(written.map(|name| (table, name.clone())));
        }
    }

    /// For how many service ports rules are known to be there.
    pub(super) fn service_ports(&self) -> usize {
        self.written.len()
    }

    pub(super) fn forget(&mut self) {
        (self.is_known, self.base_rules) = (false, None);
        self.accepted.forget();
        self.written.clear();
        self.tally = Tally::default();
        self.later = Script::default();
    }

    /// Brings the kernel to `desired`. After an error nothing is known, and the next sync reads the kernel.
    pub(super) fn sync(
        &mut self,
        style: &impl Style,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
        synced: &mut Synced,
    ) -> Result<(), Error> {
        if scope.is_full() {
            self.quarantine = Quarantine::default();
            self.keeps_leftovers = scope.keeps_leftovers();
        }
        let mut refused = Vec::new();
        loop {
            let result = match scope {
                Scope::Changed(ids) if self.is_known => self.sync_changed(style, desired, ids, synced),
                _ => self.sync_everything(style, desired, synced),
            };
            let Err(error) = result else { break };
            self.forget();
            if !self.goes_on(style, desired, &error, &mut refused) {
                return Err(error);
            }
        }
        if let Some(rules) = &self.base_rules {
            self.tally.tell(&rules.base, self.family, synced);
        }
        self.accepted.accept();
        self.unknown_prior.known();
        self.unknown_prior.only(&self.quarantine);
        synced.stays.extend(self.why_kept(synced));
        synced.refused.extend(self.quarantine.reasons());
        Ok(())
    }

    /// Why rules of a previous process stay though all that should be there is known.
    fn why_kept(&self, synced: &Synced) -> Option<String> {
        let kept = synced.kept.iter().filter(|frontend| frontend.family() == self.family);
        let is_due_to_refusal = !self.keeps_leftovers && self.unknown_prior.keeps_rules();
        is_due_to_refusal.then(|| self.unknown_prior.why_kept(&self.quarantine, kept)).flatten()
    }

    fn sync_changed<S: Style>(
        &mut self,
        style: &S,
        desired: &ForwardingTable,
        ids: &ServicePortIds,
        synced: &mut Synced,
    ) -> Result<(), Error> {
        let renderer = style.renderer(desired, self.family);
        let base_rules = BaseRules::of(&renderer, desired);
        let all = || desired.ports().map(|port| port.id()).chain(self.written.keys()).cloned().collect();
        let ids: ServicePortIds = match &self.base_rules {
            Some(before) if *before == base_rules => ids.clone(),
            // Rules of service ports follow from the rest of it.
            Some(before) if before.base == base_rules.base => all(),
            _ => return self.sync_everything(style, desired, synced),
        };
        let most = self.lines_at_once(style);
        let (mut steps, mut later, mut comes_back) = (Steps::new(most), Script::default(), false);
        let none = Written::default();
        for id in ids {
            if !renderer.quarantine().is_some_and(|elsewhere| elsewhere.contains(&id)) {
                self.quarantine.release(&id);
            }
            let (port, rules) = self.wanted(&renderer, desired, &id);
            comes_back |= rules.own.iter().any(|chain| self.later.deletes(&chain.name));
            let later = (self.door.variant() == Variant::Nft).then_some(&mut later);
            steps.next_port();
            self.written.get(&id).unwrap_or(&none).change_to(&rules, &mut steps, later);
            self.remember(id, port, &rules);
        }
        self.base_rules = Some(base_rules);
        if comes_back {
            self.run_later(style, synced)?;
        }
        self.write_anew::<S>(Table::Filter, &mut steps.at_once);
        self.run(&steps.scripts(), synced)?;
        if !later.is_empty() {
            synced.settle_after = Some(SETTLE_AFTER);
        }
        self.later.append(later);
        Ok(())
    }

    /// Deletes what nothing leads through any more. After an error nothing is known.
    pub(super) fn settle(&mut self, style: &impl Style, synced: &mut Synced) -> Result<(), Error> {
        self.run_later(style, synced).inspect_err(|_| self.forget())
    }

    fn run_later<S: Style>(&mut self, style: &S, synced: &mut Synced) -> Result<(), Error> {
        let mut script = std::mem::take(&mut self.later);
        self.write_anew::<S>(Table::Nat, &mut script);
        self.run(&script.pieces(self.lines_at_once(style)), synced)
    }

    /// Writes shared chains of a table anew from which many rules go.
    fn write_anew<S: Style>(&self, table: Table, script: &mut Script) {
        for chain in S::SHARED.iter().filter(|chain| chain.table == table) {
            if script.removals(*chain) <= DELETED_ONE_BY_ONE {
                continue;
            }
            let mut rules: Vec<&str> = self.written.values().flat_map(|of| of.shared_in(*chain)).collect();
            rules.sort_by_key(|rule| !chain.comes_first(rule));
            let base = self.base_rules.iter().filter(|_| *chain == S::ADDRESSES);
            let last = base.flat_map(|rules| &rules.base.last).map(ToString::to_string);
            script.write_anew(*chain, rules.into_iter().map(str::to_owned).chain(last));
        }
    }

    /// The legacy program exchanges the whole table each time, however little changes.
    fn lines_at_once(&self, style: &impl Style) -> usize {
        match self.door.variant() {
            Variant::Nft => style.lines_at_once().max(1),
            Variant::Legacy => usize::MAX,
        }
    }

    fn sync_everything(
        &mut self,
        style: &impl Style,
        desired: &ForwardingTable,
        synced: &mut Synced,
    ) -> Result<(), Error> {
        synced.was_full = true;
        let keeps_leftovers = self.keeps_leftovers || self.unknown_prior.keeps_rules();
        let Compared { scripts, left_behind, stay } = self.compare(style, desired, !keeps_leftovers)?;
        self.run(&scripts, synced)?;
        self.note_rewritten(&scripts);
        let found = if keeps_leftovers { &mut synced.kept } else { &mut synced.left_behind };
        found.extend(left_behind);
        let (variant, family) = (self.door.variant(), self.family);
        synced.stays.extend(stay.iter().map(|chain| {
            format!(
                "chain {chain} of table nat is empty now but stays, because rules of others lead to it: delete those rules, and \
                 it goes ({variant}, {family})"
            )
        }));
        self.is_known = true;
        Ok(())
    }

    /// What must be written, given what the kernel holds.
    pub(super) fn compare<S: Style>(
        &mut self,
        style: &S,
        desired: &ForwardingTable,
        removes_leftovers: bool,
    ) -> Result<Compared, Error> {
        let observed = Observed::read(&mut self.door)?;
        self.unknown_prior.look(observed.has_service_ports(style));
        self.forget();
        let renderer = style.renderer(desired, self.family);
        let base = renderer.base();
        let mut steps = Steps::new(self.lines_at_once(style));
        let mut shared: BTreeMap<Shared, Vec<Rule>> = BTreeMap::new();
        let mut wanted: BTreeSet<ChainName> = base.nat.iter().map(|chain| chain.name.clone()).collect();
        for chain in &base.nat {
            observed.compare(Table::Nat, chain, steps.ahead());
        }
        for port in desired.ports() {
            let (written, rules) = self.wanted(&renderer, desired, port.id());
            steps.next_port();
            observed.compare_port::<S>(&rules, &mut steps);
            wanted.extend(rules.own.iter().map(|chain| chain.name.clone()));
            self.remember(port.id().clone(), written, &rules);
            for (chain, rules) in rules.shared {
                shared.entry(chain).or_default().extend(rules);
            }
        }
        for (table, chains) in [(Table::Filter, &base.filter), (Table::Mangle, &base.mangle)] {
            for chain in chains {
                observed.compare(table, chain, &mut steps.at_once);
            }
        }
        let keeper = (!removes_leftovers).then_some(style);
        for chain in S::SHARED {
            let mut rules = shared.remove(chain).unwrap_or_default();
            chain.arrange(&mut rules);
            let last = if *chain == S::ADDRESSES { &base.last[..] } else { &[] };
            observed.compare_shared(*chain, &rules, last, keeper, &mut steps.at_once);
        }
        for jump in &base.jumps {
            observed.compare_jump(jump, &mut steps.at_once);
        }
        let stay = removes_leftovers.then(|| observed.delete_stale::<S>(&wanted, &mut steps));
        self.base_rules = Some(BaseRules::of(&renderer, desired));
        let left_behind = observed.left_behind(style, self.family, desired);
        Ok(Compared { scripts: steps.scripts(), left_behind, stay: stay.unwrap_or_default() })
    }

    /// What is to be written for a service port: how it was before where it was refused, by the program or elsewhere.
    fn wanted(
        &self,
        renderer: &impl Renderer,
        desired: &ForwardingTable,
        id: &ServicePortId,
    ) -> (Option<Arc<ServicePort>>, PortRules) {
        let elsewhere = renderer.quarantine().filter(|_| !self.quarantine.contains(id));
        let port = elsewhere.unwrap_or(&self.quarantine).wanted(desired, id);
        let rules = port.as_ref().map(|port| renderer.of_port(port)).unwrap_or_default();
        (port, rules)
    }

    fn remember(&mut self, id: ServicePortId, port: Option<Arc<ServicePort>>, rules: &PortRules) {
        self.accepted.write(&id, port);
        let written = Written::of(rules);
        self.tally.add(&written);
        let before = if written == Written::default() {
            self.written.remove(&id)
        } else {
            self.written.insert(id, written)
        };
        if let Some(before) = before {
            self.tally.remove(&before);
        }
    }

    fn run(&mut self, scripts: &[Script], synced: &mut Synced) -> Result<(), Error> {
        for script in scripts.iter().filter(|script| !script.is_empty()) {
            self.door.restore(&script.text())?;
            synced.operations += script.lines();
            tally::tell_written(script, self.family, synced);
        }
        Ok(())
    }

    /// Whether to try again at once, from a fresh look. A line that is refused once may be due to somebody who changed the table
    /// since we knew it; refused twice, it is the service port's own, which is quarantined.
    fn goes_on(
        &mut self,
        style: &impl Style,
        desired: &ForwardingTable,
        error: &Error,
        refused: &mut Vec<String>,
    ) -> bool {
        let Error::Refused { line: Some(line), .. } = error else { return false };
        if refused.contains(line) {
            return self.quarantine_owner(style, desired, error);
        }
        refused.push(line.clone());
        refused.len() <= QUARANTINED_MAX
    }

    /// Quarantines the service port whose line was refused. False where it was not one service port's.
    fn quarantine_owner(&mut self, style: &impl Style, desired: &ForwardingTable, error: &Error) -> bool {
        let Error::Refused { line: Some(line), .. } = error else { return false };
        let renderer = style.renderer(desired, self.family);
        let is_whose = |id: &&ServicePortId| {
            let (_, rules) = self.wanted(&renderer, desired, id);
            Written::of(&rules).has(line)
        };
        let ids: Vec<&ServicePortId> = desired.ports().map(|port| port.id()).collect();
        let Some(id) = ids.into_iter().find(is_whose) else { return false };
        if self.quarantine.is_full() && !self.quarantine.contains(id) {
            return false;
        }
        self.unknown_prior.quarantined(id);
        self.quarantine.add(desired, id, self.accepted.before(id), error.to_string())
    }
}
