//! One family: what was written, and how it is brought to what is desired.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel::xtables::{ChainName, Error, Rule, Table, Variant, Xtables};
use model::table::{HealthCheck, NodeView};
use model::{Family, ForwardingTable, Frontend, ServiceName, ServicePortId};

use super::Options;
use super::observed::Observed;
use super::render::{Base, PortRules, Renderer, Shared};
use super::script::Script;
use super::written::Written;
use crate::{Scope, Synced};

/// The nft-backed program takes the square of the lines of one text; up to so many it does not matter.
const LINES_AT_ONCE: usize = 15_000;
/// To delete a rule from a chain, the nft-backed program reads the whole chain, which for `KUBE-SERVICES` takes longer than all
/// else. It does so this much later, once for all services that have gone by then.
const SETTLE_AFTER: Duration = Duration::from_secs(1);
/// So many service ports are withheld in one sync at most.
const MOST_WITHHELD: usize = 100;

/// The rules of one family, behind one door.
#[derive(Clone, Debug)]
pub(super) struct FamilyState<X> {
    pub(super) door: X,
    family: Family,
    options: Options,
    /// Whether the rest is true. If not, the kernel must be read.
    is_known: bool,
    written: BTreeMap<ServicePortId, Written>,
    ground: Option<Ground>,
    /// Rules that lead to empty chains, and those chains: they may go whenever there is time.
    later: Script,
    /// Service ports that the program refused, with its words.
    withheld: BTreeMap<ServicePortId, String>,
    /// Not all that is desired is known, so what nobody asks for stays.
    keeps_leftovers: bool,
}

/// What rules depend upon besides their service port.
#[derive(Clone, Debug, PartialEq)]
struct Ground {
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
}

/// What may be different when the ground is.
enum News {
    Nothing,
    AllPorts,
    Kernel,
}

impl Ground {
    fn of(renderer: &Renderer<'_>, desired: &ForwardingTable) -> Self {
        Self {
            base: renderer.base(),
            has_comments: renderer.has_comments(),
            node: desired.node().clone(),
            health_checks: desired.health_checks().clone(),
        }
    }

    fn news(&self, before: &Self) -> News {
        if self.base != before.base {
            News::Kernel
        } else if self != before {
            News::AllPorts
        } else {
            News::Nothing
        }
    }
}

impl<X: Xtables> FamilyState<X> {
    pub(super) fn new(door: X, family: Family, options: Options) -> Self {
        Self {
            door,
            family,
            options,
            is_known: false,
            written: BTreeMap::new(),
            ground: None,
            later: Script::default(),
            withheld: BTreeMap::new(),
            keeps_leftovers: false,
        }
    }

    /// For how many service ports rules are known to be there.
    pub(super) fn service_ports(&self) -> usize {
        self.written.len()
    }

    pub(super) fn forget(&mut self) {
        (self.is_known, self.ground) = (false, None);
        self.written.clear();
        self.later = Script::default();
    }

