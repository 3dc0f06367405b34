//! What the iptables mode costs, in a real kernel, with both iptables programs. `cargo xtask bench iptables` runs it, as root.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | facts in memory → the kernel has all, ours and all in one restore; one event → in force |
//! | `yardstick` | a bare restore of one rule, and upstream's habit, in turn with each change |
//! | `programs` | the two programs, and what they weigh |
//!
//! Everything happens in network namespaces that the benchmark makes and that vanish with it.

mod page;
mod programs;
mod yardstick;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use dataplane::iptables::sim::Iptables;
use dataplane::iptables::{Options, render};
use harness::cluster::{self, Change as Kind};
use harness::proxy::{Proxy, table_of};
use harness::watched::Watched;
use harness::{Bench, Cpu, Machine, Page, Spread, fresh, memory_mib, ms, rounds, say};
use kernel::xtables::{Error, Family, Programs, Xtables as _};
use playground::namespace::Namespace;
use programs::{Program, weigh};
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};
use yardstick::Yardstick;

const SIZES: [u32; 2] = [1_000, 10_000];
/// Cold syncs of ours.
const COLD_RUNS: u32 = 3;
/// How often each kind of change is measured where it takes milliseconds, and where it takes a second.
const ROUNDS: [u32; 2] = [41, 9];
/// Upstream's habit is measured in so many of the rounds.
const HABIT_ROUNDS: u32 = 5;
const COMPARISONS: u32 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Results {
    machine: Machine,
    sizes: Vec<Size>,
}

/// One program and one number of services.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Size {
    program: Program,
    version: String,
    services: u32,
    /// Each in a process of its own.
    cold: Vec<Cold>,
    /// Upstream's habit for a start: everything in one restore.
    at_once: AtOnce,
    loaded: Loaded,
}

/// One cold sync: facts → in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cold {
    whole_ms: f64,
    /// Of it, while a program ran.
    program_ms: f64,
    /// Resident memory of ours afterwards, without the facts.
    rss_mib: f64,
    rss_peak_mib: f64,
    /// The most that a program weighed.
    program_peak_mib: f64,
}

/// The same rules in one restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct AtOnce {
    /// `None` where the program was stopped by its time limit.
    took_ms: Option<f64>,
    lines: usize,
    program_peak_mib: f64,
}

/// What a loaded proxy does.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Loaded {
    changes: Vec<Change>,
    /// Reading everything back, and comparing.
    comparisons: Vec<Comparison>,
    /// The most that the program weighed during one change.
    program_peak_mib: f64,
}

/// One kind of change.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Change {
    name: String,
    rounds: Vec<Round>,
}

