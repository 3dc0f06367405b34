//! An iptables program that fails or a process that dies at every restore, and between the tables of every restore: each packet
//! ends as the table before says, or as the one after; and the next sync brings all to where it would be without the fault.
//!
//! One exception is counted by itself: a packet that only one of the two tables serves may meanwhile be refused in another way
//! than the other table says, since refusals come before what serves, and go after it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod iptables_ends;
mod world;

use dataplane::registry::known_chains;
use std::collections::{BTreeMap, BTreeSet};

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::{Dataplane, Scope, upstream};
use iptables_ends::{Kept, Listed, Probes, listed};
use kernel::xtables::{Error, Family, Found, Saved, Table, Variant, Xtables};
use kernel_sim::nft;
use kernel_sim::xtables::{Fault, Faulty, Simulated, WHOLE, parts};
use model::{ForwardingTable, ServicePortId};
use world::World;

type Mode = Iptables<Faulty<Simulated>>;

/// What can be heard of a restore that failed; `{}` is a line of its text.
fn errors(line: Option<&str>) -> Vec<Error> {
    let (program, stderr) = ("iptables-restore".to_owned(), "injected".to_owned());
    let limit = std::time::Duration::from_secs(1);
    let refused =
        |line: Option<String>| Error::Refused { program: program.clone(), line, stderr: stderr.clone() };
    vec![
        Error::Locked { program: program.clone(), stderr: stderr.clone() },
        Error::Hung { program: program.clone(), limit, stderr: stderr.clone() },
        Error::NotPermitted { program: program.clone(), stderr: stderr.clone() },
        Error::Missing { program: program.clone() },
        Error::NotStarted { program: program.clone(), reason: stderr.clone() },
        Error::ModuleMissing { program: program.clone(), stderr: stderr.clone() },
        refused(None),
        refused(line.map(str::to_owned)),
    ]
}

/// From one table to another; what is in the kernel before, and whether the process that wrote it still runs.
struct Story {
    name: &'static str,
    before: ForwardingTable,
    after: ForwardingTable,
    changed: BTreeSet<ServicePortId>,
    start: Start,
    probes: Probes,
    /// What an empty kernel gets.
    cold: Listed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing is there.
    Cold,
    /// The old rules are there, and known.
    Running,
    /// The old rules are there, of a process that has gone.
    Restart,
}

/// Where a fault may be put: at which door, at which of its restores or looks.
struct Points {
    restores: Vec<Vec<String>>,
    saves: Vec<usize>,
}

#[derive(Default)]
struct Counts {
    points: usize,
    early: usize,
}

impl Story {
    fn of(name: &'static str, seed: u64, start: Start) -> Self {
        let mut world = World::new(seed);
        let (mut before, changed) = world.change(8);
        if start == Start::Cold {
            before = ForwardingTable::default();
        }
        let after = world.table.clone();
        let probes = Probes::draw(&mut world, 60, &before);
        let mut fresh = twins(Variant::Nft);
        fresh.sync(&after, Scope::Everything).unwrap();
        let cold = listed(&mut fresh);
        Self { name, before, after, changed, start, probes, cold }
    }

    fn begin(&self, variant: Variant) -> Mode {
        self.begin_with(variant, Options::default())
    }

    fn begin_with(&self, variant: Variant, options: Options) -> Mode {
        let mut twins = twins_with(variant, options);
        if self.start != Start::Cold {
            twins.sync(&self.before, Scope::Everything).unwrap();
            twins.settle().unwrap();
        }
        if self.start == Start::Restart { again_with(&mut twins, options) } else { twins }
    }

    fn go(&self, mode: &mut Mode) -> Result<dataplane::Synced, dataplane::SyncError> {
        let synced = match self.start {
            Start::Running => mode.sync(&self.after, Scope::Changed(&self.changed)),
            Start::Cold | Start::Restart => mode.sync(&self.after, Scope::Everything),
        }?;
        mode.settle()?;
        Ok(synced)
    }

    /// What a sync without fault asks of the doors.
    fn points(&self, variant: Variant) -> Points {
        self.points_with(variant, Options::default())
    }

    fn points_with(&self, variant: Variant, options: Options) -> Points {
        let mut mode = self.begin_with(variant, options);
        let before: Vec<_> = mode.doors().map(|door| (door.restores(), door.saves())).collect();
        self.go(&mut mode).unwrap();
        let texts = |(door, (restores, _)): (&mut Faulty<Simulated>, &(usize, usize))| {
            let count = door.restores() - restores;
            let all = &door.below().restored;
            all[all.len() - count..].to_vec()
        };
        let restores = mode.doors().zip(&before).map(texts).collect();
        let saves = mode.doors().zip(&before).map(|(door, (_, saves))| door.saves() - saves).collect();
        Points { restores, saves }
    }

