//! Asks the subjects about scenarios, and counts.

use std::io::{self, Write};

use kernel::namespace::Namespace;

use crate::nftables::kernel::{Done, Real};
use crate::nftables::packets;
use crate::nftables::proof;
use crate::nftables::sent::Sent;
use crate::nftables::stage::Stage;
use crate::nftables::twin::Twin;
use crate::run::{self, Outcomes};
use crate::step::Scenario;

/// What was asked so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    scenarios: usize,
    reference: Packets,
    twin: Packets,
    /// What the real kernel was asked, or why it was not.
    real: Option<Result<Done, String>>,
    /// What was sent through the real kernel, or why nothing was.
    sent: Option<Result<Sent, String>>,
    /// How many rules and sets were left out, one at a time.
    left_out: Option<usize>,
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
    /// Asks the other subjects, after the reference. Returns all that failed.
    pub(crate) fn ask_others(&mut self, scenario: &Scenario, reference: Outcomes) -> Vec<String> {
        self.scenarios += 1;
        self.reference.count(&reference);
        let twin = run::run(scenario, &mut Twin::default());
        self.twin.count(&twin);
        let mut failures = reference.failures;
        failures.extend(named("nftables on the twin", twin.failures));
        failures
    }

    /// Writes all scenarios into the real kernel, each into a namespace of its own. Returns all that failed.
    pub(crate) fn ask_real(&mut self, scenarios: &[Scenario]) -> Vec<String> {
        let (mut done, mut failures) = (Done::default(), Vec::new());
        for scenario in scenarios {
            let mut real = match Real::new() {
                Ok(real) => real,
                Err(reason) => {
                    self.real = Some(Err(reason));
                    return failures;
                }
            };
            failures.extend(named("nftables on the real kernel", run::run(scenario, &mut real).failures));
            done += real.done();
        }
        self.real = Some(Ok(done));
        failures
    }

    /// Sends the packets of all scenarios through the real kernel. Returns all that failed.
    pub(crate) fn send_packets(&mut self, scenarios: &[Scenario]) -> Vec<String> {
        if let Err(e) = Namespace::create() {
            self.sent = Some(Err(format!("a network namespace needs root: {e}")));
            return Vec::new();
        }
        let (mut sent, mut failures) = (Sent::default(), Vec::new());
        let mut stage = match Stage::new() {
            Ok(stage) => stage,
            Err(problem) => return vec![problem],
        };
        for scenario in scenarios {
            let found =
                packets::send(scenario, &mut stage, &mut sent).unwrap_or_else(|problem| vec![problem]);
            failures.extend(named("nftables packets on the real kernel", found));
        }
        self.sent = Some(Ok(sent));
        failures
    }

    /// Leaves out every rule and every set in turn. Returns those that nobody missed.
    pub(crate) fn prove(&mut self, scenarios: &[Scenario]) -> Vec<String> {
        let (survivors, tried) = proof::survivors(scenarios);
        self.left_out = Some(tried);
        survivors.iter().map(|target| format!("no scenario fails without {target:?}")).collect()
    }

    /// Prints the counts.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { scenarios, reference, twin, .. } = self;
        if *scenarios > 0 {
            writeln!(
                out,
                "counted: {scenarios} scenarios, {} packets, {} skipped; nftables on the twin: {} packets, {} skipped",
                reference.asked, reference.skipped, twin.asked, twin.skipped
            )?;
        }
        match &self.real {
            Some(Ok(done)) => print_real(out, *done)?,
            Some(Err(reason)) => writeln!(out, "skipped: nftables on the real kernel: {reason}")?,
            None => {}
        }
        match &self.sent {
            Some(Ok(sent)) => writeln!(out, "counted: nftables on the real kernel: {sent}")?,
            Some(Err(reason)) => writeln!(out, "skipped: nftables packets on the real kernel: {reason}")?,
            None => {}
        }
        match self.left_out {
            Some(tried) => writeln!(out, "counted: {tried} kinds of rules and sets left out, one at a time"),
            None => Ok(()),
        }
    }
}

fn print_real(out: &mut dyn Write, done: Done) -> io::Result<()> {
    let Done { transactions, listings, seen_by_nft } = done;
    writeln!(
        out,
        "counted: nftables on the real kernel: {transactions} transactions, {listings} listings as on the twin, \
         {seen_by_nft} tables shown to nft"
    )?;
    if seen_by_nft == 0 {
        writeln!(out, "skipped: tables shown to nft: the program is not installed")?;
    }
    Ok(())
}

fn named(subject: &str, failures: Vec<String>) -> impl Iterator<Item = String> {
    failures.into_iter().map(move |failure| format!("{subject}: {failure}"))
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.listings += other.listings;
        self.seen_by_nft += other.seen_by_nft;
    }
}
