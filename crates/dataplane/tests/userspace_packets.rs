//! Random clusters, random packets: through rules that followed many changes, to a listener, to where the model says.
//!
//! `PORTWAY_PACKETS` asks for more of them, `PORTWAY_SEED` for others; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod twin;
mod userspace_ends;
mod world;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use dataplane::relay;
use dataplane::userspace::{Options, Userspace};
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;
use model::{Packet, Protocol};
use twin::End;
use userspace_ends::{Ends, direct, expected, got};
use world::World;

const PACKETS: u64 = 100_000;
const STEPS: u64 = 25;
const PACKETS_PER_STEP: u64 = 50;

type Mode = Userspace<Simulated, relay::Simulated>;

#[test]
fn rules_and_listeners_that_followed_changes_send_random_packets_where_the_model_says() {
    let packets = number("PORTWAY_PACKETS").unwrap_or(PACKETS);
    let clusters = packets.div_ceil(STEPS * PACKETS_PER_STEP);
    let first = number("PORTWAY_SEED").unwrap_or(1);
    let (mut sent, mut landed, mut refused, mut dialled) = (0, 0, 0, 0);
    for seed in first..first + clusters {
        let mut world = World::new(seed);
        let mut mode = mode(Variant::ALL[usize::from(seed % 2 == 0)]);
        for step in 0..STEPS {
            let delta = world.step();
            let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
            mode.sync(&world.table, Scope::Changed(&ids)).unwrap();
            let replay = format!("PORTWAY_SEED={seed} PORTWAY_PACKETS=1, step {step}");
            for _ in 0..PACKETS_PER_STEP {
                let packet = world.packet();
                let ends = of_packet(&mut mode, &world, &packet);
                if ends != Ok(expected(&world.table, &packet)) {
                    fail(&mut mode, &world, &packet, &replay);
                }
                let end = ends.unwrap().into_keys().next();
                sent += 1;
                landed += u64::from(matches!(end, Some(End::At { .. })));
                refused += u64::from(matches!(end, Some(End::Rejected | End::Dropped)));
            }
            dialled += no_port_of_ours_answers_directly(&mut mode, &world, &replay);
        }
    }
    eprintln!(
        "counted: {sent} random packets through the userspace twin over {clusters} clusters, seed {first}: {landed} landed, \
         {refused} refused; {dialled} direct ones to our own ports, all refused"
    );
    assert!(packets < PACKETS || (landed > packets / 10 && refused > packets / 100), "{landed} {refused}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the variable must be a number"))
}

fn mode(variant: Variant) -> Mode {
    let doors = Family::ALL.map(|family| Simulated::new(variant, family));
    Userspace::new(doors, relay::Simulated::default(), Options::default())
}

fn of_packet(mode: &mut Mode, world: &World, packet: &Packet) -> Result<Ends, String> {
    let relay = mode.relays().clone();
    let door = mode.doors().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    got(door, &relay, world.table.node(), packet)
}

/// Whoever dials them would go around source ranges.
fn no_port_of_ours_answers_directly(mode: &mut Mode, world: &World, replay: &str) -> u64 {
    let mut dialled = 0;
    for (id, port) in mode.ports().clone().iter() {
        let of_family = |ip: &&IpAddr| model::Family::of(**ip) == id.family;
        let Some(own) = world.table.node().addresses.iter().find(of_family).copied() else { continue };
        let source = if own.is_ipv4() { "203.0.113.77" } else { "2001:db8::77" };
        let packet = direct(id.port.protocol, SocketAddr::new(own, port), source.parse().unwrap());
        let ends = of_packet(mode, world, &packet);
        assert_eq!(ends, Ok(Ends::from([(End::Rejected, (1, 1))])), "{replay}: {id}");
        dialled += 1;
    }
    dialled
}

fn fail(mode: &mut Mode, world: &World, packet: &Packet, replay: &str) {
    let (expected, got) = (expected(&world.table, packet), of_packet(mode, world, packet));
    let door = mode.doors().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    let saved: Vec<String> =
        [Table::Filter, Table::Nat].into_iter().filter_map(|table| door.save(table).unwrap()).collect();
    panic!(
        "{replay} replays it\n{}\n{}\n{packet:?}\nexpected {expected:?}\ngot      {got:?}",
        world::show(&world.facts),
        saved.join("\n"),
    );
}

#[test]
fn sctp_is_refused_by_name_and_nothing_leads_anywhere() {
    let mut seen = 0;
    for seed in 1..40 {
        let world = World::new(seed);
        let mut mode = mode(Variant::Nft);
        let synced = mode.sync(&world.table, Scope::Everything).unwrap();
        let is_sctp = |port: &&std::sync::Arc<model::ServicePort>| port.id().protocol == Protocol::Sctp;
        let served = world.table.ports().filter(is_sctp).filter(|port| !port.routes.is_empty());
        let named: BTreeSet<_> = served.map(|port| port.id()).collect();
        assert_eq!(synced.refused.keys().collect::<BTreeSet<_>>(), named);
        assert!(synced.refused.values().all(|reason| reason.contains("cannot carry SCTP")), "{synced:?}");
        for door in mode.doors() {
            for table in [Table::Filter, Table::Nat] {
                let text = door.save(table).unwrap().unwrap();
                assert!(!text.contains("sctp"), "{text}");
            }
        }
        seen += named.len();
    }
    assert!(seen > 10, "{seen}");
}
