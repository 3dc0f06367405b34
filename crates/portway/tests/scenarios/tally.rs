//! Asks the other subjects about a scenario after the reference, and counts.
//!
//! In: scenarios and what the reference said. Out: what failed; lines for the summary of `cargo xtask test`, on standard error.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use dataplane::registry::MODES;

use crate::localhost;
use crate::run::{self, Outcomes};
use crate::simulated::Simulation;
use crate::step::Scenario;

/// How many packets each subject was asked about.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    scenarios: usize,
    reference: Packets,
    /// The others, in the order in which they are asked.
    others: BTreeMap<usize, (String, Packets)>,
}

#[derive(Debug, Default)]
struct Packets {
    asked: usize,
    skipped: usize,
}

impl Packets {
    fn count(&mut self, outcomes: &Outcomes) {
        self.asked += outcomes.packets;
        self.skipped += outcomes.skipped;
    }
}

impl Tally {
    /// Counts one scenario more. Returns all that failed.
    pub(crate) fn count(&mut self, reference: Outcomes, others: Vec<(String, Outcomes)>) -> Vec<String> {
        self.scenarios += 1;
        self.reference.count(&reference);
        let mut failures = reference.failures;
        for (place, (subject, outcomes)) in others.into_iter().enumerate() {
            let (_, packets) =
                self.others.entry(place).or_insert_with(|| (subject.clone(), Packets::default()));
            packets.count(&outcomes);
            failures.extend(named(&subject, outcomes.failures));
        }
        failures
    }

    pub(crate) fn print(&self) {
        if self.scenarios == 0 {
            return;
        }
        let Self { scenarios, reference: Packets { asked, skipped }, others } = self;
        tell(&format!("counted: {scenarios} scenarios, {asked} packets, {skipped} skipped"));
        for (subject, Packets { asked, skipped }) in others.values() {
            tell(&format!("counted: {subject}: {asked} packets, {skipped} skipped"));
        }
    }
}

/// What each mode that has a simulation does, and what listens on localhost.
pub(crate) fn ask_others(scenario: &Scenario) -> Vec<(String, Outcomes)> {
    let simulated = MODES.iter().filter_map(|mode| {
        let mut simulation = Simulation::checked(*mode)?;
        Some((format!("{mode} on the twin"), run::run(scenario, &mut simulation)))
    });
    let localhost = || run::run(scenario, &mut localhost::Listeners::default());
    let listeners = std::iter::once_with(|| ("node ports on localhost".to_owned(), localhost()));
    simulated.chain(listeners).collect()
}

/// What a test of all scenarios came to.
#[derive(Debug)]
pub(crate) struct Tried {
    /// How much was tried, in words.
    pub(crate) counted: String,
    /// What was left out all the same, with the reason.
    pub(crate) skipped: Option<String>,
    pub(crate) failures: Vec<String>,
}

/// Prints what a test came to, or why it could not be tried. Returns what failed.
pub(crate) fn report(subject: &str, test: &str, tried: Result<Tried, String>) -> Vec<String> {
    match tried {
        Ok(Tried { counted, skipped, failures }) => {
            tell(&format!("counted: {subject}: {counted}"));
            if let Some(what) = skipped {
                tell(&format!("skipped: {what}"));
            }
            named(test, failures).collect()
        }
        Err(reason) => {
            tell(&format!("skipped: {test}: {reason}"));
            Vec::new()
        }
    }
}

/// Adds a line to standard error.
pub(crate) fn tell(line: &str) {
    // Nobody reads a closed one.
    let _ = writeln!(io::stderr(), "{line}");
}

fn named(subject: &str, failures: Vec<String>) -> impl Iterator<Item = String> {
    failures.into_iter().map(move |failure| format!("{subject}: {failure}"))
}
