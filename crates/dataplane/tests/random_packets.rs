//! Random clusters, random packets: the simulated kernel does what the model says, with the same shares.
//!
//! `PORTWAY_PACKETS` asks for more of them, `PORTWAY_SEED` for others; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod twin;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel_sim::nft::Simulated;
use model::affinity::Memory;
use model::{Event, Fate, ForwardingTable, Landing, Packet, Promises};
use twin::{End, Ends};
use world::World;

const PACKETS: u64 = 100_000;
const STEPS: u64 = 25;
const PACKETS_PER_STEP: u64 = 50;

#[test]
fn the_twin_sends_random_packets_where_the_model_says() {
    let packets = number("PORTWAY_PACKETS").unwrap_or(PACKETS);
    let clusters = packets.div_ceil(STEPS * PACKETS_PER_STEP);
    let first = number("PORTWAY_SEED").unwrap_or(1);
    let mut seen = Seen::default();
    for seed in first..first + clusters {
        Clients::new(seed).live(&mut seen);
    }
    eprintln!("counted: {} random packets over {clusters} clusters, seed {first}", seen.packets);
    eprintln!("counted: of these {seen:?}");
    assert!(seen.landed > seen.packets / 4 && seen.stuck > 0 && seen.masqueraded > 0, "{seen:?}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the variable must be a number"))
}

/// What became of the packets, so that a test that asks nothing is seen.
#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    landed: u64,
    stuck: u64,
    masqueraded: u64,
    rejected: u64,
    dropped: u64,
    untouched: u64,
}

/// A cluster, the clients in it, and what is remembered of them.
struct Clients {
    seed: u64,
    world: World,
    dataplane: Nftables<Simulated>,
    memory: Memory,
    now: u64,
}

impl Clients {
    fn new(seed: u64) -> Self {
        let world = World::new(seed);
        let dataplane = Nftables::new(Simulated::default(), Options::default());
        Self { seed, world, dataplane, memory: Memory::default(), now: 1_000 }
    }

    fn live(&mut self, seen: &mut Seen) {
        self.dataplane.sync(&self.world.table, Scope::Everything).expect("the kernel takes it");
        for _ in 0..STEPS {
            let delta = self.world.step();
            let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
            self.dataplane.sync(&self.world.table, Scope::Changed(&ids)).expect("the kernel takes it");
            self.dataplane.settle().expect("the kernel takes it");
            for _ in 0..PACKETS_PER_STEP {
                self.packet(seen);
            }
            let seconds = *self.world.random.pick(&[0, 1, 5, 9, 500, 10_000]);
            self.now += seconds;
        }
    }

    fn packet(&mut self, seen: &mut Seen) {
        let packet = self.world.packet();
        let sim = twin::sim_packet(&packet, self.world.table.node());
        let fate = self.world.table.fate(&packet, &Promises::default().of_rules()).fate;
        let (now, kernel) = (Duration::from_secs(self.now), self.dataplane.kernel());
        let expected = expected(&self.world.table, &packet, &fate, &self.memory, self.now);
        seen.count(&expected);
        let got = match &fate {
            Fate::OneOf(one_of) if one_of.affinity_seconds.is_some() => {
                let ways = twin::ways(kernel, &sim, now);
                ways.and_then(|ways| {
                    let all = Ends::of(ways.iter().map(|way| (way.end, way.one_in)));
                    let chosen = self.world.random.pick(&ways);
                    *kernel = chosen.kernel.clone();
                    if let Some(landing) = landing(&fate, chosen.end) {
                        self.memory.remember(self.now, packet.source, one_of, &landing);
                        seen.stuck += u64::from(expected.0.len() == 1 && one_of.landings.len() > 1);
                    }
                    all
                })
            }
            _ => twin::ends(kernel, &sim, now),
        };
        if got.as_ref() != Ok(&expected) {
            self.fail(&packet, &expected, &got);
        }
    }

