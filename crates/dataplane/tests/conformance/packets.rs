//! Random clusters, random packets: each ends where the model says, with the same shares, through what followed many changes.
//!
//! `PORTWAY_PACKETS` asks for more of them, `PORTWAY_SEED` for others; a failure prints the seed that replays it.

use std::collections::BTreeMap;
use std::time::Duration;

use dataplane::Scope;
use dataplane::sim::{Clients, End, Ends, SimulatedMode, remembered_for};
use model::{Event, Fate, ForwardingTable, Packet};

use crate::common::{Simulation, expected, fate, number, settle, sync};
use crate::world::{self, World};

const PACKETS: u64 = 100_000;
/// For each simulation of a mode that has several.
const PACKETS_OF_SEVERAL: u64 = 70_000;
const STEPS: u64 = 25;
const PACKETS_PER_STEP: u64 = 50;
/// Between a step and a packet so much time passes at least.
const MOMENT: Duration = Duration::from_millis(100);

pub(crate) fn random_packets_end_where_the_model_says(simulation: &Simulation) {
    let enough = if simulation.is_alone { PACKETS } else { PACKETS_OF_SEVERAL };
    let packets = number("PORTWAY_PACKETS").unwrap_or(enough);
    let clusters = packets.div_ceil(STEPS * PACKETS_PER_STEP);
    let first = number("PORTWAY_SEED").unwrap_or(1);
    let mut seen = Seen::default();
    for seed in first..first + clusters {
        Cluster::new(simulation, seed).live(&mut seen);
    }
    let name = &simulation.name;
    eprintln!("counted: {} random packets on {name} over {clusters} clusters, seed {first}", seen["packets"]);
    eprintln!("counted: of these on {name} {seen:?}");
    let [sent, landed, stuck, masqueraded, rejected, dropped, beyond] =
        ["packets", "landed", "stuck", "masqueraded", "rejected", "dropped", "beyond"].map(|what| seen[what]);
    let is_varied = landed > sent / 10 && rejected + dropped > sent / 100 && masqueraded > 0;
    let is_varied = is_varied && (stuck > 0 || !simulation.node(1).remembers_one_endpoint());
    assert!(packets < enough || is_varied && beyond <= sent / 10, "{seen:?}");
}

/// What became of the packets, so that a test that asks nothing is seen.
type Seen = BTreeMap<&'static str, u64>;

fn note(seen: &mut Seen, what: &'static str, is_so: bool) {
    *seen.entry(what).or_default() += u64::from(is_so);
}

fn count(seen: &mut Seen, expected: &Ends) {
    let first = expected.0.keys().next();
    note(seen, "packets", true);
    note(seen, "untouched", first == Some(&End::Untouched));
    note(seen, "rejected", first == Some(&End::Rejected));
    note(seen, "dropped", first == Some(&End::Dropped));
    note(seen, "landed", first.is_some_and(|end| end.endpoint().is_some()));
    let is_masqueraded = |end: &End| matches!(end, End::At { masqueraded: true, .. });
    note(seen, "masqueraded", expected.0.keys().any(is_masqueraded));
}

/// A cluster, the clients in it, and what is remembered of them.
struct Cluster<'a> {
    simulation: &'a Simulation,
    seed: u64,
    world: World,
    node: Box<dyn SimulatedMode>,
    clients: Clients,
}

impl<'a> Cluster<'a> {
    fn new(simulation: &'a Simulation, seed: u64) -> Self {
        let (node, clients) = (simulation.node(seed), Clients::default());
        Self { simulation, seed, world: World::new(seed), node, clients }
    }

    fn live(&mut self, seen: &mut Seen) {
        sync(&mut *self.node, &self.world.table, Scope::Everything);
        for step in 0..STEPS {
            let ids = self.world.step().before.into_keys().collect();
            let synced = sync(&mut *self.node, &self.world.table, Scope::Changed(&ids));
            // Packets also meet what waits long for its deletion.
            if step.is_multiple_of(2) || synced.settle_after.is_some_and(|after| after <= MOMENT) {
                settle(&mut *self.node);
            }
            *seen.entry("direct").or_default() += self.node.check(&self.world.table).unwrap();
            for _ in 0..PACKETS_PER_STEP {
                self.packet(seen);
            }
            let seconds = Duration::from_secs(*self.world.random.pick(&[0, 1, 5, 9, 500, 10_000]));
            self.node.pass(seconds);
            self.clients.pass(seconds);
        }
    }

    fn packet(&mut self, seen: &mut Seen) {
        let mut packet = self.world.packet();
        while self.node.is_beyond(&packet, &self.world.table) {
            note(seen, "beyond", true);
            packet = self.world.packet();
        }
        let table = &self.world.table;
        let fate = fate(&*self.node, table, &packet);
        let got = self.node.ends(&packet, &[table]);
        let sticky = match &fate {
            Fate::OneOf(one_of) if one_of.affinity_seconds.is_some() => {
                let is_known = self.node.remembers_one_endpoint() && self.node.remembers(&packet, table);
                is_known.then(|| remembered_for(&packet, one_of.clone(), &self.node.semantics()))
            }
            _ => None,
        };
        let expected = match &sticky {
            Some(one_of) => Ends::of_landings(&self.clients.narrow(packet.source, one_of)),
            None => Ends::of_fate(&fate),
        };
        if got.as_ref() != Ok(&expected) {
            self.fail(&packet, &expected, &got);
        }
        note(seen, "beyond", false);
        count(seen, &expected);
        note(seen, "stuck", false);
        if let Some(one_of) = sticky {
            let ends: Vec<End> = expected.0.keys().copied().collect();
            note(seen, "stuck", ends.len() == 1 && one_of.landings.len() > 1);
            let end = *self.world.random.pick(&ends);
            self.node.send(&packet, &self.world.table, end).unwrap();
            self.clients.remember(packet.source, &one_of, end);
        }
    }

    fn fail(&mut self, packet: &Packet, expected: &Ends, got: &Result<Ends, String>) {
        let config = self.world.cluster.config().clone();
        let fails = |facts: &Facts| {
            let table = world::table_of(&config, facts.values());
            fails_at_once(self.simulation, self.seed, &table, packet)
        };
        let (facts, how) = if fails(&self.world.facts) {
            (shrink(self.world.facts.clone(), fails), "from scratch")
        } else {
            (self.world.facts.clone(), "only step by step, or after other packets")
        };
        panic!(
            "PORTWAY_SEED={} PORTWAY_PACKETS=1 replays it ({how})\n{config:?}\n{}\n{packet:?}\nexpected {expected:?}\ngot      {got:?}\n{:#?}",
            self.seed,
            world::show(&facts),
            self.node.listing(),
        );
    }
}

/// Does the packet end elsewhere on a node that was never anything else?
fn fails_at_once(simulation: &Simulation, seed: u64, table: &ForwardingTable, packet: &Packet) -> bool {
    let mut node = simulation.node(seed);
    if node.dataplane().sync(table, Scope::Everything).is_err() {
        return true;
    }
    let expected = expected(&*node, table, packet);
    !node.is_beyond(packet, table) && node.ends(packet, &[table]) != Ok(expected)
}

type Facts = BTreeMap<String, Event>;

/// As few facts as still fail.
fn shrink(mut facts: Facts, fails: impl Fn(&Facts) -> bool) -> Facts {
    for key in facts.keys().cloned().collect::<Vec<_>>() {
        let mut fewer = facts.clone();
        fewer.remove(&key);
        if fails(&fewer) {
            facts = fewer;
        }
    }
    facts
}
