//! Single changes of loaded proxies, one for each size, in turn: what disturbs the machine disturbs them alike, and growth is a ratio of
//! figures of the same minute.
//!
//! Beside them the least that a kernel takes for an address: one is put on the interface and taken off again, by one request each and
//! nothing else. A Service that comes brings an address with it. The kernel goes through all that the interface has; what remains of a
//! change without that is ours.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Result, ensure};
use dataplane::ipvs::DUMMY;
use harness::cluster::Change as Kind;
use harness::process::thread_cpu_us;
use harness::proxy::Times;
use harness::{Spread, median, node, rounds};
use kernel::host::{ChangeHost as _, ThisMachine};
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::proxy::{Proxy, Work, start};
use crate::tap::{self, Traffic};

/// How often each kind of change is measured: so many turns of so many.
const TURNS: u32 = 10;
const PER_TURN: u32 = 10;
pub(crate) const ROUNDS: u32 = TURNS * PER_TURN;
/// Changes that are counted with the tap, before the others; they bring the code into the processor's caches too.
const COUNTED: u32 = 5;
/// No address of a Service, nor of a pod.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 112, 0, 0);

/// What loaded proxies do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) changes: Vec<Change>,
    /// Everything read back and compared, by the number of services.
    pub(crate) comparisons: Vec<(u32, Work)>,
    #[serde(default)]
    pub(crate) floors: Vec<Floor>,
}

/// One kind of change at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) services: u32,
    /// What each of some changes said to the kernel and heard.
    pub(crate) counted: Vec<Counted>,
    pub(crate) rounds: Vec<Round>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) change: (Work, Traffic),
    pub(crate) settle: (Work, Traffic),
}

/// One change.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "each is a time")]
pub(crate) struct Round {
    /// Event → in force.
    pub(crate) whole_us: f64,
    /// Of it, event → forwarding table, and through each interface.
    pub(crate) table_us: f64,
    pub(crate) servers_us: f64,
    pub(crate) sets_us: f64,
    pub(crate) addresses_us: f64,
    /// User and system time of it, and of settling.
    pub(crate) cpu_us: f64,
    pub(crate) settle_cpu_us: f64,
}

/// An address alone, at one size; CPU in microseconds of each round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Floor {
    pub(crate) services: u32,
    pub(crate) added: Vec<f64>,
    pub(crate) removed: Vec<f64>,
}

struct Place {
    services: u32,
    namespace: Namespace,
    proxy: Proxy,
}

/// Loads all sizes and measures.
pub(crate) fn measure(sizes: impl Iterator<Item = u32>) -> Result<Loaded> {
    let mut places = sizes.map(Place::load).collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::new();
    for kind in Kind::main_ones() {
        let new = |place: &mut Place| place.new_change(kind);
        let mut of_kind = places.iter_mut().map(new).collect::<Result<Vec<_>>>()?;
        for turn in 0..TURNS {
            for (place, change) in places.iter_mut().zip(&mut of_kind) {
                change.rounds.extend(place.rounds(kind, turn)?);
            }
        }
        changes.extend(of_kind);
    }
    let floor = |place: &Place| Floor { services: place.services, added: Vec::new(), removed: Vec::new() };
    let mut floors: Vec<Floor> = places.iter().map(floor).collect();
    for _ in 0..TURNS {
        for (place, floor) in places.iter().zip(&mut floors) {
            place.namespace.run(|| floor.measure())??;
        }
    }
    let comparisons = places.iter_mut().map(|Place { services, namespace, proxy }| {
        let whole = namespace.run(|| proxy.compare())??;
        Ok((*services, Work::of(&mut proxy.mode, Times { table: Duration::ZERO, whole })))
    });
    Ok(Loaded { changes, comparisons: comparisons.collect::<Result<_>>()?, floors })
}

impl Place {
    fn load(services: u32) -> Result<Self> {
        let namespace = node::namespace()?;
        let (proxy, _) = namespace.run(|| start(services))??;
        Ok(Self { services, namespace, proxy })
    }

