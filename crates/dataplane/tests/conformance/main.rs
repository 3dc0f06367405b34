//! Every mode of the registry does what the model says, on simulated kernels: one suite for all.
//!
//! The harness is our own, so that a test bears the name of the simulation that it asks: `iptables-legacy::random_packets`. What is
//! special to one mode is in a file of that mode beside this folder.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

#[path = "../cluster/mod.rs"]
mod cluster;
mod common;
mod faults;
mod foreign;
mod packets;
mod refused;
mod steps;
#[path = "../world/mod.rs"]
mod world;

use common::{Simulation, simulations};
use libtest_mimic::{Arguments, Trial};

/// A check of one simulation.
type Check = fn(&Simulation);

const CHECKS: [(&str, Check); 5] = [
    ("random_packets_end_where_the_model_says", packets::random_packets_end_where_the_model_says),
    ("changed_leaves_what_everything_leaves", steps::changed_leaves_what_everything_leaves),
    (
        "wherever_it_fails_packets_end_as_before_or_as_after_and_the_next_sync_converges",
        faults::wherever_it_fails_packets_end_as_before_or_as_after_and_the_next_sync_converges,
    ),
    ("a_refused_service_holds_back_no_other", refused::a_refused_service_holds_back_no_other),
    ("cleanup_leaves_what_is_foreign_alone", foreign::cleanup_leaves_what_is_foreign_alone),
];

fn main() {
    let arguments = Arguments::from_args();
    let trials = simulations().into_iter().flat_map(|simulation| {
        CHECKS.map(|(name, check)| {
            let (test, simulation) = (format!("{}::{name}", simulation.name), simulation.clone());
            Trial::test(test, move || {
                check(&simulation);
                Ok(())
            })
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
