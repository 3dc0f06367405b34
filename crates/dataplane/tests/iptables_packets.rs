//! Random clusters, random packets: the twin, written to by the mode step by step, sends each where the model says.
//!
//! Every step goes through [`Scope::Changed`], so the rules are those of a process that has followed many changes; `ways` tells
//! all that chance may do, with its exact share. Nothing is remembered between packets: every client is a new one.
//!
//! `PORTWAY_PACKETS` asks for more of them, `PORTWAY_SEED` for others; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod twin;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel_sim::nft::{Outcome, SimPacket};
use kernel_sim::xtables::Simulated;
use model::{Fate, Packet};
use twin::{End, is_delivered_here, sim_packet};
use world::World;

const PACKETS: u64 = 100_000;
const STEPS: u64 = 25;
const PACKETS_PER_STEP: u64 = 50;

/// Each end with its share: so many times, of so many.
type Ends = BTreeMap<End, (u64, u64)>;

#[test]
fn rules_that_followed_changes_send_random_packets_where_the_model_says() {
    let packets = number("PORTWAY_PACKETS").unwrap_or(PACKETS);
    let clusters = packets.div_ceil(STEPS * PACKETS_PER_STEP);
    let first = number("PORTWAY_SEED").unwrap_or(1);
    let (mut sent, mut landed, mut refused) = (0, 0, 0);
    for seed in first..first + clusters {
        let mut world = World::new(seed);
        let variant = Variant::ALL[usize::from(seed % 2 == 0)];
        let doors = Family::ALL.map(|family| Simulated::new(variant, family));
        let mut mode = Iptables::new(doors, Options::default());
        for step in 0..STEPS {
            let delta = world.step();
            let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
            mode.sync(&world.table, Scope::Changed(&ids)).unwrap();
            for _ in 0..PACKETS_PER_STEP {
                let packet = world.packet();
                let expected = expected(&world, &packet);
                let got = got(&mut mode, &world, &packet);
                if got != expected {
                    fail(
                        &mut mode,
                        &world,
                        &packet,
                        &format!("PORTWAY_SEED={seed} PORTWAY_PACKETS=1, step {step}"),
                    );
                }
                sent += 1;
                landed += u64::from(matches!(got.keys().next(), Some(End::At { .. })));
                refused += u64::from(matches!(got.keys().next(), Some(End::Rejected | End::Dropped)));
            }
        }
    }
    eprintln!(
        "counted: {sent} random packets through the iptables twin over {clusters} clusters, seed {first}: {landed} landed, \
         {refused} refused"
    );
    assert!(packets < PACKETS || (landed > packets / 10 && refused > packets / 100), "{landed} {refused}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the variable must be a number"))
}

fn expected(world: &World, packet: &Packet) -> Ends {
    let one = |end| Ends::from([(end, (1, 1))]);
    match world.table.fate(packet, &Options::default().promises()).fate {
        Fate::Untouched => one(End::Untouched),
        Fate::Rejected => one(End::Rejected),
        Fate::Dropped => one(End::Dropped),
        Fate::OneOf(one_of) => {
            let end = |landing: &model::Landing| {
                let endpoint = (landing.address, landing.port);
                let share = twin::lowest(u32::from(landing.slots), one_of.slots);
                (End::At { endpoint, masqueraded: landing.masqueraded }, (share.0.into(), share.1.into()))
            };
            one_of.landings.iter().map(end).collect()
        }
    }
}

fn got(mode: &mut Iptables<Simulated>, world: &World, packet: &Packet) -> Ends {
    let packet = sim_packet(packet, world.table.node());
    let door = mode.doors().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    let mut ends = Ends::new();
    for way in door.ways(&packet, Duration::ZERO) {
        // Every endpoint has one rule that chance can take, or the last one; so no two ways end alike.
        let before = ends.insert(end_of(&packet, &way.outcome), way.share);
        assert_eq!(before, None, "{packet:?}");
    }
    ends
}

/// What the outcome means. The mark must be what it was, unless nobody sees it any more.
fn end_of(packet: &SimPacket, seen: &Outcome) -> End {
    let end = match seen.fate {
        kernel_sim::nft::Fate::Untouched => End::Untouched,
        kernel_sim::nft::Fate::Rejected(_) => return End::Rejected,
        kernel_sim::nft::Fate::Dropped => return End::Dropped,
        kernel_sim::nft::Fate::Dnat(address, port) => {
            let endpoint = (address, port.expect("it has a port"));
            if is_delivered_here(packet, address) {
                return End::At { endpoint, masqueraded: false };
            }
            End::At { endpoint, masqueraded: seen.masqueraded }
        }
    };
    assert_eq!(seen.mark, packet.mark, "{packet:?}");
    end
}

fn fail(mode: &mut Iptables<Simulated>, world: &World, packet: &Packet, replay: &str) {
    let (expected, got) = (expected(world, packet), got(mode, world, packet));
    let door = mode.doors().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    let saved: Vec<String> =
        [Table::Filter, Table::Nat].into_iter().filter_map(|table| door.save(table).unwrap()).collect();
    panic!(
        "{replay} replays it\n{}\n{}\n{packet:?}\nexpected {expected:?}\ngot      {got:?}",
        world::show(&world.facts),
        saved.join("\n"),
    );
}