    /// A kind of change that is counted, and not timed yet.
    fn new_change(&mut self, kind: Kind) -> Result<Change> {
        let Self { services, namespace, proxy } = self;
        let one = |i| {
            let change = tap::count(|| change(proxy, kind, i, *services))?;
            Ok(Counted { change, settle: tap::count(|| settle(proxy))? })
        };
        let counted = namespace.run(|| (ROUNDS..ROUNDS + COUNTED).map(one).collect::<Result<_>>())??;
        Ok(Change { name: kind.name.into(), services: *services, counted, rounds: Vec::new() })
    }

    fn rounds(&mut self, kind: Kind, turn: u32) -> Result<Vec<Round>> {
        let Self { services, namespace, proxy } = self;
        namespace.run(|| {
            let look = look_us()?;
            rounds(0, PER_TURN, |i| {
                let events = kind.events(turn * PER_TURN + i, *services);
                let (times, cpu_us) = thread_cpu_us(|| proxy.change(events))?;
                let work = Work::of(&mut proxy.mode, times);
                let (_, settle_cpu_us) = thread_cpu_us(|| settle(proxy))?;
                Ok(Round::of(work, cpu_us - look, settle_cpu_us - look))
            })
        })?
    }
}

fn change(proxy: &mut Proxy, kind: Kind, i: u32, services: u32) -> Result<Work> {
    let times = proxy.change(kind.events(i, services))?;
    Ok(Work::of(&mut proxy.mode, times))
}

/// Removes real servers that earlier changes left to their connections.
fn settle(proxy: &mut Proxy) -> Result<Work> {
    let whole = proxy.settle()?;
    Ok(Work::of(&mut proxy.mode, Times { table: Duration::ZERO, whole }))
}

/// What looking at the clock costs, which is not the change's.
fn look_us() -> Result<f64> {
    Ok(median(rounds(0, PER_TURN, |_| Ok(thread_cpu_us(|| Ok(()))?.1))?))
}

impl Floor {
    /// The median for a kind of change that brings an address or takes one.
    fn of(&self, change: &str) -> Option<f64> {
        let rounds = match change {
            "service added" => &self.added,
            "service removed" => &self.removed,
            _ => return None,
        };
        (!rounds.is_empty()).then(|| median(rounds.iter().copied()))
    }

    /// One turn, in the network namespace of a loaded proxy.
    fn measure(&mut self) -> Result<()> {
        let (mut host, look) = (ThisMachine, look_us()?);
        for i in 0..PER_TURN {
            let ip = [IpAddr::from(Ipv4Addr::from_bits(FIRST.to_bits() + i))];
            let (refused, added) = thread_cpu_us(|| Ok(host.add_addresses(DUMMY, &ip)?))?;
            let (kept, removed) = thread_cpu_us(|| Ok(host.delete_addresses(DUMMY, &ip)?))?;
            ensure!(refused.is_empty() && kept.is_empty(), "the kernel refused {ip:?}");
            self.added.push(added - look);
            self.removed.push(removed - look);
        }
        Ok(())
    }
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

impl Change {
    pub(crate) fn spread(&self, figure: fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }

    /// CPU of a change, settling included.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.spread(|round| round.cpu_us + round.settle_cpu_us).median
    }

    /// Of the counted changes, the one that said most.
    pub(crate) fn most(&self) -> &Counted {
        self.counted.iter().max_by_key(|counted| counted.bytes()).expect("some are counted")
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

impl Loaded {
    /// Each kind of change at the least and at the most services; nothing where one size was measured.
    pub(crate) fn ends(&self) -> Vec<(&Change, &Change)> {
        let names = self.changes.chunk_by(|one, next| one.name == next.name);
        let ends = names.filter_map(|sizes| Some((sizes.first()?, sizes.last()?)));
        ends.filter(|(least, most)| least.services < most.services).collect()
    }

    /// What the kernel takes for the address alone that a kind of change brings or takes, at the least and at the most services, in
    /// microseconds.
    pub(crate) fn floor(&self, name: &str) -> Option<(f64, f64)> {
        Some((self.floors.first()?.of(name)?, self.floors.last()?.of(name)?))
    }
}
