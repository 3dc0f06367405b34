//! Every kind of rule is needed: without it, some scenario ends differently on the twin.
//!
//! Some rules no first packet through an otherwise open host can miss; they are named here, each with its reason. One of them
//! that is missed after all fails too, so that the list stays true. `iptables_later.rs` of `dataplane` proves those that have a
//! purpose of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::mutation::{Kind, Mutation};
use super::twin::{REFUSED, Twin};
use crate::run;
use crate::step::Scenario;
use crate::subject::Subject;

/// Rules that no scenario misses: words of their kind, and why they are written all the same.
const UNMISSED: [(&str, &str); 9] = [
    (
        "filter FORWARD [] \"kubernetes forwarding rules\" -> KUBE-FORWARD",
        "for hosts that forward nothing by default",
    ),
    ("filter KUBE-FORWARD [-m mark ", "for hosts that forward nothing by default: the first packet"),
    ("filter KUBE-FORWARD [-m conntrack --ctstate RELATED,ESTABLISHED]", "the same: later packets"),
    ("filter KUBE-FORWARD [-m conntrack --ctstate INVALID]", "no first packet is invalid"),
    ("filter INPUT [] \"kubernetes health check service ports\"", "for hosts that let nothing in by default"),
    ("\"health check node port\" -> -j ACCEPT", "for hosts that let nothing in by default"),
    (
        "filter OUTPUT [] \"\" -> KUBE-FIREWALL",
        "leads to the guard, as kubelet's does; INPUT sees the same packets come back",
    ),
    ("\"localhost node ports are counted here\" -> nothing", "it counts for a metric, and decides no packet"),
    ("will be dropped by KUBE-PROXY-FIREWALL\" -> nothing", "upstream's word to the reader: it does nothing"),
];

/// What nobody misses, though somebody should, in words; and how many kinds were tried, and how many are known to be unmissed.
pub(crate) fn survivors(scenarios: &[Scenario]) -> (Vec<String>, usize, usize) {
    survivors_of::<Twin>(scenarios, &UNMISSED)
}

/// A mode on the twin that may miss something.
pub(crate) trait Mutable: Subject {
    /// Without what the mutation leaves out.
    fn mutated(mutation: &Mutation) -> Self;

    /// What was left out, or seen.
    fn seen(&mut self) -> BTreeSet<Kind>;
}

impl Mutable for Twin {
    fn mutated(mutation: &Mutation) -> Self {
        Self::with(Some(mutation))
    }

    fn seen(&mut self) -> BTreeSet<Kind> {
        self.mutations().flat_map(|mutation| mutation.seen.iter().cloned()).collect()
    }
}

/// The same for any mode, of which no scenario misses these.
pub(crate) fn survivors_of<M: Mutable>(
    scenarios: &[Scenario],
    known_unmissed: &[(&str, &str)],
) -> (Vec<String>, usize, usize) {
    let mut users: BTreeMap<Kind, Vec<&Scenario>> = BTreeMap::new();
    let (mut problems, mut unmissed) = (Vec::new(), 0);
    for scenario in scenarios {
        match seen::<M>(scenario) {
            Ok(kinds) => kinds.into_iter().for_each(|kind| users.entry(kind).or_default().push(scenario)),
            // It would miss everything.
            Err(failure) => problems.push(format!("it fails with all rules: {failure}")),
        }
    }
    for (kind, users) in &users {
        let is_missed = users.iter().any(|user| misses::<M>(user, kind));
        let known = known_unmissed.iter().any(|(words, _)| kind.to_string().contains(words));
        unmissed += usize::from(known);
        if is_missed && known {
            problems.push(format!(
                "a scenario fails without {kind}: it must not stand among those that none misses"
            ));
        } else if !is_missed && !known {
            problems.push(format!("no scenario fails without {kind}"));
        }
    }
    (problems, users.len(), unmissed)
}

/// All that is written in a scenario.
fn seen<M: Mutable>(scenario: &Scenario) -> Result<BTreeSet<Kind>, String> {
    let mut twin = M::mutated(&Mutation::default());
    if let Some(failure) = run::run(scenario, &mut twin).failures.pop() {
        return Err(failure);
    }
    Ok(twin.seen())
}

/// Does a packet of the scenario end differently without it?
fn misses<M: Mutable>(scenario: &Scenario, kind: &Kind) -> bool {
    let mut twin = M::mutated(&Mutation::without(kind.clone()));
    let outcomes = run::run(scenario, &mut twin);
    // A refusal would be our own doing: what is written later may rest upon what is left out.
    outcomes.failures.iter().any(|failure| !failure.contains(REFUSED))
}
