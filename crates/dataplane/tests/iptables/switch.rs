//! A switch from one iptables program to the other that fails at any restore: the next try ends it.
use dataplane::upstream;
use dataplane::xtables::sim::errors;
use kernel::xtables::Found;
use kernel_sim::xtables::{Fault, Faulty, WHOLE};

use super::*;

#[test]
fn a_switch_of_programs_that_fails_anywhere_is_ended_by_the_next_try() {
    let mut world = World::new(22);
    world.change(8);
    let doors = Family::ALL.map(|family| Faulty::new(Simulated::new(Variant::Legacy, family)));
    let mut old = Iptables::new(doors, Options::default());
    everything(&mut old, &world.table);
    let whole = all_in_force(old.doors());
    let mut points = 0;
    for at in 0..2 {
        for n in 0..3 {
            for error in errors(None) {
                for parts in [0, WHOLE] {
                    let doors: Vec<_> = old.doors().map(|door| Faulty::new(door.below().clone())).collect();
                    let mut found = Found { programs: doors, ..Found::default() };
                    found.legacy = Family::ALL.map(Into::into).to_vec();
                    found.programs[at].on_restore(n, Fault { parts, answer: Some(error.clone()) });
                    let done = take_over(&mut found);
                    let left = all_in_force(found.programs.iter_mut());
                    assert!(left.len() < whole.len(), "one family goes, whatever becomes of the other");
                    // A refusal is looked at a second time at once.
                    let is_refused = matches!(error, Error::Refused { .. });
                    assert_eq!(done.problems.is_empty(), is_refused, "{done:?}");
                    take_over(&mut found);
                    assert_eq!(all_in_force(found.programs.iter_mut()), Vec::<String>::new());
                    assert_eq!(take_over(&mut found), upstream::TakeOver::default());
                    points += 1;
                }
            }
        }
    }
    eprintln!("counted: {points} faults of a switch from iptables-legacy to iptables-nft");
}

fn take_over(found: &mut Found<Faulty<Simulated>>) -> upstream::TakeOver {
    let ours = upstream::Ours { variant: Variant::Nft, chains: dataplane::iptables::MODE.chains().unwrap() };
    upstream::take_over(known_chains(), found, &mut kernel_sim::nft::Simulated::default(), Some(ours))
}

/// The chains of ours that are there.
fn all_in_force<'a>(doors: impl Iterator<Item = &'a mut Faulty<Simulated>>) -> Vec<String> {
    let all = [Table::Filter, Table::Nat, Table::Mangle];
    let tables = doors.flat_map(|door| all.map(|table| door.below().save(table).unwrap())).flatten();
    let names = tables.flat_map(|text| Saved::parse(&text).chains).map(|chain| chain.name);
    names.filter(|name| name.starts_with("KUBE-")).collect()
}
