//! A sync of IPVS mode that ends after any single write: each packet ends as the table before says, or as the one after; and the next
//! sync, of the same process or of another, brings all to where it would be without the fault.
//!
//! There is no transaction, so some packets meet what is neither, and are counted by themselves: one that only one of the two tables
//! serves may be refused in another way than the other table says; one whose virtual server gets another scheduler may be held back;
//! one that both serve may be hidden by the old route while it takes the
//! new one; and shares are those of the endpoints that are there.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod ipvs_ends;
mod ipvs_gate;
mod twin;
mod world;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::ipvs::{Ipvs, Kernel, Options};
use dataplane::{Dataplane, Scope, SyncError, Synced};
use ipvs_ends::{Ends, Twin, all_but_marks, expected, got, is_beyond, kernel, programs};
use ipvs_gate::{Gate, Gated};
use kernel::xtables::Variant;
use kernel_sim::xtables::Simulated;
use kernel_sim::{host, ipset, ipvs, sysctl};
use model::fate::Payload;
use model::{Action, ForwardingTable, Frontend, Packet, Pool, ServicePortId};
use twin::End;
use world::World;

type Doors =
    Kernel<Gated<ipvs::Simulated>, Gated<ipset::Simulated>, Gated<host::Simulated>, Gated<sysctl::Simulated>>;
type Mode = Ipvs<Gated<Simulated>, Doors>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing is there.
    Cold,
    /// The old state is there, and known.
    Running,
    /// The old state is there, of a process that has gone.
    Restart,
}

/// From one table to another.
struct Story {
    name: &'static str,
    before: ForwardingTable,
    after: ForwardingTable,
    changed: BTreeSet<ServicePortId>,
    start: Start,
    probes: Vec<Packet>,
}

#[derive(Default)]
struct Counts {
    points: usize,
    checked: usize,
    early: usize,
}

impl Story {
    fn of(name: &'static str, seed: u64, start: Start, most: usize) -> Self {
        let mut world = World::new(seed);
        let (mut before, changed) = world.change(most);
        if start == Start::Cold {
            before = ForwardingTable::default();
        }
        let after = world.table.clone();
        let mut probes: Vec<Packet> = (0..80).map(|_| world.packet()).collect();
        probes.retain(|probe| !is_beyond(&before, probe) && !is_beyond(&after, probe));
        Self { name, before, after, changed, start, probes }
    }

    fn begin(&self, variant: Variant) -> (Mode, Gate) {
        let (gate, twin) = (Gate::open(), kernel());
        let mut mode = gated(programs(&twin, variant).into(), twin, &gate);
        if self.start != Start::Cold {
            mode.sync(&self.before, Scope::Everything).unwrap();
            mode.settle().unwrap();
        }
        if self.start == Start::Restart {
            mode = again(&mut mode, &gate);
        }
        (mode, gate)
    }

    fn go(&self, mode: &mut Mode) -> Result<Synced, SyncError> {
        match self.start {
            Start::Running => mode.sync(&self.after, Scope::Changed(&self.changed)),
            Start::Cold | Start::Restart => mode.sync(&self.after, Scope::Everything),
        }
    }

    fn try_all(&self, variant: Variant, counts: &mut Counts) {
        let (mut mode, gate) = self.begin(variant);
        gate.let_through(usize::MAX);
        self.go(&mut mode).unwrap();
        let writes = gate.passed();
        mode.settle().unwrap();
        let whole = canonical(&mut mode);
        for writes in 0..writes {
            self.strike(variant, writes, &whole, counts);
        }
    }

    fn strike(&self, variant: Variant, writes: usize, whole: &BTreeSet<String>, counts: &mut Counts) {
        let when = format!("{} of {variant}, after {writes} writes", self.name);
        let (mut mode, gate) = self.begin(variant);
        gate.let_through(writes);
        assert!(self.go(&mut mode).is_err(), "{when}");
        counts.early += self.check(&mut mode).unwrap_or_else(|third| panic!("{when}: {third}"));
        counts.checked += self.probes.len();
        gate.let_through(usize::MAX);
        if writes.is_multiple_of(2) {
            mode = again(&mut mode, &gate);
        }
        let synced = mode.sync(&self.after, Scope::Everything).unwrap();
        assert!(synced.was_full, "{when}");
        mode.settle().unwrap();
        let found = canonical(&mut mode);
        let difference: Vec<_> = found.symmetric_difference(whole).collect();
        assert!(difference.is_empty(), "{when}: {difference:#?}");
        assert_eq!(mode.sync(&self.after, Scope::Everything).unwrap().operations, 0, "{when}");
        for probe in &self.probes {
            assert_eq!(ends(&mut mode, &[&self.after], probe), Ok(expected(&self.after, probe)), "{when}");
        }
        counts.points += 1;
    }

    /// Every packet must end as one of the two tables says; how many were refused otherwise, or hidden early.
    fn check(&self, mode: &mut Mode) -> Result<usize, String> {
        let mut early = 0;
        for probe in &self.probes {
            let allowed = [&self.before, &self.after].map(|table| expected(table, probe));
            let found = ends(mode, &[&self.after, &self.before], probe)?;
            if allowed.contains(&found) {
                continue;
            }
            let pools = self.pools(probe);
            let is_known = |end: &End| matches!(end, End::At { endpoint, masqueraded: true } if pools.contains(endpoint));
            let is_held = |end: &End| *end == End::Dropped && self.is_rescheduled(probe);
            if let Some(end) =
                found.keys().find(|end| !is_allowed(end, &allowed) && !is_known(end) && !is_held(end))
            {
                return Err(format!("{probe:?} ends at {end:?} of {found:?}, which is none of {allowed:?}"));
            }
            early += 1;
        }
        Ok(early)
    }
}

