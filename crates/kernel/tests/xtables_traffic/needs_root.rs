//! The kernel and the twin, side by side.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use kernel::RulePackets;
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel_sim::nft::{Fate, Outcome};
use kernel_sim::xtables::{Simulated, Way};

use crate::rules::{
    BRIEF, DROPPED, MASQUERADED, NODE_PORT, PORT, RANGED, REFUSED, REFUSED_NODE_PORT, SPREAD, STICKY, node,
    pod, service, text,
};
use crate::stage::{Seen, Sender, Stage};

/// Of three equal ways none is missed by so many, but once in 10⁹ runs.
const TRIES: usize = 54;
const CLIENTS: u8 = 150;
/// The kernel's clock is this coarse, at worst.
const TICK: Duration = Duration::from_millis(20);

struct Pair {
    stage: Stage,
    twin: Simulated,
    now: Duration,
}

impl Pair {
    fn build(variant: Variant, family: Family) -> Option<Self> {
        let stage = Stage::build(family)?;
        let text = text(family);
        let mut twin = Simulated::new(variant, family);
        twin.restore(&text).unwrap();
        stage.restore(variant, &text).then_some(Self { stage, twin, now: Duration::ZERO })
    }

    fn restore(&mut self, variant: Variant, text: &str) {
        assert!(self.stage.restore(variant, text));
        self.twin.restore(text).unwrap();
    }

    fn ways(&mut self, sender: Sender, destination: SocketAddr) -> Vec<Way> {
        self.now += Duration::from_millis(10);
        let packet = self.stage.sim_packet(sender, destination.ip(), destination.port());
        self.twin.ways(&packet, self.now)
    }

    /// Sends one datagram that comes to an end for sure.
    fn send_only(&mut self, sender: Sender, destination: SocketAddr) -> Seen {
        let marker = SocketAddr::new(service(self.stage.family, SPREAD), PORT);
        self.stage.send(sender, destination, &BTreeSet::new(), marker).expect("it comes to an end")
    }

    /// Sends one datagram; the twin goes the way that it went. Returns where it ended and where it might have.
    fn send(&mut self, sender: Sender, destination: SocketAddr) -> (Seen, BTreeSet<Seen>) {
        let ways = self.ways(sender, destination);
        let marker = SocketAddr::new(service(self.stage.family, SPREAD), PORT);
        let possible: BTreeSet<Seen> = ways.iter().map(|way| meaning(&way.outcome)).collect();
        let seen = self.stage.send(sender, destination, &possible, marker);
        let went = ways.into_iter().find(|way| Some(meaning(&way.outcome)) == seen);
        let (Some(went), Some(seen)) = (went, seen) else {
            panic!("{sender:?} to {destination} ended {seen:?}, and the twin says {possible:?}")
        };
        self.twin = went.after;
        (seen, possible)
    }
}

/// A datagram that nobody translates goes to a service address, where nobody is; or the node answers itself.
pub(crate) fn meaning(outcome: &Outcome) -> Seen {
    match outcome.fate {
        Fate::Dnat(pod, _) => Seen::At { pod, masqueraded: outcome.masqueraded },
        Fate::Rejected(_) => Seen::Refused,
        Fate::Dropped | Fate::Untouched => Seen::Nowhere,
    }
}

fn on_every_door(work: impl Fn(&mut Pair, Variant, &str)) {
    for variant in Variant::ALL {
        for family in Family::ALL {
            if let Some(mut pair) = Pair::build(variant, family) {
                work(&mut pair, variant, &format!("{variant} {family}"));
            }
        }
    }
}

