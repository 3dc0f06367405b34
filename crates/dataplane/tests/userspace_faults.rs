//! An iptables program that fails or a process that dies at every restore, and between the tables of every restore, of userspace
//! mode: each packet ends as the table before says, or as the one after; no rule leads to where nobody listens; and the next sync
//! brings all to where it would be without the fault.
//!
//! Two exceptions are counted by themselves: a packet that only one of the two tables serves may meanwhile be refused in another
//! way than the other table says; and pools follow at once, before rules do, so a packet may meet the new pool by the old way.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod twin;
mod userspace_ends;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use dataplane::relay;
use dataplane::userspace::{Options, Userspace};
use dataplane::{Dataplane, Scope, SyncError, Synced};
use kernel::xtables::{Error, Family, FoundTable, Table, Variant, Xtables};
use kernel_sim::xtables::{Fault, Faulty, Simulated, WHOLE, parts};
use model::fate::Payload;
use model::table::How;
use model::{ForwardingTable, Frontend, Packet, ServicePortId};
use twin::End;
use userspace_ends::{Ends, expected, got};
use world::World;

type Mode = Userspace<Faulty<Simulated>, relay::Simulated>;
type Listed = BTreeMap<(Family, Table, String), BTreeSet<String>>;

/// What can be heard of a restore that failed.
fn errors() -> [Error; 3] {
    let (program, stderr) = ("iptables-restore".to_owned(), "injected".to_owned());
    [
        Error::Locked { program: program.clone(), stderr: stderr.clone() },
        Error::Hung {
            program: program.clone(),
            limit: std::time::Duration::from_secs(1),
            stderr: stderr.clone(),
        },
        Error::Refused { program, line: None, stderr },
    ]
}