impl Story {
    /// All endpoints that the packet's frontend has in either table, by whichever policy: where the policy changes, a packet may meet
    /// the other one, and is hidden then.
    fn pools(&self, packet: &Packet) -> BTreeSet<(IpAddr, u16)> {
        let tables = [&self.before, &self.after].into_iter();
        let pools = tables.flat_map(|table| actions(table, packet)).filter_map(Action::pool);
        pools.flat_map(|pool| pool.endpoints().iter().map(|one| (one.address, one.port))).collect()
    }

    /// Whether its virtual servers are to choose in another way: by weight, or no longer so. New connections are held back meanwhile.
    fn is_rescheduled(&self, packet: &Packet) -> bool {
        let is_uneven = |action: &Action| {
            let endpoints = action.pool().map(Pool::endpoints).unwrap_or_default();
            endpoints.iter().any(|one| one.slots != endpoints[0].slots)
        };
        let [before, after] = [&self.before, &self.after]
            .map(|table| actions(table, packet).into_iter().map(is_uneven).collect::<Vec<bool>>());
        before != after
    }
}

/// What a table does with a packet's frontend: inside and outside.
fn actions<'a>(table: &'a ForwardingTable, packet: &Packet) -> Vec<&'a Action> {
    let Payload::Transport { protocol, port } = packet.payload else { return Vec::new() };
    let (ip, family) = (packet.destination, model::Family::of(packet.destination));
    let asked = [Frontend::Address { ip, protocol, port }, Frontend::NodePort { family, protocol, port }];
    let routes = asked.iter().filter_map(|frontend| table.route(frontend));
    routes.flat_map(|(_, route)| [&route.inside, &route.outside]).collect()
}

/// An endpoint of either table; hidden, unless one of them says that it is not. Refused, where one of them does not serve.
fn is_allowed(end: &End, allowed: &[Ends; 2]) -> bool {
    let is_unserved = |ends: &Ends| !ends.keys().any(|end| matches!(end, End::At { .. }));
    match end {
        End::Untouched => allowed.iter().any(|ends| ends.contains_key(end)),
        End::Rejected | End::Dropped => allowed.iter().any(is_unserved),
        End::At { endpoint, masqueraded } => {
            let has = |masqueraded: bool| {
                allowed.iter().any(|ends| ends.contains_key(&End::At { endpoint: *endpoint, masqueraded }))
            };
            has(*masqueraded) || *masqueraded && has(false)
        }
    }
}

fn gated(programs: Vec<Simulated>, twin: Twin, gate: &Gate) -> Mode {
    let programs = programs.into_iter().map(|program| Gated::new(program, gate));
    let doors = Kernel {
        servers: Gated::new(twin.servers, gate),
        sets: Gated::new(twin.sets, gate),
        host: Gated::new(twin.host, gate),
        settings: Gated::new(twin.settings, gate),
    };
    Ipvs::new(programs, doors, Options::default(), || Duration::ZERO)
}

fn twin_of(mode: &mut Mode) -> Twin {
    let doors = mode.doors();
    Kernel {
        servers: doors.servers.door.clone(),
        sets: doors.sets.door.clone(),
        host: doors.host.door.clone(),
        settings: doors.settings.door.clone(),
    }
}

/// A process that knows nothing, on what the last one left.
fn again(mode: &mut Mode, gate: &Gate) -> Mode {
    let programs = mode.programs().map(|program| program.door.clone()).collect();
    gated(programs, twin_of(mode), gate)
}

fn ends(mode: &mut Mode, tables: &[&ForwardingTable], packet: &Packet) -> Result<Ends, String> {
    let host = mode.doors().host.door.clone();
    let program = mode.programs().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    got(&program.door, &host, tables, packet)
}

/// All that is there, without the numbers of marks: another life may have given others.
fn canonical(mode: &mut Mode) -> BTreeSet<String> {
    let mut programs: Vec<Simulated> = mode.programs().map(|program| program.door.clone()).collect();
    all_but_marks(&mut twin_of(mode), &mut programs)
}

#[test]
fn after_any_write_packets_end_as_before_or_as_after_and_the_next_sync_converges() {
    for (name, start, most, seeds) in [
        ("a change", Start::Running, 1, 100..130),
        ("many changes", Start::Running, 8, 20..24),
        ("a cold start", Start::Cold, 8, 40..41),
        ("a restart", Start::Restart, 8, 60..62),
    ] {
        let mut counts = Counts::default();
        for seed in seeds {
            let variant = Variant::ALL[usize::from(seed % 2 == 0)];
            Story::of(name, seed, start, most).try_all(variant, &mut counts);
        }
        assert!(counts.points > 40, "{name}: {}", counts.points);
        let Counts { points, checked, early } = counts;
        eprintln!("counted: {checked} packets after each of {points} single writes of {name} of IPVS mode");
        eprintln!(
            "counted: of these, {early} were refused in another way, hidden early, or met some of the endpoints"
        );
    }
}