#[test]
fn root_packets_end_where_the_twin_says_and_by_chance_everywhere() {
    on_every_door(|pair, _, door| {
        let family = pair.stage.family;
        let to = |last| SocketAddr::new(service(family, last), PORT);
        let at_node = |port| SocketAddr::new(node(family), port);
        let cases = [
            (Sender::Client(1), to(SPREAD), 3),
            (Sender::Node, to(SPREAD), 3),
            (Sender::Client(1), to(MASQUERADED), 3),
            (Sender::Client(1), to(RANGED), 3),
            (Sender::Client(1), at_node(NODE_PORT), 3),
            (Sender::Node, at_node(NODE_PORT), 3),
            // Outside the range; refused; dropped; and what only INPUT refuses, from outside and from the node itself.
            (Sender::Client(200), to(RANGED), 1),
            (Sender::Client(1), to(REFUSED), 1),
            (Sender::Node, to(REFUSED), 1),
            (Sender::Client(1), to(DROPPED), 1),
            (Sender::Node, to(DROPPED), 1),
            (Sender::Client(1), at_node(REFUSED_NODE_PORT), 1),
            (Sender::Node, at_node(REFUSED_NODE_PORT), 1),
        ];
        let mut sent = 0;
        for (sender, destination, ends) in cases {
            let tries = if ends == 1 { 3 } else { TRIES };
            let results: Vec<_> = (0..tries).map(|_| pair.send(sender, destination)).collect();
            let seen: BTreeSet<Seen> = results.iter().map(|(seen, _)| *seen).collect();
            assert_eq!(seen, results[0].1, "{door}: {sender:?} to {destination}");
            assert_eq!(seen.len(), ends, "{door}: {sender:?} to {destination}: {seen:?}");
            sent += tries;
        }
        eprintln!("counted: {sent} real datagrams, {door}");
    });
}

#[test]
fn root_rules_count_the_packets_that_the_twin_counts() {
    on_every_door(|pair, variant, door| {
        let family = pair.stage.family;
        let to = |last| SocketAddr::new(service(family, last), PORT);
        let chains =
            [(Table::Filter, "KUBE-SERVICES"), (Table::Nat, "KUBE-NODEPORTS"), (Table::Nat, "NOT-THERE")];
        let both = |pair: &mut Pair| -> Vec<Vec<u64>> {
            let numbers = |all: &[RulePackets]| all.iter().map(|rule| rule.packets).collect::<Vec<_>>();
            let count = |(table, chain): (Table, &str)| {
                let real = pair.stage.packets(variant, table, chain);
                let twin = pair.twin.packets(table, chain).unwrap().unwrap();
                assert_eq!(numbers(&real), numbers(&twin), "{door}: {table} {chain}");
                let has_handles = real.iter().all(|rule| (rule.handle > 0) == (variant == Variant::Nft));
                assert!(has_handles, "{door}: {real:?}");
                numbers(&real)
            };
            chains.map(count).into()
        };
        assert_eq!(both(pair), [vec![0, 0], vec![0], vec![]]);
        for (sender, destination) in [
            (Sender::Client(1), to(REFUSED)),
            (Sender::Client(2), to(REFUSED)),
            (Sender::Node, to(REFUSED)),
            (Sender::Client(1), to(DROPPED)),
            (Sender::Node, to(DROPPED)),
        ] {
            let packet = pair.stage.sim_packet(sender, destination.ip(), destination.port());
            let outcome = pair.twin.send(&packet, Duration::ZERO, &mut |_| true);
            let marker = SocketAddr::new(service(family, SPREAD), PORT);
            pair.stage.send(sender, destination, &BTreeSet::from([meaning(&outcome)]), marker);
        }
        assert_eq!(both(pair), [vec![3, 2], vec![0], vec![]], "{door}");
        // A rule that is added leaves the counts of the others; a chain that is named begins anew.
        pair.restore(variant, "*filter\n-A KUBE-SERVICES -m comment --comment x\nCOMMIT\n");
        assert_eq!(both(pair)[0], [3, 2, 0], "{door}");
        pair.restore(variant, "*filter\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j DROP\nCOMMIT\n");
        assert_eq!(both(pair)[0], [0], "{door}");
    });
}