    /// Brings the kernel to `desired`. After an error nothing is known, and the next sync reads the kernel.
    pub(super) fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<'_>,
        synced: &mut Synced,
    ) -> Result<(), Error> {
        if !matches!(scope, Scope::Changed(_)) {
            self.withheld.clear();
            self.keeps_leftovers = matches!(scope, Scope::AllThatIsKnown);
        }
        let mut refused = Vec::new();
        loop {
            let result = match scope {
                Scope::Changed(ids) if self.is_known => self.sync_changed(desired, ids, synced),
                _ => self.sync_everything(desired, synced),
            };
            let Err(error) = result else { break };
            self.forget();
            if !self.goes_on(desired, &error, &mut refused) {
                return Err(error);
            }
        }
        synced.refused.extend(self.withheld.iter().map(|(id, reason)| (id.clone(), reason.clone())));
        Ok(())
    }

    fn sync_changed(
        &mut self,
        desired: &ForwardingTable,
        ids: &BTreeSet<ServicePortId>,
        synced: &mut Synced,
    ) -> Result<(), Error> {
        let renderer = Renderer::new(desired, self.family, &self.options);
        let ground = Ground::of(&renderer, desired);
        let news = self.ground.as_ref().map_or(News::Kernel, |before| ground.news(before));
        let all = || desired.ports().map(|port| port.id()).chain(self.written.keys()).cloned().collect();
        let ids: BTreeSet<ServicePortId> = match news {
            News::Kernel => return self.sync_everything(desired, synced),
            News::AllPorts => all(),
            News::Nothing => ids.clone(),
        };
        let (mut script, mut later, mut comes_back) = (Script::default(), Script::default(), false);
        let none = Written::default();
        for id in ids {
            self.withheld.remove(&id);
            let rules = self.wanted(&renderer, desired, &id);
            comes_back |= rules.own.iter().any(|chain| self.later.deletes(&chain.name));
            let later = (self.door.variant() == Variant::Nft).then_some(&mut later);
            self.written.get(&id).unwrap_or(&none).change_to(&rules, &mut script, later);
            self.remember(id, &rules);
        }
        self.ground = Some(ground);
        if comes_back {
            self.run_later(synced)?;
        }
        self.run(&script, synced)?;
        if !later.is_empty() {
            synced.settle_after = Some(SETTLE_AFTER);
        }
        self.later.append(later);
        Ok(())
    }

    /// Deletes what nothing leads through any more. After an error nothing is known.
    pub(super) fn settle(&mut self, synced: &mut Synced) -> Result<(), Error> {
        self.run_later(synced).inspect_err(|_| self.forget())
    }

    fn run_later(&mut self, synced: &mut Synced) -> Result<(), Error> {
        let script = std::mem::take(&mut self.later);
        self.run(&script, synced)
    }

    fn sync_everything(&mut self, desired: &ForwardingTable, synced: &mut Synced) -> Result<(), Error> {
        synced.was_full = true;
        let Compared { scripts, left_behind } = self.compare(desired, !self.keeps_leftovers)?;
        for script in scripts {
            self.run(&script, synced)?;
        }
        synced.left_behind.extend(left_behind);
        self.is_known = true;
        Ok(())
    }

    /// What must be written, given what the kernel holds: first chains that nothing leads to yet, in pieces where the program
    /// needs that; last, at once, all that leads to them.
    pub(super) fn compare(
        &mut self,
        desired: &ForwardingTable,
        removes_leftovers: bool,
    ) -> Result<Compared, Error> {
        let observed = Observed::read(&mut self.door)?;
        self.forget();
        let renderer = Renderer::new(desired, self.family, &self.options);
        let base = renderer.base();
        let (mut scripts, mut script) = (Vec::new(), Script::default());
        let mut shared: BTreeMap<Shared, Vec<Rule>> = Shared::ALL.map(|chain| (chain, Vec::new())).into();
        let mut wanted: BTreeSet<ChainName> = base.nat.iter().map(|chain| chain.name.clone()).collect();
        for chain in &base.nat {
            observed.compare(Table::Nat, chain, &mut script);
        }
        for port in desired.ports() {
            let rules = self.wanted(&renderer, desired, port.id());
            for chain in &rules.own {
                observed.compare(Table::Nat, chain, &mut script);
            }
            wanted.extend(rules.own.iter().map(|chain| chain.name.clone()));
            self.remember(port.id().clone(), &rules);
            for (chain, rules) in rules.shared {
                shared.entry(chain).or_default().extend(rules);
            }
            if self.door.variant() == Variant::Nft && script.lines() > LINES_AT_ONCE {
                scripts.push(std::mem::take(&mut script));
            }
        }
        for (table, chains) in [(Table::Filter, &base.filter), (Table::Mangle, &base.mangle)] {
            for chain in chains {
                observed.compare(table, chain, &mut script);
            }
        }
        for (chain, rules) in &mut shared {
            chain.arrange(rules);
            let last = if *chain == Shared::Services { &base.last_services[..] } else { &[] };
            observed.compare_shared(*chain, rules, last, removes_leftovers, &mut script);
        }
        for jump in &base.jumps {
            observed.compare_jump(jump, &mut script);
        }
        if removes_leftovers {
            observed.delete_stale(&wanted, &mut script);
        }
        scripts.push(script);
        self.ground = Some(Ground::of(&renderer, desired));
        let left_behind = removes_leftovers.then(|| observed.left_behind(self.family, desired).collect());
        Ok(Compared { scripts, left_behind: left_behind.unwrap_or_default() })
    }

    /// What is to be written for a service port: nothing where the program refused it.
    fn wanted(&self, renderer: &Renderer<'_>, desired: &ForwardingTable, id: &ServicePortId) -> PortRules {
        match desired.port(id).filter(|_| !self.withheld.contains_key(id)) {
            Some(port) => renderer.of_port(port),
            None => PortRules::default(),
        }
    }

    fn remember(&mut self, id: ServicePortId, rules: &PortRules) {
        let written = Written::of(rules);
        if written == Written::default() {
            self.written.remove(&id);
        } else {
            self.written.insert(id, written);
        }
    }

    fn run(&mut self, script: &Script, synced: &mut Synced) -> Result<(), Error> {
        if script.is_empty() {
            return Ok(());
        }
        self.door.restore(&script.text())?;
        synced.operations += script.lines();
        Ok(())
    }

    /// Whether to try again at once, from a fresh look. A line that is refused once may be due to somebody who changed the table
    /// since we knew it; refused twice, it is the service port's own, which is withheld.
    fn goes_on(&mut self, desired: &ForwardingTable, error: &Error, refused: &mut Vec<String>) -> bool {
        let Error::Refused { line: Some(line), .. } = error else { return false };
        if refused.contains(line) {
            return self.withhold(desired, error);
        }
        refused.push(line.clone());
        refused.len() <= MOST_WITHHELD
    }

    /// Withholds the service port whose line was refused. False where it was not one service port's.
    fn withhold(&mut self, desired: &ForwardingTable, error: &Error) -> bool {
        let Error::Refused { line: Some(line), .. } = error else { return false };
        if self.withheld.len() >= MOST_WITHHELD {
            return false;
        }
        let renderer = Renderer::new(desired, self.family, &self.options);
        let is_whose = |id: &&ServicePortId| {
            let Some(port) = desired.port(id) else { return false };
            let written = Written::of(&renderer.of_port(port));
            written.chains().any(|chain| line.split(' ').any(|word| word == chain.as_str()))
        };
        let ids: Vec<&ServicePortId> = desired.ports().map(|port| port.id()).collect();
        let Some(id) = ids.into_iter().find(is_whose).cloned() else { return false };
        self.withheld.insert(id, error.to_string()).is_none()
    }
}