    fn fail(&self, packet: &Packet, expected: &Ends, got: &Result<Ends, String>) {
        let config = self.world.cluster.config();
        let fails = |facts: &BTreeMap<String, Event>| {
            let table = world::table_of(config, facts.values());
            fails_at_once(&table, packet)
        };
        let (facts, how) = if fails(&self.world.facts) {
            (shrink(self.world.facts.clone(), fails), "from scratch")
        } else {
            (self.world.facts.clone(), "only step by step, or after other packets")
        };
        panic!(
            "PORTWAY_SEED={} PORTWAY_PACKETS=1 replays it ({how})\n{config:?}\n{}\n{packet:?}\nexpected {expected:?}\ngot      {got:?}",
            self.seed,
            world::show(&facts),
        );
    }
}

impl Seen {
    fn count(&mut self, expected: &Ends) {
        self.packets += 1;
        match expected.0.keys().next() {
            Some(End::Untouched) => self.untouched += 1,
            Some(End::Rejected) => self.rejected += 1,
            Some(End::Dropped) => self.dropped += 1,
            Some(End::At { .. }) => self.landed += 1,
            None => {}
        }
        let is_masqueraded = |end: &End| matches!(end, End::At { masqueraded: true, .. });
        self.masqueraded += u64::from(expected.0.keys().any(is_masqueraded));
    }
}

/// Where the model says that the packet ends.
fn expected(table: &ForwardingTable, packet: &Packet, fate: &Fate, memory: &Memory, now: u64) -> Ends {
    let one = |end| Ends(BTreeMap::from([(end, (1, 1))]));
    let one_of = match fate {
        Fate::Untouched => return one(End::Untouched),
        Fate::Rejected => return one(End::Rejected),
        Fate::Dropped => return one(End::Dropped),
        Fate::OneOf(one_of) => one_of,
    };
    let landings = memory.narrow(now, packet.source, one_of);
    let whole = landings.iter().map(|landing| u32::from(landing.slots)).sum();
    let sim = twin::sim_packet(packet, table.node());
    let end = |landing: &Landing| {
        // What this host itself gets from elsewhere leaves it by no postrouting, and so is not hidden.
        let masqueraded = landing.masqueraded && !twin::is_delivered_here(&sim, landing.address);
        let end = End::At { endpoint: (landing.address, landing.port), masqueraded };
        (end, twin::lowest(landing.slots.into(), whole))
    };
    Ends(landings.iter().map(end).collect())
}

fn landing(fate: &Fate, end: End) -> Option<Landing> {
    let (Fate::OneOf(one_of), End::At { endpoint, .. }) = (fate, end) else { return None };
    one_of.landings.iter().find(|landing| (landing.address, landing.port) == endpoint).copied()
}

/// Does the packet end elsewhere in a kernel that was never anything else?
fn fails_at_once(table: &ForwardingTable, packet: &Packet) -> bool {
    let mut dataplane = Nftables::new(Simulated::default(), Options::default());
    if dataplane.sync(table, Scope::Everything).is_err() {
        return true;
    }
    let sim = twin::sim_packet(packet, table.node());
    let fate = table.fate(packet, &Promises::default().of_rules()).fate;
    let expected = expected(table, packet, &fate, &Memory::default(), 0);
    let ways = twin::ways(dataplane.kernel(), &sim, Duration::ZERO);
    ways.and_then(|ways| Ends::of(ways.iter().map(|way| (way.end, way.one_in)))) != Ok(expected)
}

/// As few facts as still fail.
fn shrink(
    mut facts: BTreeMap<String, Event>,
    fails: impl Fn(&BTreeMap<String, Event>) -> bool,
) -> BTreeMap<String, Event> {
    for key in facts.keys().cloned().collect::<Vec<_>>() {
        let mut fewer = facts.clone();
        fewer.remove(&key);
        if fails(&fewer) {
            facts = fewer;
        }
    }
    facts
}