    fn try_all(&self, variant: Variant, counts: &mut Counts) {
        let points = self.points(variant);
        for (at, restores) in points.restores.iter().enumerate() {
            for (n, text) in restores.iter().enumerate() {
                for fault in faults(text) {
                    self.strike(variant, counts, |mode| {
                        mode.doors().nth(at).unwrap().on_restore(n, fault.clone());
                        format!("door {at}, restore {n}: {fault:?}")
                    });
                }
            }
        }
        for (at, saves) in points.saves.iter().enumerate() {
            for n in 0..*saves {
                for error in errors(None).into_iter().take(3) {
                    self.strike(variant, counts, |mode| {
                        mode.doors().nth(at).unwrap().on_save(n, error.clone());
                        format!("door {at}, look {n}: {error:?}")
                    });
                }
            }
        }
    }

    fn strike(&self, variant: Variant, counts: &mut Counts, script: impl FnOnce(&mut Mode) -> String) {
        let mut mode = self.begin(variant);
        let when = format!("{} of {variant}, {}", self.name, script(&mut mode));
        let result = self.go(&mut mode);
        assert_eq!(mode.doors().map(|door| door.struck()).sum::<usize>(), 1, "{when}");
        let is_dead = mode.doors().any(|door| door.is_dead());
        if is_dead {
            assert!(result.is_err(), "{when}");
            mode = again(&mut mode);
        }
        for door in mode.doors() {
            match self.probes.check(door.below()) {
                Ok(Kept { early }) => counts.early += early,
                Err(third) => panic!("{when}: {third}"),
            }
        }
        // The next sync says that it goes well, and then it does.
        if result.is_err() {
            let synced = mode.sync(&self.after, Scope::Changed(&BTreeSet::new())).unwrap();
            assert!(synced.was_full && synced.refused.is_empty(), "{when}: {synced:?}");
            mode.settle().unwrap();
        }
        assert_eq!(listed(&mut mode), self.cold, "{when}");
        assert_eq!(mode.sync(&self.after, Scope::Everything).unwrap().operations, 0, "{when}");
        counts.points += 1;
    }
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

fn twins(variant: Variant) -> Mode {
    twins_with(variant, Options::default())
}

fn twins_with(variant: Variant, options: Options) -> Mode {
    let doors = Family::ALL.map(|family| Faulty::new(Simulated::new(variant, family)));
    Iptables::new(doors, options)
}

/// A process that knows nothing, on what the last one left.
fn again(mode: &mut Mode) -> Mode {
    again_with(mode, Options::default())
}

fn again_with(mode: &mut Mode, options: Options) -> Mode {
    let doors: Vec<_> = mode.doors().map(|door| Faulty::new(door.below().clone())).collect();
    Iptables::new(doors, options)
}

#[test]
fn wherever_it_fails_packets_end_as_before_or_as_after_and_the_next_sync_converges() {
    let mut all = BTreeMap::new();
    for (name, start, seeds) in [
        ("a change", Start::Running, 20..30),
        ("a cold start", Start::Cold, 40..43),
        ("a restart", Start::Restart, 60..64),
    ] {
        let counts: &mut Counts = all.entry(name).or_default();
        for seed in seeds {
            let variant = Variant::ALL[usize::from(seed % 2 == 0)];
            Story::of(name, seed, start).try_all(variant, counts);
        }
        assert!(counts.points > 100, "{name}: {}", counts.points);
    }
    for (name, counts) in all {
        eprintln!("counted: {} faults at every restore and look of {name} of iptables", counts.points);
        eprintln!("counted: of these, {} packets of {name} were refused in another way", counts.early);
    }
}

/// As wide apart as the program can be given it: each service port is a piece.
#[test]
fn between_the_pieces_of_many_changes_packets_end_as_before_or_as_after() {
    let (mut pieces, mut early) = (0, 0);
    for (name, start, seeds) in [
        ("a change", Start::Running, 100..160),
        ("a cold start", Start::Cold, 200..210),
        ("a restart", Start::Restart, 300..340),
    ] {
        for seed in seeds {
            let story = Story::of(name, seed, start);
            let options = Options { lines_at_once: 1, ..Options::default() };
            let begun = |door: &mut Faulty<Simulated>| door.below().clone();
            let before: Vec<Simulated> = story.begin_with(Variant::Nft, options).doors().map(begun).collect();
            let restores = story.points_with(Variant::Nft, options).restores;
            for (mut twin, texts) in before.into_iter().zip(&restores) {
                for (n, text) in texts.iter().enumerate() {
                    twin.restore(text).unwrap();
                    match story.probes.check(&twin) {
                        Ok(kept) => early += kept.early,
                        Err(third) => panic!("{name}, seed {seed}, behind piece {n}: {third}\n{text}"),
                    }
                }
                pieces += texts.len();
            }
        }
    }
    assert!(pieces > 1000, "{pieces}");
    eprintln!("counted: {pieces} pieces of syncs, {early} packets refused in another way between them");
}

#[test]
fn a_service_that_is_refused_again_and_again_holds_back_no_other() {
    let story = Story::of("a cold start", 41, Start::Cold);
    let text = story.points(Variant::Nft).restores[0][0].clone();
    let line = text.lines().find(|line| line.starts_with("-A KUBE-SVC-")).unwrap();
    let refused = Error::Refused {
        program: "iptables-restore".to_owned(),
        line: Some(line.to_owned()),
        stderr: "injected".to_owned(),
    };
    let mut mode = story.begin(Variant::Nft);
    for n in 0..2 {
        let fault = Fault { parts: 0, answer: Some(refused.clone()) };
        mode.doors().next().unwrap().on_restore(n, fault);
    }
    let synced = story.go(&mut mode).unwrap();
    assert_eq!(synced.refused.len(), 1, "{synced:?}");
    let left = listed(&mut mode);
    let chain = line.split(' ').nth(1).unwrap();
    assert!(!left.keys().any(|(_, _, name)| name == chain), "it is withheld");
    assert!(left.keys().any(|(_, _, name)| name.starts_with("KUBE-SVC-")), "others are not");
    // It is tried again with the next comparison.
    let synced = mode.sync(&story.after, Scope::Everything).unwrap();
    assert!(synced.refused.is_empty() && synced.operations > 0, "{synced:?}");
}

#[test]
fn a_switch_of_programs_that_fails_anywhere_is_ended_by_the_next_try() {
    let story = Story::of("a switch", 22, Start::Cold);
    let mut old = twins(Variant::Legacy);
    old.sync(&story.after, Scope::Everything).unwrap();
    let whole = all_in_force(old.doors());
    let mut points = 0;
    for at in 0..2 {
        for n in 0..3 {
            for error in errors(None) {
                for parts in [0, WHOLE] {
                    let doors: Vec<_> = old.doors().map(|door| Faulty::new(door.below().clone())).collect();
                    let mut found = Found { programs: doors, ..Found::default() };
                    found.legacy = Family::ALL.map(Into::into).to_vec();
                    found.programs[at].on_restore(n, Fault { parts, answer: Some(error.clone()) });
                    let done = take_over(&mut found);
                    let left = all_in_force(found.programs.iter_mut());
                    assert!(left.len() < whole.len(), "one family goes, whatever becomes of the other");
                    // A refusal is looked at a second time at once.
                    let is_refused = matches!(error, Error::Refused { .. });
                    assert_eq!(done.problems.is_empty(), is_refused, "{done:?}");
                    take_over(&mut found);
                    assert_eq!(all_in_force(found.programs.iter_mut()), Vec::<String>::new());
                    assert_eq!(take_over(&mut found), upstream::TakeOver::default());
                    points += 1;
                }
            }
        }
    }
    eprintln!("counted: {points} faults of a switch from iptables-legacy to iptables-nft");
}

fn take_over(found: &mut Found<Faulty<Simulated>>) -> upstream::TakeOver {
    let ours = upstream::Ours { variant: Variant::Nft, chains: dataplane::iptables::MODE.chains().unwrap() };
    upstream::take_over(known_chains(), found, &mut nft::Simulated::default(), Some(ours))
}

fn all_in_force<'a>(doors: impl Iterator<Item = &'a mut Faulty<Simulated>>) -> Vec<String> {
    doors.flat_map(|door| in_force(door.below())).collect()
}

/// The chains of ours that are there.
fn in_force(door: &mut Simulated) -> Vec<String> {
    let tables = [Table::Filter, Table::Nat, Table::Mangle].map(|table| door.save(table).unwrap());
    let chains = tables.iter().flatten().flat_map(|text| Saved::parse(text).chains);
    chains.map(|chain| chain.name).filter(|name| name.starts_with("KUBE-")).collect()
}
