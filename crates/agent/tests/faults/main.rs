//! A sync of a mid-sized change, with something going wrong at every point of it; see `story.rs` for what must hold.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod lost;
mod points;
mod probes;
mod real;
mod states;
mod storm;
mod story;
mod watched;
mod world;

use dataplane::{Dataplane, Scope};
use kernel::nft::{
    Chain, ChainKind, Family, Hook, HookPoint, Kernel, Match, Operation, Policy, Prefix, Rule, Side,
    Statement, Transaction, Verdict,
};
use kernel_sim::nft::Simulated;
use story::{Process, Story, Told};
use world::SERVICES;

/// At each write so many elements, spread over all, are refused for good.
const REFUSED_FOR_GOOD: usize = 6;
/// Enough for each kind of Service and of change to be there twice.
const FEWER: u16 = 20;
/// Each from a seed of its own.
const STORMS: u64 = 6;

fn tell(name: &str, story: &mut Story) {
    let points = story.calls().points(REFUSED_FOR_GOOD);
    tell_of(name, story, &points);
}

fn tell_of(name: &str, story: &mut Story, points: &[points::Point]) {
    let calls = story.calls();
    let tried = story.try_all(points);
    eprintln!(
        "counted: {name}: {} points tried at {} writes, {} listings and {} questions for the generation of the simulated \
         kernel; {} syncs failed, {} processes crashed, {} times a service port was withheld; {} states met, each asked \
         with {} packets",
        tried.points,
        calls.written.len(),
        calls.listings,
        calls.generations,
        tried.failed,
        tried.crashed,
        tried.withheld,
        tried.states,
        story.packets(),
    );
}

#[test]
fn whatever_goes_wrong_while_a_change_is_followed_no_packet_meets_a_third_table() {
    let mut story = Story::from_old(SERVICES, Told::WhatChanged, |process, _| process);
    tell("a change that is told", &mut story);
}

#[test]
fn whatever_goes_wrong_while_a_change_is_found_no_packet_meets_a_third_table() {
    let mut story = Story::from_old(FEWER, Told::Everything, |process, _| process);
    tell("a change that is found", &mut story);
}

/// Somebody else wrote to the kernel, so it is read.
#[test]
fn whatever_goes_wrong_while_the_kernel_is_compared_no_packet_meets_a_third_table() {
    let mut story = Story::from_old(FEWER, Told::Everything, |mut process, _| {
        let mut foreign = Transaction::new(Family::V4, "somebody");
        foreign.destroy_table();
        process.kernel().below().kernel.run(&foreign).unwrap();
        process
    });
    let points = story.calls().few();
    tell_of("a change on top of somebody else's", &mut story, &points);
}

/// A fresh process did not see how a refused service port was, so what the kernel holds stays.
#[test]
fn whatever_goes_wrong_after_a_restart_no_packet_meets_a_third_table() {
    let restart =
        |mut process: Process, _: &world::Change| story::start(process.kernel().below().kernel.clone());
    let mut story = Story::from_old(FEWER, Told::Everything, restart).restarted();
    tell("a change over a restart", &mut story);
}

/// Until a family's table is whole, nothing of it is in force.
#[test]
fn whatever_goes_wrong_at_a_cold_start_no_packet_meets_a_third_table() {
    let mut story = Story::from_kernel(FEWER, Simulated::default());
    tell("a cold start", &mut story);
}

#[test]
fn whatever_goes_wrong_at_a_take_over_no_packet_meets_a_third_table() {
    let mut story = Story::from_kernel(FEWER, of_somebody_else());
    tell("a take-over", &mut story);
}

#[test]
fn the_loop_comes_through_a_storm_of_changes_and_faults() {
    let mut seen = storm::Seen::default();
    for seed in 1..=STORMS {
        if let Err(why) = storm::live(seed, &mut seen) {
            panic!("storm {seed}: {why}");
        }
    }
    eprintln!("counted: {STORMS} storms on the simulated kernel: {seen:?}");
    assert!(seen.faults > 20 && seen.crashes > 2, "{seen:?}");
}

#[test]
fn a_lost_notification_is_made_good() {
    match lost::lose_each() {
        Ok(tried) => eprintln!("counted: {tried} ways to lose a notification"),
        Err(why) => panic!("{why}"),
    }
}

/// A crash while a fresh process mends what an earlier crash left.
#[test]
fn whatever_crashes_while_a_crash_is_made_good_no_packet_meets_a_third_table() {
    let first = Story::from_old(FEWER, Told::WhatChanged, |process, _| process).calls().crashes();
    let mut tried = 0;
    for point in first {
        let mut story = Story::from_old(FEWER, Told::Everything, |mut process, change| {
            point.arm(process.kernel());
            let _ = process.sync(&change.new, Scope::Changed(&change.ids));
            let _ = process.settle();
            assert!(process.kernel().is_dead(), "{point:?}");
            story::start(process.kernel().below().kernel.clone())
        });
        tried += story.try_all(&story.calls().crashes()).points;
    }
    eprintln!("counted: {tried} points tried in the sync after a crash, on the simulated kernel");
}

/// Tables of our name, in which somebody else drops what goes to some of our addresses.
fn of_somebody_else() -> Simulated {
    let mut kernel = Simulated::default();
    for family in Family::ALL {
        let mut theirs = Transaction::new(family, "kube-proxy");
        theirs.push(Operation::AddTable(Some("rules for kube-proxy".into())));
        let (kind, point) = (ChainKind::Filter, HookPoint::Prerouting);
        let hook = Hook { kind, point, priority: -200, policy: Policy::Accept };
        theirs.push(Operation::AddChain(Chain::base("theirs", hook)));
        let net = if family == Family::V4 { ("10.96.1.0", 29) } else { ("fd00:96::", 125) };
        let prefix = Prefix { address: net.0.parse().unwrap(), length: net.1 };
        let to = Statement::Match(Match::InPrefix { side: Side::Destination, prefix, not: false });
        theirs.push(Operation::AddRule(Rule::new("theirs", [to, Statement::Verdict(Verdict::Drop)])));
        kernel.run(&theirs).unwrap();
    }
    kernel
}

mod needs_root {
    use super::*;

    #[test]
    fn root_the_real_kernel_is_left_as_the_twin_is_whatever_goes_wrong() {
        let mut ground = match real::Ground::new(FEWER) {
            Ok(ground) => ground,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        let mut tried = 0;
        for told in [Told::WhatChanged, Told::Everything] {
            for point in ground.calls(told).few() {
                if let Err(why) = ground.try_one(&point, told) {
                    panic!("{point:?}, {told:?}: {why}");
                }
                tried += 1;
            }
        }
        eprintln!(
            "counted: {tried} points tried on the real kernel, {} syncs refused; {} times it listed what the twin lists",
            ground.refused_by_the_kernel, ground.listings
        );
    }
}