/// From one table to another; what is in the kernel before, and whether the process that wrote it still runs.
struct Story {
    name: &'static str,
    before: ForwardingTable,
    after: ForwardingTable,
    changed: BTreeSet<ServicePortId>,
    start: Start,
    probes: Vec<Packet>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing is there.
    Cold,
    /// The old rules are there, and known.
    Running,
    /// The old rules are there, of a process that has gone, and with it its listeners.
    Restart,
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
        let probes = (0..60).map(|_| world.packet()).collect();
        Self { name, before, after: world.table.clone(), changed, start, probes }
    }

    fn begin(&self, variant: Variant) -> Mode {
        let doors = Family::ALL.map(|family| Faulty::new(Simulated::new(variant, family)));
        let mut mode = Userspace::new(doors, relay::Simulated::default(), Options::default());
        if self.start != Start::Cold {
            mode.sync(&self.before, Scope::Everything).unwrap();
            mode.settle().unwrap();
        }
        if self.start == Start::Restart { again(&mut mode) } else { mode }
    }

    fn go(&self, mode: &mut Mode) -> Result<Synced, SyncError> {
        let synced = match self.start {
            Start::Running => mode.sync(&self.after, Scope::Changed(&self.changed)),
            Start::Cold | Start::Restart => mode.sync(&self.after, Scope::Everything),
        }?;
        mode.settle()?;
        Ok(synced)
    }

    fn try_all(&self, variant: Variant, counts: &mut Counts) {
        let mut mode = self.begin(variant);
        let before: Vec<usize> = mode.doors().map(|door| door.restores()).collect();
        self.go(&mut mode).unwrap();
        let cold = listed(&mut mode);
        let texts = |(door, before): (&mut Faulty<Simulated>, usize)| {
            let (count, all) = (door.restores() - before, &door.below().restored);
            all[all.len() - count..].to_vec()
        };
        let restores: Vec<Vec<String>> = mode.doors().zip(before).map(texts).collect();
        for (at, restores) in restores.iter().enumerate() {
            for (n, text) in restores.iter().enumerate() {
                for fault in faults(text) {
                    self.strike(variant, counts, &cold, at, n, &fault);
                }
            }
        }
    }

    fn strike(
        &self,
        variant: Variant,
        counts: &mut Counts,
        cold: &Listed,
        at: usize,
        n: usize,
        fault: &Fault,
    ) {
        let when = format!("{} of {variant}, door {at}, restore {n}: {fault:?}", self.name);
        let mut mode = self.begin(variant);
        mode.doors().nth(at).unwrap().on_restore(n, fault.clone());
        let result = self.go(&mut mode);
        assert_eq!(mode.doors().map(|door| door.struck()).sum::<usize>(), 1, "{when}");
        // A process that died has no listeners: until the next one has opened them, its rules lead nowhere.
        if mode.doors().any(|door| door.is_dead()) {
            assert!(result.is_err(), "{when}");
            mode = again(&mut mode);
        } else {
            counts.early += self.check(&mut mode).unwrap_or_else(|third| panic!("{when}: {third}"));
        }
        let synced = mode.sync(&self.after, Scope::Everything).unwrap();
        assert!(synced.was_full, "{when}");
        mode.settle().unwrap();
        assert_eq!(&listed(&mut mode), cold, "{when}");
        assert_eq!(mode.sync(&self.after, Scope::Everything).unwrap().operations, 0, "{when}");
        for probe in &self.probes {
            assert_eq!(ends(&mut mode, &self.after, probe), Ok(expected(&self.after, probe)), "{when}");
        }
        counts.points += 1;
    }

    /// Every packet must end as one of the two tables says; how many were refused otherwise, or met a pool early.
    fn check(&self, mode: &mut Mode) -> Result<usize, String> {
        let mut early = 0;
        for probe in &self.probes {
            let allowed = [&self.before, &self.after].map(|table| expected(table, probe));
            let is_unserved = |ends: &Ends| !ends.keys().any(|end| matches!(end, End::At { .. }));
            let found = match ends(mode, &self.after, probe) {
                // Its listener died with the process that had it, and is not the one that the frontend needs now.
                Err(_) if self.start == Start::Restart && self.is_moved(probe) => {
                    early += 1;
                    continue;
                }
                found => found?,
            };
            if allowed.contains(&found) {
                continue;
            }
            let is_refused = is_unserved(&found) && !found.contains_key(&End::Untouched);
            let is_known = |end: &End| self.pools(probe).contains(end);
            let is_early_pool = !is_unserved(&found) && found.keys().all(is_known);
            if !(is_refused && allowed.iter().any(is_unserved) || is_early_pool) {
                return Err(format!("{probe:?} ends at {found:?}, which is none of {allowed:?}"));
            }
            early += 1;
        }
        Ok(early)
    }

    /// Does the packet's frontend lead to another listener than before?
    fn is_moved(&self, packet: &Packet) -> bool {
        let is_local = |action: &model::Action| {
            let how = action.pool().map(model::Pool::how);
            how.map(|how| matches!(how, How::LocalReady | How::LocalTerminating))
        };
        let led = |table: &ForwardingTable| {
            let found = frontends(packet).into_iter().find_map(|frontend| table.route(&frontend));
            found.map(|(port, route)| (port.id().clone(), is_local(&route.inside), is_local(&route.outside)))
        };
        led(&self.before) != led(&self.after)
    }

    /// All endpoints that the packet's frontend has in either table, by whichever policy.
    fn pools(&self, packet: &Packet) -> BTreeSet<End> {
        let routes = [&self.before, &self.after].into_iter().flat_map(|table| {
            let found = frontends(packet).into_iter().filter_map(|frontend| table.route(&frontend));
            found.flat_map(|(port, _)| port.routes.iter())
        });
        let pools =
            routes.flat_map(|route| [&route.inside, &route.outside]).filter_map(|action| action.pool());
        let end = |endpoint: &model::Endpoint| End::At {
            endpoint: (endpoint.address, endpoint.port),
            masqueraded: true,
        };
        pools.flat_map(|pool| pool.endpoints().iter().map(end)).collect()
    }
}

/// What a packet may have been sent to, in the order in which that is asked.
fn frontends(packet: &Packet) -> Vec<Frontend> {
    let Payload::Transport { protocol, port } = packet.payload else { return Vec::new() };
    let (ip, family) = (packet.destination, model::Family::of(packet.destination));
    vec![Frontend::Address { ip, protocol, port }, Frontend::NodePort { family, protocol, port }]
}

/// Some errors and the end of the process, before, between and after the tables of a text.
fn faults(text: &str) -> Vec<Fault> {
    let count = parts(text).count();
    let at = (0..=count).map(|parts| if parts == count { WHOLE } else { parts });
    let answers = || errors().into_iter().map(Some).chain([None]);
    at.flat_map(|parts| answers().map(move |answer| Fault { parts, answer })).collect()
}