/// One change, and right after it the yardsticks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "each is a time")]
struct Round {
    /// Event → in force.
    ours_ms: f64,
    /// Of it, while the program ran.
    program_ms: f64,
    /// CPU of it, in us, the program and the kernel; counted in hundredths of a second, so only the mean of many tells.
    cpu_ms: f64,
    /// What is deleted later, once for all that waits.
    settle_ms: f64,
    /// A restore of one rule.
    bare_ms: f64,
    /// A restore of what upstream would write.
    habit_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Comparison {
    whole_ms: f64,
    program_ms: f64,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    fn measure(is_quick: bool) -> Result<Self> {
        let machine = Machine::look();
        let mut sizes = Vec::new();
        for program in Program::ALL {
            let Some(version) = program.version() else {
                say(format!("skipped: {} is not installed", program.name()));
                continue;
            };
            for services in SIZES.iter().take(if is_quick { 1 } else { SIZES.len() }) {
                sizes.push(measure_size(program, &version, *services)?);
            }
        }
        Ok(Self { machine, sizes })
    }

    fn page(&self) -> Page {
        page::of(self)
    }

    /// A part's name is the program's, a blank, and what is measured.
    fn part(name: &str, services: u32) -> Result<Value> {
        let (program, part) = name.split_once(' ').context("PROGRAM PART")?;
        let program = Program::ALL.into_iter().find(|known| known.name() == program);
        let program = program.context("no such program")?;
        Ok(match part {
            "cold" => to_value(cold(program, services)?)?,
            "at-once" => to_value(at_once(program, services)?)?,
            "changes" => to_value(Namespace::create()?.run(|| loaded(program, services))??)?,
            other => bail!("no part `{other}`"),
        })
    }
}

fn measure_size(program: Program, version: &str, services: u32) -> Result<Size> {
    let cold = rounds(0, COLD_RUNS, |_| part(program, "cold", services))?;
    let loaded = part(program, "changes", services)?;
    // Last, because the kernel is busy for a while with taking these rules away.
    let at_once = part(program, "at-once", services)?;
    Ok(Size { program, version: version.into(), services, cold, at_once, loaded })
}

fn part<T: serde::de::DeserializeOwned>(program: Program, name: &str, services: u32) -> Result<T> {
    fresh(&format!("{} {name}", program.name()), services)
}

type Mode = Iptables<Watched<Programs>>;

/// The mode in this namespace, for both families as `portway run` has it.
fn mode(program: Program) -> Mode {
    let programs = Programs::find().programs.into_iter().filter(|one| one.variant() == program.variant());
    Iptables::new(programs.map(Watched::new), Options::default())
}

/// How long the programs ran since the last call.
fn program_ms(mode: &mut Mode) -> f64 {
    mode.doors().map(|program| program.take().ms).sum()
}

fn cold(program: Program, services: u32) -> Result<Cold> {
    let namespace = Namespace::create()?;
    let start = || namespace.run(|| Proxy::start(mode(program), cluster::facts(services)));
    let (started, program_peak_mib) = weigh(start);
    let (mut proxy, times) = started??;
    Ok(Cold {
        whole_ms: ms(times.whole),
        program_ms: program_ms(&mut proxy.mode),
        rss_mib: memory_mib("self", "VmRSS")?,
        rss_peak_mib: memory_mib("self", "VmHWM")?,
        program_peak_mib,
    })
}

/// Upstream's habit. Making the text is not counted.
fn at_once(program: Program, services: u32) -> Result<AtOnce> {
    let (_, table) = table_of(cluster::facts(services));
    let text = render(&table, model::Family::V4, &Options::default());
    let mut found = Programs::find();
    let program = found.door(program.variant(), Family::V4).context("the program has gone")?;
    let namespace = Namespace::create()?;
    let start = Instant::now();
    let (restored, program_peak_mib) = weigh(|| namespace.run(|| program.restore(&text)));
    let took_ms = match restored? {
        Ok(()) => Some(ms(start.elapsed())),
        Err(Error::Hung { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(AtOnce { took_ms, lines: text.lines().count(), program_peak_mib })
}

fn loaded(program: Program, services: u32) -> Result<Loaded> {
    let (proxy, _) = Proxy::start(mode(program), cluster::facts(services))?;
    let mut pair = Pair { proxy, yardstick: Yardstick::new(program)?, services };
    let is_slow = program == Program::Legacy && services > 1_000;
    let count = ROUNDS[usize::from(is_slow)];
    let kinds = Kind::main_ones().map(|kind| {
        let rounds = rounds(1, count, |i| pair.round(kind, i, i < HABIT_ROUNDS))?;
        Ok(Change { name: kind.name.into(), rounds })
    });
    let changes = kinds.collect::<Result<_>>()?;
    let (weighed, program_peak_mib) = weigh(|| pair.round(Kind::ALL[0], ROUNDS[0] + 1, false));
    weighed?;
    let comparisons = rounds(0, COMPARISONS, |_| {
        let whole_ms = ms(pair.proxy.compare()?);
        Ok(Comparison { whole_ms, program_ms: program_ms(&mut pair.proxy.mode) })
    })?;
    Ok(Loaded { changes, comparisons, program_peak_mib })
}

/// A loaded proxy, and the yardsticks beside it.
struct Pair {
    proxy: Proxy<Mode>,
    yardstick: Yardstick,
    services: u32,
}

impl Pair {
    /// One change of a kind, and right after it the yardsticks.
    fn round(&mut self, kind: Kind, i: u32, with_habit: bool) -> Result<Round> {
        let Self { proxy, yardstick, services } = self;
        let service = cluster::service((kind.service)(i, *services)).name;
        let before = yardstick::chains(&proxy.table, &service);
        let events = kind.events(i, *services);
        program_ms(&mut proxy.mode);
        let cpu_before = cpu_ms()?;
        let times = proxy.change(events)?;
        let (cpu_ms, program_ms) = (cpu_ms()? - cpu_before, program_ms(&mut proxy.mode));
        let settle = proxy.settle()?;
        let bare = yardstick.bare()?;
        let mut habit = || yardstick.restore(&yardstick::habit(&proxy.table, &service, &before));
        let habit: Option<Duration> = if with_habit { Some(habit()?) } else { None };
        Ok(Round {
            ours_ms: ms(times.whole),
            program_ms,
            cpu_ms,
            settle_ms: ms(settle),
            bare_ms: ms(bare),
            habit_ms: habit.map(ms),
        })
    }
}

/// CPU time of this process and of the programs that it has waited for.
fn cpu_ms() -> Result<f64> {
    Ok(Cpu::own()?.sum_ms() + Cpu::children()?.sum_ms())
}

impl Size {
    fn cold(&self, figure: fn(&Cold) -> f64) -> Spread {
        Spread::of(self.cold.iter().map(figure))
    }

    fn comparisons(&self, figure: fn(&Comparison) -> f64) -> Spread {
        Spread::of(self.loaded.comparisons.iter().map(figure))
    }
}

impl Change {
    fn spread(&self, figure: fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }

    /// Each round's own, as a multiple of the bare restore right after it.
    fn ratio(&self) -> Spread {
        self.spread(|round| round.ours_ms / round.bare_ms)
    }

    /// CPU of one, on average.
    fn cpu_ms(&self) -> f64 {
        let count = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        self.rounds.iter().map(|round| round.cpu_ms).sum::<f64>() / f64::from(count)
    }
}