/// The kernel remembers 100 clients for each endpoint. The 50 that were pushed out are sent anywhere again.
#[test]
fn root_the_kernel_and_the_twin_remember_the_same_clients() {
    on_every_door(|pair, variant, door| {
        let family = pair.stage.family;
        let destination = SocketAddr::new(service(family, STICKY), PORT);
        for last in 1..=CLIENTS {
            let (_, possible) = pair.send(Sender::Client(last), destination);
            assert_eq!(possible.len(), 2, "{door}: client {last} is new");
        }
        let Some(before) = memories_agree(pair, door) else { return };
        assert_eq!(before[0].len(), 100, "{door}");
        // Chains that are written anew in one text keep their memory.
        pair.restore(variant, &sticky_chains(family, true));
        assert_eq!(memories_agree(pair, door), Some(before), "{door}");
        // Those of the end stay where they are; the first ones were forgotten.
        let is_known = |pair: &mut Pair, last| pair.send(Sender::Client(last), destination).1.len() == 1;
        assert!((CLIENTS - 20..=CLIENTS).all(|last| is_known(pair, last)), "{door}");
        let forgotten = (1..=20).filter(|last| !is_known(pair, *last)).count();
        assert!(forgotten > 0, "{door}");
        eprintln!("counted: {CLIENTS} clients, {forgotten} of the first 20 forgotten, {door}");
        // A list that no rule names any more is forgotten, also if one does again later.
        pair.restore(variant, &sticky_chains(family, false));
        pair.restore(variant, &sticky_chains(family, true));
        assert_eq!(memories_agree(pair, door), Some([const { BTreeSet::new() }; 2]), "{door}");
    });
}

/// Time passes on its own here, so each datagram may meet what the twin says for the earliest and for the latest moment at which
/// it can have been looked at.
#[test]
fn root_a_client_is_forgotten_after_its_time() {
    on_every_door(|pair, _, door| {
        let family = pair.stage.family;
        let destination = SocketAddr::new(service(family, BRIEF), PORT);
        let start = Instant::now();
        let (first, _) = pair.send(Sender::Client(1), destination);
        assert_eq!(first, Seen::At { pod: pod(family, 1), masqueraded: false }, "{door}");
        let (set_at, set_until) = (pair.now, start.elapsed());
        let mut sent = 0;
        loop {
            let age_min = start.elapsed().saturating_sub(set_until + TICK);
            let seen = pair.send_only(Sender::Client(1), destination);
            let age_max = start.elapsed() + TICK;
            let packet = pair.stage.sim_packet(Sender::Client(1), destination.ip(), PORT);
            let ways = [age_min, age_max].map(|age| pair.twin.ways(&packet, set_at + age));
            let possible: BTreeSet<Seen> = ways.iter().flatten().map(|way| meaning(&way.outcome)).collect();
            assert!(
                possible.contains(&seen),
                "{door}: {seen:?} after {age_min:?} to {age_max:?}: {possible:?}"
            );
            sent += 1;
            if seen == first {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{door}: the client is never forgotten");
            // Ports are few, and none is used twice.
            thread::sleep(Duration::from_millis(5));
        }
        eprintln!("counted: {sent} datagrams until a client was forgotten, {door}");
    });
}

/// The chains of the service that remembers, with their rules or empty.
fn sticky_chains(family: Family, with_rules: bool) -> String {
    let text = text(family);
    let nat = text.lines().take_while(|line| *line != "COMMIT");
    let is_wanted = |line: &&str| {
        line.starts_with(":STICKY") || (with_rules && line.starts_with("-A STICKY")) || *line == "*nat"
    };
    nat.filter(is_wanted).collect::<Vec<_>>().join("\n") + "\nCOMMIT\n"
}

/// Both lists, which kernel and twin must agree upon; `None` where the kernel does not show them.
fn memories_agree(pair: &Pair, door: &str) -> Option<[BTreeSet<IpAddr>; 2]> {
    let mut both = [const { BTreeSet::new() }; 2];
    for (found, list) in both.iter_mut().zip(["STICKY-1", "STICKY-2"]) {
        *found = remembered(pair, list)?;
        let twins = pair.twin.recently_seen(list).into_iter().map(|(ip, _)| ip);
        assert_eq!(*found, twins.collect(), "{door}: {list}");
    }
    Some(both)
}

/// Who is in a list of the node's kernel; `None`, with the reason, where it does not show them.
fn remembered(pair: &Pair, list: &str) -> Option<BTreeSet<IpAddr>> {
    let path = format!("/proc/thread-self/net/xt_recent/{list}");
    match pair.stage.node.run(|| std::fs::read_to_string(&path)).unwrap() {
        Ok(text) => {
            let sources = text.lines().filter_map(|line| line.strip_prefix("src=")?.split(' ').next());
            Some(sources.map(|source| source.parse().unwrap()).collect())
        }
        Err(error) => {
            eprintln!("skipped: this kernel does not show {path}: {error}");
            None
        }
    }
}
