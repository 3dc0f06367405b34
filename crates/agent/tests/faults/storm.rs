//! The loop of `portway run` in a storm of changes and faults, with a clock of its own, on the simulated kernel.
//!
//! The rule: in every state of the kernel, each packet ends as one of these tables says: the last one that was written
//! without any fault, or one of those that a sync was tried for since. When nothing goes wrong any more, the loop comes to
//! the newest table by itself.
//!
//! Everything is drawn from a seed, which a failure prints.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::{Done, Effect, Event, Loop, Now, Start};
use config::{PaceOptions, VanishedTcp};
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::sim::Ends;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Error, Kernel, Transaction};
use kernel_sim::nft::{Answer, Fault, Simulated};
use model::Config;
use model::facts::Node;
use model::time::Timestamp;
use observe::picture::Picture;
use serde_json::Value;
use standalone::control_plane::ControlPlane;
use standalone::host::HostFacts;
use standalone::ipam::{self, HostNetwork};
use standalone::objects::{Change, Kind, Object, ObjectKey};

use crate::probes::Probes;
use crate::states::{At, States, differences};
use crate::story::{self, Process};
use crate::watched::written;
use crate::world::Recipe;

const SERVICES: u16 = 8;
const STEPS: usize = 40;
/// A sync takes so long.
const SYNC: Duration = Duration::from_millis(1);

/// What happened, so that a storm without wind is seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) changes: usize,
    pub(crate) syncs: usize,
    pub(crate) faults: usize,
    pub(crate) crashes: usize,
    pub(crate) states: usize,
}

/// Lives through one storm.
pub(crate) fn live(number: u64, seen: &mut Seen) -> Result<(), String> {
    let mut storm = Storm::new(number)?;
    for _ in 0..STEPS {
        storm.step(seen)?;
    }
    storm.calm()?;
    seen.syncs += storm.syncs;
    seen.states += storm.states.count();
    Ok(())
}

/// The loop, its kernel, and the weather.
pub(crate) struct Storm {
    random: Random,
    /// Is a service port ever refused for good? Then nobody crashes: a fresh process does not know how it was.
    withholds: bool,
    state: Loop,
    process: Process,
    now: Duration,
    wake_at: Option<Duration>,
    objects: BTreeMap<ObjectKey, Value>,
    probes: Probes,
    states: States,
    at: At,
    /// How packets end in the tables that may be in force.
    allowed: Vec<Vec<Ends>>,
    syncs: usize,
}

impl Storm {
    /// After the first sync.
    pub(crate) fn new(seed: u64) -> Result<Self, String> {
        let mut objects = BTreeMap::new();
        for object in (0..SERVICES).flat_map(|n| Recipe::any(n).objects()) {
            objects.insert(key(&object)?, object);
        }
        let mut state = start();
        // What the picture makes of it, without any effect.
        state.step(files(&objects, &BTreeMap::new()), now(Duration::ZERO));
        let probes = Probes::of(&[state.table()], state.table().node()).all_sticky();
        let kernel = Simulated::default();
        let (states, at) = States::begin(&kernel, &probes)?;
        // A cold start passes by the table of a node without Services.
        let mut bare = start();
        bare.step(files(&BTreeMap::new(), &BTreeMap::new()), now(Duration::ZERO));
        let allowed = vec![probes.all_by_twin(&kernel)?, probes.by_model(bare.table())];
        let mut storm = Self {
            random: Random(seed),
            withholds: seed % 2 == 1,
            state: start(),
            process: story::start(kernel),
            now: Duration::ZERO,
            wake_at: None,
            objects,
            probes,
            states,
            at,
            allowed,
            syncs: 0,
        };
        // The first table comes in calm weather.
        storm.feed(files(&storm.objects, &BTreeMap::new()))?;
        storm.pass(Duration::from_secs(1))?;
        Ok(storm)
    }

