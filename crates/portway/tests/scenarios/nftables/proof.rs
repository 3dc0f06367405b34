//! Every rule and every set is needed: without it, some scenario ends differently on the twin.
//!
//! The exceptions are the rules that take the first slot when another one is gone. They are for packets that meet two
//! generations of the table, which no scenario has; `first_slot.rs` of `dataplane` proves them. And what drops stray replies: packets of
//! scenarios are first ones, and the case `strays` of the packet tests proves it.

use std::collections::BTreeMap;

use super::mutation::{Mutation, Target};
use super::twin::Twin;
use crate::run;
use crate::step::Scenario;

/// What nobody misses, though somebody should, and how much was tried.
pub(crate) fn survivors(scenarios: &[Scenario]) -> (Vec<Target>, usize) {
    let mut users: BTreeMap<Target, Vec<&Scenario>> = BTreeMap::new();
    for scenario in scenarios {
        for target in seen(scenario) {
            users.entry(target).or_default().push(scenario);
        }
    }
    let count = users.len();
    let survives = |target: &Target, users: &[&Scenario]| !users.iter().any(|user| misses(user, target));
    let survivors = users.iter().filter(|(target, users)| !is_exception(target) && survives(target, users));
    (survivors.map(|(target, _)| target.clone()).collect(), count)
}

fn seen(scenario: &Scenario) -> Vec<Target> {
    let mut twin = Twin::with(Mutation::default());
    run::run(scenario, &mut twin);
    twin.mutation().map(|mutation| mutation.seen.iter().cloned().collect()).unwrap_or_default()
}

/// Does a packet of the scenario end differently without it?
fn misses(scenario: &Scenario, target: &Target) -> bool {
    let mut twin = Twin::with(Mutation::without(target.clone()));
    let outcomes = run::run(scenario, &mut twin);
    // A refusal would be our own doing: the rest of the transaction may rest upon what is left out.
    outcomes.failures.iter().any(|failure| !failure.contains("the kernel refused"))
}

/// The last rule of two is the one that takes the first slot.
///
/// And with one slot the remembered endpoint would be picked anyway: there the rule that remembers only spares the kernel to
/// forget the client and remember it again with every connection, which kernels before 6.5 pay with memory.
///
/// What counts packets to node ports on localhost decides none; `counted.rs` of the packet tests proves it.
fn is_exception(target: &Target) -> bool {
    match target {
        Target::Rule(chain, 0, 2) if chain == "nat-output" => true,
        Target::Rule(chain, _, 3) if chain == "localhost-node-ports" => true,
        Target::Rule(chain, 1, 2) => chain.contains("pick-"),
        Target::Rule(chain, ..) if chain == "stray-replies" => true,
        Target::Elements(set) => set == "reply-sources",
        Target::Rule(chain, 4, 5) | Target::Rule(chain, 0, 4) => chain.starts_with("sticky-"),
        Target::Rule(..) => false,
    }
}
