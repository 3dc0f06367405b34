//! Every kind of what a mode writes is needed: without it, some scenario ends differently on the simulated node.
//!
//! A mode names what no scenario misses, each with its reason. One of these that is missed after all fails too, so that the list stays true.

use std::collections::{BTreeMap, BTreeSet};

use dataplane::Mode;

use crate::run;
use crate::simulated::{REFUSED, Simulation};
use crate::step::Scenario;
use crate::tally::tell;

/// What was found.
#[derive(Debug, Default)]
struct Proof {
    /// What no scenario misses, though one should, in words.
    problems: Vec<String>,
    /// How many kinds were left out, one at a time, and how many of them are known to be unmissed.
    tried: usize,
    unmissed: usize,
}

/// Leaves out every kind in turn. Returns what is wrong.
pub(crate) fn report(mode: Mode, scenarios: &[Scenario]) -> Vec<String> {
    let Proof { problems, tried, unmissed } = prove(mode, scenarios);
    tell(&format!(
        "counted: {tried} kinds of {mode} rules left out, one at a time; {unmissed} that no first packet misses"
    ));
    problems
}

fn prove(mode: Mode, scenarios: &[Scenario]) -> Proof {
    let mut users: BTreeMap<String, Vec<&Scenario>> = BTreeMap::new();
    let mut proof = Proof::default();
    for scenario in scenarios {
        match seen(mode, scenario) {
            Ok(kinds) => kinds.into_iter().for_each(|kind| users.entry(kind).or_default().push(scenario)),
            // It would miss everything.
            Err(failure) => proof.problems.push(format!("it fails with all rules: {failure}")),
        }
    }
    proof.tried = users.len();
    for (kind, users) in users {
        let is_missed = users.iter().any(|user| misses(mode, user, &kind));
        let node = Simulation::without(mode, None);
        let known = node.is_some_and(|mut simulation| simulation.node().unmissed(&kind).is_some());
        proof.unmissed += usize::from(known);
        if is_missed && known {
            proof.problems.push(format!(
                "a scenario fails without {kind}: it must not stand among those that none misses"
            ));
        } else if !is_missed && !known {
            proof.problems.push(format!("no scenario fails without {kind}"));
        }
    }
    proof
}

/// All kinds that are written in a scenario.
fn seen(mode: Mode, scenario: &Scenario) -> Result<BTreeSet<String>, String> {
    let Some(mut simulation) = Simulation::without(mode, None) else { return Ok(BTreeSet::new()) };
    if let Some(failure) = run::run(scenario, &mut simulation).failures.pop() {
        return Err(failure);
    }
    Ok(simulation.node().kinds())
}

/// Does a packet of the scenario end differently without it?
fn misses(mode: Mode, scenario: &Scenario, kind: &str) -> bool {
    let Some(mut simulation) = Simulation::without(mode, Some(kind)) else { return false };
    let outcomes = run::run(scenario, &mut simulation);
    // A refusal would be our own doing: what is written later may rest upon what is left out.
    outcomes.failures.iter().any(|failure| !failure.contains(REFUSED))
}
