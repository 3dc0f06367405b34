//! A simulated iptables program of one family: it fails and refuses on command, leaves rules of one kind out, and takes note.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use kernel::xtables::{Error, Family, Result, Table, Variant, Xtables};
use kernel_sim::xtables::{Fault, Faulty, Simulated, WHOLE, parts};

use super::gate::Gate;
use super::kinds::kind_of;
use crate::Dataplane;
use crate::sim::{Named, SimulatedMode, Struck};

/// Leaves out, and takes note of what could be left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mutation {
    pub(crate) left_out: Option<String>,
    pub(crate) seen: BTreeSet<String>,
}

impl Mutation {
    pub(crate) fn without(kind: Option<&str>) -> Self {
        Self { left_out: kind.map(str::to_owned), seen: BTreeSet::new() }
    }

    /// Whether something of this kind is written, which is noted.
    pub(crate) fn keeps(&mut self, kind: String) -> bool {
        let is_kept = self.left_out.as_ref() != Some(&kind);
        self.seen.insert(kind);
        is_kept
    }

    /// What is left of a restore text. What was never there cannot be deleted, so that line goes too.
    fn rest(&mut self, text: &str) -> String {
        let (mut table, mut rest) = ("", String::new());
        for line in text.lines() {
            table = line.strip_prefix('*').unwrap_or(table);
            if kind_of(table, line).is_none_or(|kind| self.keeps(kind)) {
                rest.push_str(line);
                rest.push('\n');
            }
        }
        rest
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    faulty: Faulty<Simulated>,
    pub(crate) mutation: Option<Mutation>,
    /// What was restored, since this was asked for.
    texts: Option<Vec<String>>,
    /// No rule for this address is taken.
    pub(crate) refused: Option<IpAddr>,
    /// The parts of texts pass one by one, and count.
    pub(crate) gate: Option<Gate>,
}

impl Program {
    pub(crate) fn new(tables: Simulated) -> Self {
        Self { faulty: Faulty::new(tables), mutation: None, texts: None, refused: None, gate: None }
    }

    /// The tables, which outlive the process.
    pub(crate) fn tables(&mut self) -> &mut Simulated {
        self.faulty.below()
    }

    /// For another process.
    pub(crate) fn restarted(&mut self) -> Self {
        Self { mutation: self.mutation.clone(), ..Self::new(self.tables().clone()) }
    }

    fn refusal(&self, text: &str) -> Option<Error> {
        let address = self.refused?;
        let is_it = |word: &str| word.split(['/', ':']).next().is_some_and(|ip| ip == address.to_string());
        let is_rule = |line: &str| line.starts_with("-A ") || line.starts_with("-I ");
        let names = |line: &&str| is_rule(line) && line.split(' ').any(is_it);
        text.lines().find(names).map(|line| refused(Some(line.to_owned())))
    }

    fn pass(&mut self, text: &str) -> Result<()> {
        let Some(gate) = self.gate.clone() else { return self.faulty.restore(text) };
        for part in parts(text) {
            if !gate.passes() {
                return Err(Error::Locked { program: PROGRAM.to_owned(), stderr: INJECTED.to_owned() });
            }
            self.faulty.restore(part)?;
        }
        Ok(())
    }
}

impl Xtables for Program {
    fn variant(&self) -> Variant {
        self.faulty.variant()
    }