    fn step(&mut self, seen: &mut Seen) -> Result<(), String> {
        if self.random.below(2) == 0 {
            self.arm();
        }
        let before = self.objects.clone();
        for _ in 0..=self.random.below(3) {
            self.change()?;
            seen.changes += 1;
        }
        let struck = self.process.kernel().struck();
        self.feed(files(&self.objects, &before))?;
        let wait = [0, 1, 10, 100, 1_000, 31_000][self.random.below(6)];
        self.pass(Duration::from_millis(wait))?;
        seen.faults += self.process.kernel().struck() - struck;
        if self.process.kernel().is_dead() {
            seen.crashes += 1;
            self.process = story::start(self.process.kernel().below().kernel.clone());
            (self.state, self.now, self.wake_at) = (start(), Duration::ZERO, None);
            self.feed(files(&self.objects, &BTreeMap::new()))?;
        }
        Ok(())
    }

    /// Something will go wrong soon.
    fn arm(&mut self) {
        let n = self.random.below(4);
        let passing = [Error::Overrun, Error::Raced, Error::OutOfMemory, Error::NotPermitted];
        let answer = Answer::Error(passing[self.random.below(4)].clone());
        let kinds = if self.withholds { 6 } else { 8 };
        let fault = match self.random.below(kinds) {
            0 => return self.process.kernel().on_listing(n, Error::Raced),
            1 => return self.process.kernel().on_generation(n, Error::Overrun),
            2 => Fault::LoseAnswer(Answer::Error(Error::Overrun)),
            3 => Fault::Spoil,
            4 if self.withholds => Fault::Refuse(Answer::element(self.random.below(6), 0, libc::EINVAL)),
            4 => Fault::LoseAnswer(Answer::silence()),
            6 => Fault::DieBefore,
            7 => Fault::DieAfter,
            _ => Fault::Refuse(answer),
        };
        self.process.kernel().on_write(n, fault);
    }

