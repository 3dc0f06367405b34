//! Every mode of the registry does what the model says, on simulated kernels: one suite for all.
//!
//! The harness is our own, so that a test bears the name of the simulation that it asks: `iptables-legacy::random_packets`. What is
//! special to one mode is in a file of that mode beside this folder.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;
mod faults;
mod foreign;
mod packets;
mod real;
mod refused;
mod steps;
#[path = "../world/mod.rs"]
mod world;

use common::{Simulation, simulations};
use dataplane::Mode;
use dataplane::registry::MODES;
use libtest_mimic::{Arguments, Failed, Trial};

/// A check of one simulation.
type Check = fn(&Simulation);

/// Each under its own name.
macro_rules! checks {
    ($($file:ident::$name:ident,)*) => { [$((stringify!($name), $file::$name)),*] };
}

const CHECKS: [(&str, Check); 11] = checks![
    packets::random_packets_end_where_the_model_says,
    steps::changed_leaves_what_everything_leaves,
    steps::a_source_that_may_not_come_any_more_reaches_no_endpoint_that_is_new,
    faults::wherever_it_fails_packets_end_as_before_or_as_after_and_the_next_sync_converges,
    refused::a_refused_service_holds_back_no_other,
    refused::whatever_is_refused_all_others_are_served,
    refused::a_service_whose_change_is_refused_stays_as_it_was_and_others_follow,
    refused::after_a_restart_what_the_process_before_left_serves_a_refused_service,
    refused::rules_that_a_refused_service_keeps_are_told_with_it,
    foreign::cleanup_leaves_what_is_foreign_alone,
    foreign::what_other_programs_changed_is_put_right,
];

const ON_REAL_KERNELS: &str = "root_the_real_kernel_follows_random_steps_as_the_simulated_one";

fn main() {
    let arguments = Arguments::from_args();
    let trial = |module: &str, simulation: &Simulation, name: &str, check: Check| {
        let (test, simulation) = (format!("{module}{}::{name}", simulation.name), simulation.clone());
        Trial::test(test, move || {
            check(&simulation);
            Ok(())
        })
    };
    let trials = simulations().into_iter().flat_map(|simulation| {
        let real: Check = real::the_real_kernel_follows_random_steps_as_the_simulated_one;
        let module = if simulation.modules().is_empty() { "needs_root::" } else { "needs_vm::" };
        let has_kernel = !simulation.mode.is_test_only();
        let real = has_kernel.then(|| trial(module, &simulation, ON_REAL_KERNELS, real));
        let checks = CHECKS.map(|(name, check)| trial("", &simulation, name, check));
        checks.into_iter().chain(real).collect::<Vec<_>>()
    });
    let all = Trial::test("every_mode_of_the_registry_has_a_simulation", every_mode_has_a_simulation);
    libtest_mimic::run(&arguments, trials.chain([all]).collect()).exit();
}

/// A mode without one would be in no check, and nothing would fail.
fn every_mode_has_a_simulation() -> Result<(), Failed> {
    let simulated: Vec<Mode> = simulations().iter().map(|simulation| simulation.mode).collect();
    let without: Vec<&Mode> = MODES.iter().filter(|mode| !simulated.contains(mode)).collect();
    let missing = || format!("implement `ModeSpec::simulate` and `SimulatedMode` for {without:?}");
    if without.is_empty() { Ok(()) } else { Err(missing().into()) }
}
