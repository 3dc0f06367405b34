//! Asks the subjects about scenarios, and counts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dataplane::Mode;
use dataplane::registry::MODES;
use kernel::xtables::Variant;
use playground::namespace::Namespace;

use crate::iptables;
use crate::localhost;
use crate::nftables::heard::Refusal;
use crate::nftables::kernel::{Done, Real};
use crate::nftables::packets::{self, Sender};
use crate::nftables::sent::Sent;
use crate::nftables::stage::Stage;
use crate::proof::{self, Proof};
use crate::run::{self, Outcomes};
use crate::simulated::Simulation;
use crate::step::Scenario;
use crate::userspace;

/// What was asked so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    scenarios: usize,
    reference: Packets,
    /// Of each mode that has a simulation.
    modes: BTreeMap<Mode, Packets>,
    localhost: Packets,
    /// What the real kernel was asked, or why it was not.
    real: Option<Result<Done, String>>,
    /// What was sent through the real kernel, or why nothing was: for each mode.
    sent: Vec<(String, Result<Sent, String>)>,
    /// How many kinds of rules were left out of each mode, and how many of them none can miss.
    left_out: Vec<(Mode, Proof)>,
    /// What each iptables program did for a mode, or why it did nothing.
    programs: Vec<(String, Result<iptables::kernel::Done, String>)>,
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
        let mut failures = reference.failures;
        for mode in MODES {
            let Some(mut simulation) = Simulation::checked(*mode) else { continue };
            let outcomes = run::run(scenario, &mut simulation);
            self.modes.entry(*mode).or_default().count(&outcomes);
            failures.extend(named(&format!("{mode} on the twin"), outcomes.failures));
        }
        let localhost = run::run(scenario, &mut localhost::Listeners::default());
        self.localhost.count(&localhost);
        failures.extend(named("node ports on localhost", localhost.failures));
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
        self.send_all("nftables", Ok(packets::nftables()), Refusal::Reset, scenarios)
    }

    /// The same, with the rules of an iptables program.
    pub(crate) fn send_packets_by(&mut self, variant: Variant, scenarios: &[Scenario]) -> Vec<String> {
        let mode = iptables::packets::sender(variant);
        self.send_all(&variant.to_string(), mode, Refusal::PortUnreachable, scenarios)
    }

    fn send_all(
        &mut self,
        name: &str,
        mode: Result<Sender, String>,
        refusal: Refusal,
        scenarios: &[Scenario],
    ) -> Vec<String> {
        let is_possible = Namespace::create().map_err(|e| format!("a network namespace needs root: {e}"));
        let mode = match is_possible.and(mode) {
            Ok(mode) => mode,
            Err(reason) => {
                self.sent.push((name.into(), Err(reason)));
                return Vec::new();
            }
        };
        let (mut sent, mut failures) = (Sent::default(), Vec::new());
        let mut stage = match Stage::new(refusal) {
            Ok(stage) => stage,
            Err(problem) => return vec![problem],
        };
        for scenario in scenarios {
            let found =
                packets::send(scenario, &mode, &mut stage, &mut sent).unwrap_or_else(|problem| vec![problem]);
            failures.extend(named(&format!("{name} packets on the real kernel"), found));
        }
        self.sent.push((name.into(), Ok(sent)));
        failures
    }

    /// Leaves out every kind of what a mode writes in turn. Returns those that no scenario missed.
    pub(crate) fn prove(&mut self, mode: Mode, scenarios: &[Scenario]) -> Vec<String> {
        let mut proof = proof::prove(mode, scenarios);
        let problems = std::mem::take(&mut proof.problems);
        self.left_out.push((mode, proof));
        problems
    }

    /// Writes all scenarios by a real iptables program. Returns all that failed.
    pub(crate) fn ask_program(&mut self, variant: Variant, scenarios: &[Scenario]) -> Vec<String> {
        self.ask_mode(dataplane::iptables::MODE, variant, variant.to_string(), scenarios)
    }

    /// The same with the rules of userspace.
    pub(crate) fn ask_userspace(&mut self, variant: Variant, scenarios: &[Scenario]) -> Vec<String> {
        self.ask_mode(dataplane::userspace::MODE, variant, format!("userspace by {variant}"), scenarios)
    }

    fn ask_mode(
        &mut self,
        mode: Mode,
        variant: Variant,
        name: String,
        scenarios: &[Scenario],
    ) -> Vec<String> {
        let asked = iptables::kernel::ask(mode, variant, scenarios);
        let (done, failures) = asked.map_or_else(|why| (Err(why), Vec::new()), |(done, all)| (Ok(done), all));
        let failures = named(&name, failures).collect();
        self.programs.push((name, done));
        failures
    }

    /// Sends the packets of all scenarios through the real kernel, with the rules of userspace. Returns all that failed.
    pub(crate) fn send_userspace(&mut self, variant: Variant, scenarios: &[Scenario]) -> Vec<String> {
        let name = format!("userspace by {variant}");
        let is_possible = Namespace::create().map_err(|e| format!("a network namespace needs root: {e}"));
        match is_possible.and_then(|_| userspace::packets::send(variant, scenarios)) {
            Ok((sent, failures)) => {
                let failures = named(&format!("{name}: packets on the real kernel"), failures).collect();
                self.sent.push((name, Ok(sent)));
                failures
            }
            Err(reason) => {
                self.sent.push((name, Err(reason)));
                Vec::new()
            }
        }
    }

    /// Prints the counts.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { scenarios, reference, modes, localhost, .. } = self;
        if *scenarios > 0 {
            writeln!(
                out,
                "counted: {scenarios} scenarios, {} packets, {} skipped",
                reference.asked, reference.skipped
            )?;
            for (mode, Packets { asked, skipped }) in modes {
                writeln!(out, "counted: {mode} on the twin: {asked} packets, {skipped} skipped")?;
            }
            let Packets { asked, skipped } = localhost;
            writeln!(out, "counted: node ports on localhost: {asked} packets, {skipped} skipped")?;
        }
        match &self.real {
            Some(Ok(done)) => print_real(out, *done)?,
            Some(Err(reason)) => writeln!(out, "skipped: nftables on the real kernel: {reason}")?,
            None => {}
        }
        for (mode, sent) in &self.sent {
            match sent {
                Ok(sent) => writeln!(out, "counted: {mode} on the real kernel: {sent}")?,
                Err(reason) => writeln!(out, "skipped: {mode} packets on the real kernel: {reason}")?,
            }
        }
        self.print_iptables(out)
    }

    fn print_iptables(&self, out: &mut dyn Write) -> io::Result<()> {
        for (mode, Proof { tried, unmissed, .. }) in &self.left_out {
            writeln!(
                out,
                "counted: {tried} kinds of {mode} rules left out, one at a time; {unmissed} that no first packet misses"
            )?;
        }
        for (name, done) in &self.programs {
            match done {
                Ok(iptables::kernel::Done { restored, listings }) => writeln!(
                    out,
                    "counted: {name} on the real kernel: {restored} texts restored, {listings} saved as on the twin"
                )?,
                Err(reason) => writeln!(out, "skipped: {name} on the real kernel: {reason}")?,
            }
        }
        Ok(())
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
