//! Single changes of a loaded proxy, in turn with the yardsticks; and what a comparison of everything costs.

use std::time::Duration;

use anyhow::Result;
use model::facts::Fact;
use model::{Event, ServiceName};
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::children::weigh;
use crate::facts;
use crate::habit::{self, Yardstick};
use crate::process::Cpu;
use crate::proxy::{Proxy, Times};
use crate::results::Program;

/// How often each kind of change is measured where it takes milliseconds, and where it takes a second.
const ROUNDS: [u32; 2] = [41, 9];
/// Upstream's habit is measured in so many of the rounds.
pub(crate) const HABIT_ROUNDS: u32 = 5;
const COMPARISONS: usize = 5;

/// What a loaded proxy does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) changes: Vec<Change>,
    /// Reading everything back, and comparing.
    pub(crate) comparisons: Vec<Comparison>,
    /// The most that the program weighed during one change.
    pub(crate) program_peak_mib: f64,
}

/// One kind of change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Such as `endpoint replaced`.
    pub(crate) name: String,
    pub(crate) rounds: Vec<Round>,
}

/// One change, and right after it the yardsticks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "each is a time")]
pub(crate) struct Round {
    /// Event → in force.
    pub(crate) ours_ms: f64,
    /// Of it, while the program ran.
    pub(crate) program_ms: f64,
    /// CPU of it, in us, the program and the kernel; counted in hundredths of a second, so only the mean of many tells.
    pub(crate) cpu_ms: f64,
    /// What is deleted later, once for all that waits.
    pub(crate) settle_ms: f64,
    /// A restore of one rule.
    pub(crate) bare_ms: f64,
    /// A restore of what upstream would write.
    pub(crate) habit_ms: Option<f64>,
}

impl Change {
    /// CPU of one, on average.
    pub(crate) fn cpu_ms(&self) -> f64 {
        let count = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        self.rounds.iter().map(|round| round.cpu_ms).sum::<f64>() / f64::from(count)
    }
}

impl Round {
    /// Ours as a multiple of the bare restore right after it.
    pub(crate) fn ratio(&self) -> f64 {
        self.ours_ms / self.bare_ms
    }
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) whole_ms: f64,
    pub(crate) program_ms: f64,
}

/// Loads `services` and measures.
pub(crate) fn measure(program: Program, services: u32) -> Result<Loaded> {
    Namespace::create()?.run(|| measure_here(program, services))?
}

fn measure_here(program: Program, services: u32) -> Result<Loaded> {
    let (mut proxy, _) = Proxy::start(program, facts::cluster(services))?;
    let mut yardstick = Yardstick::new(program)?;
    let is_slow = program == Program::Legacy && services > 1_000;
    let mut changes = Vec::new();
    for (name, service, events) in KINDS {
        // Nobody counts the first: it brings this code and the program into the processor's caches.
        round(&mut proxy, &mut yardstick, &service(0, services), events(0, services), false)?;
        let rounds = (1..=ROUNDS[usize::from(is_slow)]).map(|i| {
            let with_habit = i <= HABIT_ROUNDS;
            round(&mut proxy, &mut yardstick, &service(i, services), events(i, services), with_habit)
        });
        changes.push(Change { name: name.into(), rounds: rounds.collect::<Result<_>>()? });
    }
    let (_, service, events) = KINDS[0];
    let (weighed, program_peak_mib) = weigh(|| {
        let i = ROUNDS[0] + 1;
        round(&mut proxy, &mut yardstick, &service(i, services), events(i, services), false)
    });
    weighed?;
    let comparisons = (0..COMPARISONS).map(|_| proxy.compare().map(Comparison::of)).collect::<Result<_>>()?;
    Ok(Loaded { changes, comparisons, program_peak_mib })
}

impl Comparison {
    fn of(times: Times) -> Self {
        Self { whole_ms: ms(times.whole), program_ms: ms(times.program) }
    }
}

/// Which service the i-th change of a kind is about, in a cluster of so many; and its events.
type Which = fn(i: u32, services: u32) -> ServiceName;
type Events = fn(i: u32, services: u32) -> Vec<Event>;

/// In an order in which the last undoes the one before.
const KINDS: [(&str, Which, Events); 3] = [
    (
        "endpoint replaced",
        |i, services| facts::service(scattered(i, services)).name,
        |i, services| {
            let n = scattered(i, services);
            let mut addresses = facts::endpoints(n);
            addresses[0] = facts::later_pod(i);
            vec![Event::Apply(Fact::EndpointSlice(facts::slice(n, &addresses)))]
        },
    ),
    (
        "service added",
        |i, services| facts::service(services + i).name,
        |i, services| {
            let n = services + i;
            let slice = facts::slice(n, &facts::endpoints(n));
            vec![Event::Apply(Fact::Service(facts::service(n))), Event::Apply(Fact::EndpointSlice(slice))]
        },
    ),
    (
        "service removed",
        |i, services| facts::service(services + i).name,
        |i, services| {
            let n = services + i;
            vec![Event::DeleteSlice(facts::slice(n, &[]).name), Event::DeleteService(facts::service(n).name)]
        },
    ),
];

/// Some service or other, and no one twice.
fn scattered(i: u32, services: u32) -> u32 {
    // A prime that divides no size.
    i.wrapping_mul(7_919) % services
}

fn round(
    proxy: &mut Proxy,
    yardstick: &mut Yardstick,
    service: &ServiceName,
    events: Vec<Event>,
    with_habit: bool,
) -> Result<Round> {
    let before = habit::chains(&proxy.table, service);
    let cpu_before = cpu_ms()?;
    let times = proxy.change(events)?;
    let cpu_ms = cpu_ms()? - cpu_before;
    let settle = proxy.settle()?;
    let bare = yardstick.bare()?;
    let habit = if with_habit {
        Some(yardstick.restore(&habit::text(&proxy.table, service, &before))?)
    } else {
        None
    };
    Ok(Round {
        ours_ms: ms(times.whole),
        program_ms: ms(times.program),
        cpu_ms,
        settle_ms: ms(settle),
        bare_ms: ms(bare),
        habit_ms: habit.map(ms),
    })
}

/// CPU time of this process and of the programs that it has waited for.
fn cpu_ms() -> Result<f64> {
    let (own, children) = (Cpu::own()?, Cpu::children()?);
    Ok(own.user_ms + own.system_ms + children.user_ms + children.system_ms)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