/// A process that knows nothing, on what the last one left.
fn again(mode: &mut Mode) -> Mode {
    let doors: Vec<_> = mode.doors().map(|door| Faulty::new(door.below().clone())).collect();
    Userspace::new(doors, relay::Simulated::default(), Options::default())
}

fn ends(mode: &mut Mode, table: &ForwardingTable, packet: &Packet) -> Result<Ends, String> {
    let relay = mode.relays().clone();
    let door = mode.doors().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    got(door.below(), &relay, table.node(), packet)
}

/// All chains with their rules, whatever the order, and with names in place of ports: another life may have got others.
fn listed(mode: &mut Mode) -> Listed {
    let ports: BTreeMap<u16, String> = mode.ports().iter().map(|(id, port)| (port, id.to_string())).collect();
    let named = |rule: String| {
        ports.iter().fold(rule, |rule, (port, name)| {
            let rule = rule.replace(&format!(":{port}"), &format!(":{name}"));
            rule.replace(&format!(" {port} "), &format!(" {name} ")).replace(&format!("ports {port}"), name)
        })
    };
    let mut all = Listed::new();
    for door in mode.doors() {
        let family = door.family();
        for table in [Table::Filter, Table::Nat, Table::Mangle] {
            let Some(text) = door.below().save(table).unwrap() else { continue };
            for chain in FoundTable::parse(&text).chains {
                let rules =
                    chain.rules.iter().map(|rule| named(rule.known().unwrap().canonical().to_string()));
                all.insert((family, table, chain.name.clone()), rules.collect());
            }
        }
    }
    all
}

#[test]
fn wherever_it_fails_packets_end_as_before_or_as_after_and_the_next_sync_converges() {
    for (name, start, seeds) in [
        ("a change", Start::Running, 20..30),
        ("a cold start", Start::Cold, 40..43),
        ("a restart", Start::Restart, 60..64),
    ] {
        let mut counts = Counts::default();
        for seed in seeds {
            let variant = Variant::ALL[usize::from(seed % 2 == 0)];
            Story::of(name, seed, start).try_all(variant, &mut counts);
        }
        assert!(counts.points > 40, "{name}: {}", counts.points);
        eprintln!("counted: {} faults at every restore of {name} of userspace", counts.points);
        eprintln!(
            "counted: of these, {} packets of {name} were refused in another way, or met a pool early",
            counts.early
        );
    }
}

#[test]
fn a_service_that_is_refused_again_and_again_holds_back_no_other() {
    let story = Story::of("a cold start", 41, Start::Cold);
    let mut mode = story.begin(Variant::Nft);
    story.go(&mut mode).unwrap();
    let text = mode.doors().next().unwrap().below().restored[0].clone();
    // It has no chain of its own, so it is known by the rule.
    let is_led = |line: &&str| line.starts_with("-A KUBE-PORTALS-CONTAINER ") && line.contains("REDIRECT");
    let lines: Vec<&str> = text.lines().filter(is_led).collect();
    let refused = Error::Refused {
        program: "iptables-restore".to_owned(),
        line: Some(lines[0].to_owned()),
        stderr: "injected".to_owned(),
    };
    let mut mode = story.begin(Variant::Nft);
    for n in 0..2 {
        let fault = Fault { parts: 0, answer: Some(refused.clone()) };
        mode.doors().next().unwrap().on_restore(n, fault);
    }
    let mut synced = story.go(&mut mode).unwrap();
    synced.refused.retain(|_, reason| !reason.contains("SCTP"));
    assert_eq!(synced.refused.len(), 1, "{synced:?}");
    let door = mode.doors().next().unwrap();
    let saved = door.below().save(Table::Nat).unwrap().unwrap();
    let left = saved.lines().filter(is_led).count();
    assert!(lines.len() > 2 && left > 0 && left < lines.len(), "{left} of {}: {saved}", lines.len());
    // It is tried again with the next comparison.
    mode.sync(&story.after, Scope::Everything).unwrap();
    let saved = mode.doors().next().unwrap().below().save(Table::Nat).unwrap().unwrap();
    assert_eq!(saved.lines().filter(is_led).count(), lines.len());
}
