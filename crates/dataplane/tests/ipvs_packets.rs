//! Random clusters, random packets: through rules, sets and virtual servers that followed many changes, to where the model says.
//!
//! `PORTWAY_PACKETS` asks for more of them, `PORTWAY_SEED` for others; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod ipvs_ends;
mod twin;
mod world;

use std::collections::BTreeSet;

use dataplane::{Dataplane, Scope};
use ipvs_ends::{Mode, expected, is_beyond, mode, of_packet, shown};
use kernel::xtables::{Table, Variant, Xtables};
use model::Packet;
use twin::End;
use world::World;

const PACKETS: u64 = 100_000;
const STEPS: u64 = 25;
const PACKETS_PER_STEP: u64 = 50;

#[test]
fn what_followed_changes_sends_random_packets_where_the_model_says() {
    let packets = number("PORTWAY_PACKETS").unwrap_or(PACKETS);
    let clusters = packets.div_ceil(STEPS * PACKETS_PER_STEP);
    let first = number("PORTWAY_SEED").unwrap_or(1);
    let (mut sent, mut landed, mut refused, mut beyond) = (0, 0, 0, 0);
    for seed in first..first + clusters {
        let mut world = World::new(seed);
        let mut mode = mode(Variant::ALL[usize::from(seed % 2 == 0)]);
        for step in 0..STEPS {
            let delta = world.step();
            let ids: BTreeSet<_> = delta.before.keys().cloned().collect();
            let synced = mode.sync(&world.table, Scope::Changed(&ids)).unwrap();
            assert!(synced.refused.is_empty(), "{:?}", synced.refused);
            let replay = format!("PORTWAY_SEED={seed} PORTWAY_PACKETS=1, step {step}");
            for _ in 0..PACKETS_PER_STEP {
                let mut packet = world.packet();
                while is_beyond(&world.table, &packet) {
                    beyond += 1;
                    packet = world.packet();
                }
                let ends = of_packet(&mut mode, &world.table, &packet);
                if ends != Ok(expected(&world.table, &packet)) {
                    fail(&mut mode, &world, &packet, &replay);
                }
                let end = ends.unwrap().into_keys().next();
                sent += 1;
                landed += u64::from(matches!(end, Some(End::At { .. })));
                refused += u64::from(matches!(end, Some(End::Rejected | End::Dropped)));
            }
        }
    }
    eprintln!(
        "counted: {sent} random packets through the IPVS twin over {clusters} clusters, seed {first}: {landed} landed, \
         {refused} refused; {beyond} more could land at an address that this host has for a Service"
    );
    assert!(beyond <= packets / 10, "{beyond}");
    assert!(packets < PACKETS || (landed > packets / 10 && refused > packets / 100), "{landed} {refused}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the variable must be a number"))
}

fn fail(mode: &mut Mode, world: &World, packet: &Packet, replay: &str) {
    let (expected, got) = (expected(&world.table, packet), of_packet(mode, &world.table, packet));
    let held = shown(mode.doors());
    let door = mode.programs().nth(usize::from(packet.destination.is_ipv6())).unwrap();
    let saved: Vec<String> = [Table::Mangle, Table::Filter, Table::Nat]
        .into_iter()
        .filter_map(|table| door.save(table).unwrap())
        .collect();
    panic!(
        "{}\n{}\n{}\n{replay} replays it\n{packet:?}\nexpected {expected:?}\ngot      {got:?}\n{:?}",
        world::show(&world.facts),
        saved.join("\n"),
        held.join("\n"),
        world.table.node(),
    );
}
