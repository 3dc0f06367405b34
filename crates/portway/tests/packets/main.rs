//! Real sockets through real rules: does traffic flow as the model says?
//!
//! Each case has a playground of its own: two nodes, each with its own `portway run`, pods on both and a client outside.
//! It writes manifests, waits until both are in sync, sends packets over IPv4 and IPv6 by TCP, UDP and SCTP, and compares
//! three things: what the case says, what `fate()` says of the same packet, and what the sockets see.
//!
//! | file | what it holds |
//! |---|---|
//! | `stage` | the playground with its two portways, and the manifests that both follow |
//! | `manifest` | Services and their slices, in few words |
//! | `talk` | one question over any protocol; how many were asked |
//! | `reference` | what the model says of a packet |
//! | `servers` | virtual servers of a node |
//! | `check` | rows of who dials what and where that must end |
//! | `confine` | a portway as a container holds it |
//! | `way` | the modes of the registry, with the programs for which the list is gone through |
//! | `upstream` | hand-made rules in upstream kube-proxy's shape, to take over from |
//! | `case` | a test of a case and a way, and the module that says where it runs |
//! | `cases` | the list itself, one file for each theme |
//! | `cases/of_modes` | what not every mode can have |
//! | `newcomer` | a mode of which nothing is known |
//!
//! The list is written once, and the registry has the modes: a test is made of each case and each way at run time. A case that fails prints the rules of both nodes, the logs of
//! both portways, and `portway explain` of its packet.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod case;
mod cases;
mod check;
mod confine;
mod manifest;
mod newcomer;
mod reference;
mod servers;
mod stage;
mod talk;
mod upstream;
mod way;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use case::Case;
use cases::of_modes;
use upstream::hash;
use way::Way;

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), tests()).exit_code()
}

/// Tests of what the cases lean on.
const UNITS: [(&str, fn()); 3] = [
    (
        "newcomer::a_mode_of_which_nothing_is_known_has_the_common_cases_alone",
        newcomer::a_mode_of_which_nothing_is_known_has_the_common_cases_alone,
    ),
    ("upstream::hash::tests::names_are_upstreams", hash::tests::names_are_upstreams),
    (
        "upstream::hash::tests::the_hash_is_sha_256_whatever_the_length",
        hash::tests::the_hash_is_sha_256_whatever_the_length,
    ),
];

/// All tests, in the order in which the VM runs those that are for it.
fn tests() -> Vec<Trial> {
    let mut tests: Vec<Trial> = Way::all().flat_map(of_way).collect();
    for way in Way::all() {
        let cases = cases::CASES.iter().chain(of_modes::CASES);
        tests.extend(cases.filter_map(|case| case.smoke_test(way)));
    }
    for way in Way::all() {
        let module = format!("needs_vm::sctp::{}", way.module());
        tests.extend(cases::SCTP.iter().filter_map(|case| case.test(&module, way)));
    }
    tests.extend(UNITS.into_iter().map(|(name, run)| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    }));
    tests
}

fn of_way(way: Way) -> Vec<Trial> {
    let in_module = |place: &str| format!("{place}::{}", way.module());
    let home = in_module(if way.needs_vm() { "needs_vm" } else { "needs_root" });
    // There, nothing runs by itself that is not marked.
    let by_hand = if way.needs_vm() { home.clone() } else { in_module("needs_time::starved") };
    let of = |cases: &mut dyn Iterator<Item = &'static Case>, module: &str| -> Vec<Trial> {
        cases.filter_map(|case| case.test(module, way)).collect()
    };
    [
        of(&mut cases::CASES.iter().chain(of_modes::CASES), &home),
        of(&mut cases::STARVED.iter(), "needs_root::starved"),
        of(&mut cases::STARVED_LONG.iter(), &by_hand),
    ]
    .into_iter()
    .flatten()
    .collect()
}
