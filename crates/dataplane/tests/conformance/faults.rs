//! A kernel or a program that fails at every write, and a process that dies there: each packet ends as the table before says, or as the
//! one after; and the next sync, of the same process or of another, brings all to where it would be without the fault.
//!
//! A mode says what else a packet may meet meanwhile ([`SimulatedMode::may_meet`]); these packets are counted by themselves.

use std::collections::BTreeSet;

use dataplane::sim::{Ends, Meanwhile, SimulatedMode, Struck};
use dataplane::{Scope, ServicePortIds};
use model::{ForwardingTable, Packet, ServicePortId};

use crate::common::{Simulation, assert_same, expected, from_scratch, go, refused, settle, sync};
use crate::world::World;

/// So many stories are told of each kind, and more until so many points were tried.
const POINTS_MIN: usize = 450;
const STORIES_MAX: u64 = 80;
const PROBES: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing is there.
    Cold,
    /// The old state is there, and known.
    Running,
    /// The old state is there, of a process that has gone.
    Restart,
}

const KINDS: [(&str, Start, usize, u64); 4] = [
    ("a change", Start::Running, 1, 100),
    ("many changes", Start::Running, 8, 20),
    ("a cold start", Start::Cold, 8, 40),
    ("a restart", Start::Restart, 8, 60),
];

pub(crate) fn wherever_it_fails_packets_end_as_before_or_as_after_and_the_next_sync_converges(
    simulation: &Simulation,
) {
    for (name, start, most, first) in KINDS {
        let (mut counts, mut stories) = (Counts::default(), 0);
        while counts.points < POINTS_MIN && stories < STORIES_MAX {
            Story::of(simulation, name, first + stories, start, most).try_all(&mut counts);
            stories += 1;
        }
        let Counts { points, checked, early } = counts;
        if points == 0 {
            return eprintln!("skipped: nothing of {} can fail", simulation.name);
        }
        assert!(points > 40, "{name}: {points}");
        let mode = &simulation.name;
        eprintln!("counted: {checked} packets after each of {points} faults of {name} of {mode}");
        eprintln!(
            "counted: of these, {early} of {name} of {mode} met what neither table says and the mode allows"
        );
    }
}

#[derive(Default)]
struct Counts {
    points: usize,
    checked: usize,
    early: usize,
}

/// From one table to another.
struct Story<'a> {
    simulation: &'a Simulation,
    name: &'static str,
    seed: u64,
    before: ForwardingTable,
    after: ForwardingTable,
    changed: BTreeSet<ServicePortId>,
    start: Start,
    probes: Vec<(Packet, [Ends; 2])>,
    begun: Box<dyn SimulatedMode>,
}

impl<'a> Story<'a> {
    fn of(simulation: &'a Simulation, name: &'static str, seed: u64, start: Start, most: usize) -> Self {
        let mut world = World::new(seed);
        let (mut before, changed) = world.change(most);
        if start == Start::Cold {
            before = ForwardingTable::default();
        }
        let (after, mut begun) = (world.table.clone(), simulation.node(1));
        if start != Start::Cold {
            sync(&mut *begun, &before, Scope::Everything);
            settle(&mut *begun);
        }
        if start == Start::Restart {
            begun = begun.restart(&simulation.settings(1));
        }
        let mut packets: Vec<Packet> = (0..PROBES).map(|_| world.packet()).collect();
        packets.retain(|packet| [&before, &after].iter().all(|table| !begun.is_beyond(packet, table)));
        let probe = |packet: Packet| {
            let allowed = [&before, &after].map(|table| expected(&*begun, table, &packet));
            (packet, allowed)
        };
        let probes = packets.into_iter().map(probe).collect();
        Self { simulation, name, seed, before, after, changed, start, probes, begun }
    }

    fn scope(&self) -> Scope<&ServicePortIds> {
        match self.start {
            Start::Running => Scope::Changed(&self.changed),
            Start::Cold | Start::Restart => Scope::Everything,
        }
    }

    fn try_all(&self, counts: &mut Counts) {
        let mut whole = from_scratch(&*self.begun, &self.after);
        let work = |dataplane: &mut dyn dataplane::Dataplane| {
            go(dataplane, &self.after, self.scope()).expect("nothing fails");
        };
        for (fault, node) in self.begun.failing(&work) {
            let when = format!("{} of {}, seed {}: {fault}", self.name, self.simulation.name, self.seed);
            self.strike(node, &mut *whole, &when, counts);
        }
    }

    fn strike(
        &self,
        mut node: Box<dyn SimulatedMode>,
        whole: &mut dyn SimulatedMode,
        when: &str,
        counts: &mut Counts,
    ) {
        let result = go(node.dataplane(), &self.after, self.scope());
        let struck = node.struck();
        assert_ne!(struck, Struck::Not, "{when}");
        counts.early += self.check(&mut *node).unwrap_or_else(|third| panic!("{when}: {third}"));
        counts.checked += self.probes.len();
        node.heal();
        if struck == Struck::Died {
            assert!(result.is_err(), "{when}");
        }
        if struck == Struck::Died || counts.points.is_multiple_of(2) {
            node = node.restart(&self.simulation.settings(1));
            sync(&mut *node, &self.after, Scope::Everything);
        } else if result.is_err() {
            // The next sync says that it goes well, and then it does.
            let synced = node.dataplane().sync(&self.after, Scope::Changed(&BTreeSet::new())).unwrap();
            assert!(synced.was_full && refused(&*node, &synced).is_empty(), "{when}: {synced:?}");
        }
        settle(&mut *node);
        assert_same(&mut *node, whole, when);
        assert_eq!(node.dataplane().sync(&self.after, Scope::Everything).unwrap().operations, 0, "{when}");
        for (packet, [_, after]) in &self.probes {
            assert_eq!(node.ends(packet, &[&self.after]).as_ref(), Ok(after), "{when}: {packet:?}");
        }
        counts.points += 1;
    }

    /// Every packet must end as one of the two tables says, or as the mode allows; how many ended so.
    fn check(&self, node: &mut dyn SimulatedMode) -> Result<usize, String> {
        let mut early = 0;
        for (packet, allowed) in &self.probes {
            let found = node.ends(packet, &[&self.after, &self.before]);
            if found.as_ref().is_ok_and(|found| allowed.contains(found)) {
                continue;
            }
            let (before, after, is_restarted) = (&self.before, &self.after, self.start == Start::Restart);
            let meanwhile = Meanwhile { packet, before, after, allowed, is_restarted };
            if !node.may_meet(&meanwhile, &found) {
                return Err(format!("{packet:?} ends at {found:?}, which is none of {allowed:?}"));
            }
            early += 1;
        }
        Ok(early)
    }
}