    fn family(&self) -> Family {
        self.faulty.family()
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        self.faulty.save(table)
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        self.texts.iter_mut().for_each(|texts| texts.push(text.to_owned()));
        self.refusal(text).map_or(Ok(()), Err)?;
        let rest = self.mutation.as_mut().map(|mutation| mutation.rest(text));
        // No test asks which texts there were, and tables are often copied.
        self.tables().restored.clear();
        self.pass(rest.as_deref().unwrap_or(text))
    }
}

const PROGRAM: &str = "iptables-restore";
const INJECTED: &str = "injected";

fn refused(line: Option<String>) -> Error {
    Error::Refused { program: PROGRAM.to_owned(), line, stderr: INJECTED.to_owned() }
}

/// What can be heard of a restore that failed; `line` is one of its text.
pub fn errors(line: Option<&str>) -> Vec<Error> {
    let (program, stderr) = (PROGRAM.to_owned(), INJECTED.to_owned());
    let limit = Duration::from_secs(1);
    vec![
        Error::Locked { program: program.clone(), stderr: stderr.clone() },
        Error::Hung { program: program.clone(), limit, stderr: stderr.clone() },
        Error::NotPermitted { program: program.clone(), stderr: stderr.clone() },
        Error::Missing { program: program.clone() },
        Error::NotStarted { program: program.clone(), reason: stderr.clone() },
        Error::ModuleMissing { program, stderr },
        refused(None),
        refused(line.map(str::to_owned)),
    ]
}

/// Every error and the end of the process, before, between and after the tables of a text.
fn faults(text: &str) -> Vec<Fault> {
    let count = parts(text).count();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('-')).collect();
    let line = lines.get(lines.len() / 2).copied();
    let mut all = Vec::new();
    for parts in (0..=count).map(|parts| if parts == count { WHOLE } else { parts }) {
        all.push(Fault { parts, answer: None });
        all.extend(errors(line).into_iter().map(|error| Fault { parts, answer: Some(error) }));
    }
    all
}

/// Which faults are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// At each restore and each look.
    All,
    /// At each restore.
    Restores,
    /// The process dies after each restore.
    Stops,
}

#[derive(Clone, Debug)]
enum Point {
    Restore(usize, Fault),
    Save(usize, Error),
}

/// Copies of a node whose programs fail so.
pub(crate) fn failing<'a, N: SimulatedMode + Clone + 'static>(
    node: &'a N,
    programs: fn(&mut N) -> Vec<&mut Program>,
    which: Faults,
    work: &dyn Fn(&mut dyn Dataplane),
) -> Named<'a> {
    let mut trial = node.clone();
    for program in programs(&mut trial) {
        program.texts = Some(Vec::new());
    }
    let saves: Vec<usize> = programs(&mut trial).into_iter().map(|program| program.faulty.saves()).collect();
    work(trial.dataplane());
    let mut points = Vec::new();
    for (at, (program, saves)) in programs(&mut trial).into_iter().zip(saves).enumerate() {
        for (n, text) in program.texts.iter().flatten().enumerate() {
            let mut faults = faults(text);
            faults.retain(|fault| which != Faults::Stops || *fault == Fault { parts: WHOLE, answer: None });
            points.extend(faults.into_iter().map(|fault| (at, Point::Restore(n, fault))));
        }
        let looks = if which == Faults::All { program.faulty.saves() - saves } else { 0 };
        let errors = |n| errors(None).into_iter().take(3).map(move |error| (at, Point::Save(n, error)));
        points.extend((0..looks).flat_map(errors));
    }
    Box::new(points.into_iter().map(move |(at, point)| {
        let (name, mut node) = (format!("program {at}: {point:?}"), node.clone());
        let program = programs(&mut node).swap_remove(at);
        match point {
            Point::Restore(n, fault) => program.faulty.on_restore(n, fault),
            Point::Save(n, error) => program.faulty.on_save(n, error),
        }
        (name, Box::new(node) as Box<dyn SimulatedMode>)
    }))
}

/// What became of the fault of one of these.
pub(crate) fn struck<'a>(programs: impl Iterator<Item = &'a mut Program>) -> Struck {
    programs.fold(Struck::Not, |found, program| match (program.faulty.is_dead(), program.faulty.struck()) {
        (true, _) => Struck::Died,
        (false, 0) => found,
        (false, _) => {
            if found == Struck::Died {
                found
            } else {
                Struck::Told
            }
        }
    })
}