    /// One Service is another one, or goes, or comes back.
    fn change(&mut self) -> Result<(), String> {
        let mut draw = |most: u16| u16::try_from(self.random.below(most.into())).map_err(|e| e.to_string());
        let recipe = Recipe::any(draw(SERVICES)?).changed(draw(105)?);
        let goes = self.random.below(6) == 0;
        for object in recipe.objects() {
            let key = key(&object)?;
            if goes {
                self.objects.remove(&key)
            } else {
                self.objects.insert(key, object)
            };
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and time passes.
    fn calm(&mut self) -> Result<(), String> {
        self.process.kernel().heal();
        self.pass(Duration::from_secs(120))?;
        self.has_converged()?;
        let expected = self.probes.by_model(self.state.table());
        self.states.found(self.at).iter().try_for_each(|found| self.probes.third(found, &[&expected]))
    }

    /// The loop thinks so, and the kernel holds what an empty one would have got.
    pub(crate) fn has_converged(&mut self) -> Result<(), String> {
        let status = self.state.status(now(self.now));
        if !status.is_in_sync {
            return Err(format!("it does not come into sync: {status:#?}"));
        }
        let mut fresh = Nftables::new(Simulated::default(), Options::default());
        fresh.sync(self.state.table(), Scope::Everything).map_err(|e| e.to_string())?;
        let (left, cold) = (written(self.process.kernel().below()), written(fresh.kernel()));
        if left != cold {
            return Err(format!("it does not converge: {}", differences(&left, &cold)));
        }
        Ok(())
    }

    /// Somebody else writes.
    pub(crate) fn meddle(&mut self, transaction: &Transaction) -> Result<(), String> {
        self.process.kernel().below().kernel.run(transaction).map_err(|e| e.to_string())
    }

    pub(crate) fn feed(&mut self, event: Event) -> Result<(), String> {
        let mut next = Some(event);
        while let Some(event) = next.take().filter(|_| !self.process.kernel().is_dead()) {
            self.wake_at = None;
            for effect in self.state.step(event, now(self.now)) {
                match effect {
                    Effect::Sync(work) => {
                        self.allowed.push(self.probes.by_model(self.state.table()));
                        let result = self.process.sync(self.state.table(), work.as_ref());
                        self.look()?;
                        if result.as_ref().is_ok_and(|synced| synced.refused.is_empty()) {
                            self.allowed.drain(..self.allowed.len() - 1);
                        }
                        self.now += SYNC;
                        self.syncs += 1;
                        next = Some(Event::Synced { result, took: SYNC });
                    }
                    Effect::Settle => {
                        let result = self.process.settle();
                        self.look()?;
                        next = Some(Event::Settled { result, took: SYNC });
                    }
                    Effect::WakeAt(at) => self.wake_at = Some(at),
                    Effect::Run(errand) => {
                        next = Some(Event::Ran { errand: errand.kind(), result: Ok(Done::default()) });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(crate) fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = self.now + time;
        while let Some(at) = self.wake_at.filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.feed(Event::Tick)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// No packet ended at a third place since the last look.
    fn look(&mut self) -> Result<(), String> {
        let allowed: Vec<&[Ends]> = self.allowed.iter().map(Vec::as_slice).collect();
        for step in self.process.kernel().below().take_past() {
            let (at, found) = self.states.after(self.at, step, &self.probes)?;
            self.probes.third(found, &allowed)?;
            self.at = at;
        }
        Ok(())
    }
}

fn now(elapsed: Duration) -> Now {
    Now { elapsed, wall: jiff::Timestamp::UNIX_EPOCH + elapsed }
}

/// A loop to which nothing happened yet.
fn start() -> Loop {
    let options = ipam::Options {
        service_cidrs: ["10.96.0.0/16", "fd00:96::/112"].iter().filter_map(|net| net.parse().ok()).collect(),
        load_balancer_cidrs: Vec::new(),
        node_port_range: 30_000..=32_767,
        state_dir: Path::new("/nonexistent/portway-faults").into(),
        dry_run: true,
    };
    let control_plane =
        ControlPlane::open_on(&HostNetwork::default(), options, Timestamp(0)).expect("nothing is stored");
    let config = Config { node_name: "a".into(), ..Config::default() };
    Loop::new(Start {
        server: None,
        mode: dataplane::nftables::MODE,
        program: None,
        families: model::Family::ALL.to_vec(),
        picture: Picture::new(config, control_plane, None),
        host: host(),
        pace: PaceOptions::default(),
        glance: None,
        vanished_tcp: VanishedTcp::Reset,
        is_default_mode: false,
        now: now(Duration::ZERO),
    })
}

fn host() -> HostFacts {
    let addresses: Vec<IpAddr> = ["10.0.0.1", "fd00:1::1"].iter().filter_map(|ip| ip.parse().ok()).collect();
    let known = addresses.iter().copied().collect();
    let node = Node {
        name: "a".into(),
        zone: None,
        addresses,
        pod_cidrs: Vec::new(),
        is_leaving: false,
        reports: Vec::new(),
    };
    HostFacts { addresses: Some(known), node: Some(node), ..HostFacts::default() }
}

fn key(object: &Value) -> Result<ObjectKey, String> {
    let kind = if object["kind"] == "Service" { Kind::Service } else { Kind::EndpointSlice };
    ObjectKey::of(kind, object).map_err(|e| format!("{e:?}"))
}

/// What differs between two sets of files.
fn files(after: &BTreeMap<ObjectKey, Value>, before: &BTreeMap<ObjectKey, Value>) -> Event {
    let gone = before.keys().filter(|key| !after.contains_key(*key)).cloned().map(Change::Delete);
    let new = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let apply = |(key, value): (&ObjectKey, &Value)| {
        Change::Apply(Object { key: key.clone(), origin: None, value: Arc::new(value.clone()) })
    };
    Event::FilesChanged {
        changes: gone.chain(new.map(apply)).collect(),
        problems: Vec::new(),
        is_complete: true,
    }
}

/// Numbers from a seed (splitmix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).expect("it is below a usize")
    }
}
