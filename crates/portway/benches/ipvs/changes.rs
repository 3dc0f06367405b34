//! Single changes of loaded proxies, one for each size, in turn: what disturbs the machine disturbs them alike, and growth is a ratio of
//! figures of the same minute.

use anyhow::Result;
use model::Event;
use model::facts::Fact;
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::floor::Floor;
use crate::process::thread_cpu_us;
use crate::proxy::{Proxy, Work};
use crate::samples::Spread;
use crate::tap::{self, Traffic};
use crate::{facts, node};

/// How often each kind of change is measured: so many turns of so many.
const TURNS: u32 = 10;
const PER_TURN: u32 = 10;
pub(crate) const ROUNDS: u32 = TURNS * PER_TURN;
/// Changes that are counted with the tap, before the others; they bring the code into the processor's caches too.
const COUNTED: u32 = 5;

/// One kind of change at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Such as `endpoint replaced`.
    pub(crate) name: String,
    pub(crate) services: u32,
    /// What each of some changes said to the kernel and heard.
    pub(crate) counted: Vec<Counted>,
    pub(crate) rounds: Vec<Round>,
}

/// A change, or settling after it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) change: (Work, Traffic),
    pub(crate) settle: (Work, Traffic),
}

/// One change; times in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "each is a time")]
pub(crate) struct Round {
    /// Event → in force.
    pub(crate) whole_us: f64,
    /// Of it, event → forwarding table, and through each door.
    pub(crate) table_us: f64,
    pub(crate) servers_us: f64,
    pub(crate) sets_us: f64,
    pub(crate) addresses_us: f64,
    /// User and system time of it.
    pub(crate) cpu_us: f64,
    /// The same of settling.
    pub(crate) settle_cpu_us: f64,
}

impl Round {
    fn of(work: Work, cpu_us: f64, settle_cpu_us: f64) -> Self {
        Self {
            whole_us: work.whole_ms * 1e3,
            table_us: work.table_ms * 1e3,
            servers_us: work.servers.ms * 1e3,
            sets_us: work.sets.ms * 1e3,
            addresses_us: work.addresses.ms * 1e3,
            cpu_us,
            settle_cpu_us,
        }
    }
}

/// What loaded proxies do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) changes: Vec<Change>,
    /// Everything read back and compared, by the number of services.
    pub(crate) comparisons: Vec<(u32, Work)>,
    /// An address alone.
    #[serde(default)]
    pub(crate) floors: Vec<Floor>,
}

impl Change {
    /// CPU of a change, settling included.
    pub(crate) fn cpu_us(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|round| round.cpu_us + round.settle_cpu_us))
    }

    /// Of the counted changes, the one that said most.
    pub(crate) fn most(&self) -> Option<&Counted> {
        self.counted.iter().max_by_key(|counted| counted.bytes())
    }
}

impl Counted {
    pub(crate) fn messages(&self) -> u64 {
        self.change.0.messages() + self.settle.0.messages()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.change.1.bytes + self.settle.1.bytes
    }
}

struct Place {
    services: u32,
    namespace: Namespace,
    proxy: Proxy,
}

impl Place {
    fn load(services: u32) -> Result<Self> {
        let namespace = node::namespace()?;
        let (proxy, _) = namespace.run(|| Proxy::start(facts::cluster(services)))??;
        Ok(Self { services, namespace, proxy })
    }
}

/// Loads all sizes and measures.
pub(crate) fn measure(sizes: impl Iterator<Item = u32>) -> Result<Loaded> {
    let mut places = sizes.map(Place::load).collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::new();
    for (name, events) in KINDS {
        let mut kinds = Vec::new();
        for place in &mut places {
            let counted = count(place, events)?;
            kinds.push(Change { name: name.into(), services: place.services, counted, rounds: Vec::new() });
        }
        for turn in 0..TURNS {
            for (place, kind) in places.iter_mut().zip(&mut kinds) {
                kind.rounds.extend(rounds(place, events, turn)?);
            }
        }
        changes.extend(kinds);
    }
    let floors = floors(&places)?;
    let comparisons = places.iter_mut().map(|place| {
        let work = place.namespace.run(|| place.proxy.compare())??;
        Ok((place.services, work))
    });
    Ok(Loaded { changes, comparisons: comparisons.collect::<Result<_>>()?, floors })
}

fn floors(places: &[Place]) -> Result<Vec<Floor>> {
    let mut floors: Vec<Floor> = places.iter().map(|place| Floor::new(place.services)).collect();
    for _ in 0..TURNS {
        for (place, floor) in places.iter().zip(&mut floors) {
            place.namespace.run(|| floor.measure(PER_TURN, look_us()?))??;
        }
    }
    Ok(floors)
}

fn count(place: &mut Place, events: Events) -> Result<Vec<Counted>> {
    let Place { services, namespace, proxy } = place;
    let one = |i| {
        let change = tap::count(|| proxy.change(events(i, *services)))?;
        Ok(Counted { change, settle: tap::count(|| proxy.settle())? })
    };
    namespace.run(|| (ROUNDS..ROUNDS + COUNTED).map(one).collect())?
}

fn rounds(place: &mut Place, events: Events, turn: u32) -> Result<Vec<Round>> {
    let Place { services, namespace, proxy } = place;
    namespace.run(|| {
        let look = look_us()?;
        let numbers = (turn * PER_TURN)..((turn + 1) * PER_TURN);
        let rounds = numbers.map(|i| {
            let events = events(i, *services);
            let (work, cpu_us_change) = cpu_us(|| proxy.change(events))?;
            let (_, cpu_us_settle) = cpu_us(|| proxy.settle())?;
            Ok(Round::of(work, cpu_us_change - look, cpu_us_settle - look))
        });
        rounds.collect()
    })?
}

/// What looking at the clock costs, which is not the change's.
fn look_us() -> Result<f64> {
    let looks = (0..PER_TURN).map(|_| Ok(cpu_us(|| Ok(()))?.1)).collect::<Result<Vec<_>>>()?;
    Ok(Spread::of(looks.into_iter()).median)
}

/// User and system time of this thread for some work.
pub(crate) fn cpu_us<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let before = thread_cpu_us()?;
    let result = work()?;
    Ok((result, thread_cpu_us()? - before))
}

/// The events of the i-th change of a kind, in a cluster of so many services.
type Events = fn(i: u32, services: u32) -> Vec<Event>;

/// In an order in which the last undoes the one before.
const KINDS: [(&str, Events); 3] = [
    ("endpoint replaced", |i, services| {
        let n = scattered(i, services);
        let mut addresses = facts::endpoints(n);
        addresses[0] = facts::later_pod(i);
        vec![Event::Apply(Fact::EndpointSlice(facts::slice(n, &addresses)))]
    }),
    ("service added", |i, services| {
        let n = services + i;
        let slice = facts::slice(n, &facts::endpoints(n));
        vec![Event::Apply(Fact::Service(facts::service(n))), Event::Apply(Fact::EndpointSlice(slice))]
    }),
    ("service removed", |i, services| {
        let n = services + i;
        vec![Event::DeleteSlice(facts::slice(n, &[]).name), Event::DeleteService(facts::service(n).name)]
    }),
];

/// Some service or other, and no one twice.
fn scattered(i: u32, services: u32) -> u32 {
    // A prime that divides no size.
    i.wrapping_mul(7_919) % services
}
