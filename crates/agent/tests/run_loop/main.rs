//! The loop of `portway run`, driven by a clock of its own on the simulated kernel.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod adoption;
mod draining;
mod drift;
mod errands;
mod every_mode;
mod health;
mod preconditions;
mod rechoice;
mod server;
mod sim;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent::{Event, Line};
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope, ServicePortIds, SyncError, Synced};
use kernel::nft::{Family, Kernel as _, Operation, Transaction};
use kernel_sim::nft::Simulated;
use model::{ForwardingTable, ServicePortId};
use observe::picture::Picture;
use observe::question::{Answer, Question};
use serde_json::json;
use standalone::objects::{Change, Kind, Object};

use sim::*;

#[test]
fn the_first_sync_is_full_and_says_so() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    assert_eq!(sim.syncs, [(ms(0), Scope::Everything)]);
    assert!(sim.told[0].starts_with("portway is in sync: 1 service ports, "), "{:?}", sim.told);
    assert_eq!(sim.told.len(), 1);
    assert!(sim.status().is_in_sync);
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn a_single_change_is_written_at_once_and_alone() {
    let mut sim = sim();
    sim.files(vec![service("web"), service("other"), endpoints("web", 1, 2), endpoints("other", 9, 1)]);
    sim.pass(ms(5000));
    sim.files(vec![endpoints("web", 1, 3)]);
    assert_eq!(sim.syncs.last().unwrap().0, ms(5001), "no time passed");
    assert_eq!(changed(sim.last_work()), ["default/web/tcp"]);
    assert_eq!(sim.told.len(), 1, "being in sync is told once");
}

#[test]
fn nothing_new_writes_nothing() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(5000));
    sim.files(vec![endpoints("web", 1, 2)]);
    sim.files(Vec::new());
    sim.feed(Event::AddressesChanged(host("192.0.2.1")));
    assert_eq!(sim.syncs.len(), 1);
}

#[test]
fn a_change_of_the_primary_address_is_logged_with_old_and_new_and_shown_in_the_status() {
    let mut sim = sim();
    sim.feed(Event::AddressesChanged(host("192.0.2.1")));
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1000));
    let changes = |sim: &Sim<_>| {
        let is_change = |line: &&Line| matches!(line, Line::PrimaryAddress { .. });
        sim.lines.iter().filter(is_change).cloned().collect::<Vec<_>>()
    };
    assert_eq!(changes(&sim), [], "before the source was read, a Node object may still come");
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.feed(Event::AddressesChanged(host("192.0.2.3")));
    let (old, new) = ("192.0.2.2".parse().unwrap(), "192.0.2.3".parse().unwrap());
    assert_eq!(changes(&sim), [Line::PrimaryAddress { old, new: Some(new) }]);
    assert_eq!(sim.status().primary_addresses, [new]);
}

#[test]
fn a_storm_of_a_thousand_changes_is_written_in_few_syncs() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(5000));
    for n in 0..1000_u16 {
        sim.files(vec![endpoints("web", 1, 1 + u8::try_from(n % 100).unwrap())]);
        sim.pass(ms(1));
    }
    sim.pass(ms(1000));
    let (syncs, status) = (sim.syncs.len(), sim.status());
    assert!((10..=30).contains(&syncs), "{syncs} syncs");
    assert!(status.is_in_sync, "{status:#?}");
    assert_eq!(sim.differences(), [""; 0]);
    let gaps = sim.syncs.windows(2).skip(1).map(|pair| pair[1].0.checked_sub(pair[0].0 + SYNC).unwrap());
    assert!(gaps.clone().all(|gap| gap >= ms(50)), "{:?}", gaps.collect::<Vec<_>>());
}

#[test]
fn nothing_stale_is_removed_before_the_source_was_read() {
    let mut before = sim();
    before.files(vec![service("web"), service("old"), endpoints("web", 1, 2), endpoints("old", 7, 1)]);
    before.pass(ms(1000));
    let left = before.listed();
    let mut sim = sim_on(Nftables::new(before.dataplane.kernel().clone(), Options::default()));
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.feed(Event::Tick);
    sim.pass(ms(120_000));
    assert_eq!((sim.syncs.len(), sim.listed()), (0, left));
    assert!(!sim.status().is_in_sync);
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1000));
    assert_eq!(changed(sim.last_work()), ["everything"]);
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn a_refused_transaction_is_retried_with_growing_patience_and_in_full() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(5000));
    let good = sim.listed();
    sim.dataplane.kernel().refuse_next(5, libc::EBUSY);
    sim.files(vec![endpoints("web", 5, 2)]);
    let status = sim.status();
    assert_eq!(status.failures.in_a_row, 1);
    assert_eq!(status.failures.retry_in_ms, Some(100));
    assert!(!status.is_in_sync);
    assert!(status.failures.last.unwrap().contains("EBUSY"));
    assert_eq!(sim.listed(), good, "the last good rules stay");
    sim.pass(ms(10_000));
    let tried: Vec<u128> = sim.syncs[1..].iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(tried[..6], [5001, 5102, 5303, 5704, 6505, 8106]);
    assert!(sim.syncs[2..].iter().all(|(_, work)| *work == Scope::Everything));
    let status = sim.status();
    assert_eq!((status.failures.in_a_row, status.failures.total), (0, 5));
    assert!(status.is_in_sync, "{status:#?}");
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn news_is_not_kept_waiting_by_old_failures() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(5000));
    sim.dataplane.kernel().refuse_next(1_000, libc::ENOMEM);
    sim.files(vec![endpoints("web", 5, 2)]);
    for _ in 0..10_000 {
        if sim.status().failures.in_a_row < 10 {
            sim.pass(ms(100));
        }
    }
    assert!(sim.status().failures.retry_in_ms.unwrap() > 20_000);
    sim.dataplane.kernel().stop_refusing();
    sim.files(vec![endpoints("web", 9, 2)]);
    sim.pass(ms(1100));
    assert!(sim.status().is_in_sync);
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn what_somebody_else_did_is_put_right_and_said() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(60_000));
    let repaired = |line: &Line| matches!(line, Line::Repaired { .. });
    assert!(!sim.lines.iter().any(repaired), "{:?}", sim.lines);
    let mut foreign = Transaction::new(Family::V4, "kube-proxy");
    foreign.push(Operation::FlushSet("endpoints".into()));
    sim.dataplane.kernel().run(&foreign).unwrap();
    sim.pass(ms(60_000));
    assert_eq!(sim.lines.iter().filter(|line| repaired(line)).count(), 1, "{:?}", sim.lines);
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn what_packets_on_their_way_may_need_is_deleted_a_little_later() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 4)]);
    sim.pass(ms(5000));
    sim.files(vec![endpoints("web", 1, 1)]);
    assert_eq!(sim.slots(), 4, "a packet may have drawn one of them already");
    let settled = sim.settled;
    sim.pass(ms(10));
    assert_eq!((sim.settled, sim.slots()), (settled + 1, 1));
    sim.pass(ms(10_000));
    assert_eq!(sim.settled, settled + 1, "and that is all");
}

#[test]
fn deletions_that_failed_are_found_by_the_next_full_pass() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 4)]);
    sim.pass(ms(5000));
    sim.files(vec![endpoints("web", 1, 1)]);
    sim.dataplane.kernel().refuse_next(1, libc::EBUSY);
    sim.pass(ms(10));
    assert_eq!(sim.status().failures.in_a_row, 1);
    sim.pass(ms(1000));
    assert_eq!(changed(sim.last_work()), ["everything"]);
    assert!(sim.status().is_in_sync);
    assert_eq!(sim.slots(), 1);
}

#[test]
fn everything_is_compared_every_half_minute() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1000));
    let mut foreign = kernel::nft::Transaction::new(Family::V4, "kube-proxy");
    foreign.push(kernel::nft::Operation::FlushSet("frontends".into()));
    sim.dataplane.kernel().run(&foreign).unwrap();
    sim.pass(ms(28_000));
    assert_eq!(sim.syncs.len(), 1);
    sim.pass(ms(3000));
    assert_eq!(changed(sim.last_work()), ["everything"]);
    assert_eq!(sim.differences(), [""; 0]);
    sim.pass(ms(60_000));
    assert_eq!(sim.syncs.len(), 4);
}

#[test]
fn addresses_of_the_host_are_followed() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1000));
    assert_eq!(sim.state.table().node().primary.v4, Some("192.0.2.1".parse().unwrap()));
    sim.feed(Event::AddressesChanged(host("192.0.2.99")));
    assert_eq!(sim.state.table().node().primary.v4, Some("192.0.2.99".parse().unwrap()));
    assert_eq!((sim.syncs.len(), changed(sim.last_work())), (2, Vec::new()), "no route is different");
    sim.pass(ms(1000));
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn a_node_in_the_files_describes_this_host_until_it_goes() {
    let mut sim = sim();
    let node = apply(
        Kind::Node,
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
                "status": { "addresses": [{ "type": "InternalIP", "address": "198.51.100.7" }] } }),
    );
    let Change::Apply(Object { key, .. }) = &node else { unreachable!("it is applied") };
    let (gone, primary) =
        (Change::Delete(key.clone()), |sim: &Sim<Nftables<Simulated>>| sim.state.table().node().primary.v4);
    sim.files(vec![node]);
    assert_eq!(primary(&sim), Some("198.51.100.7".parse().unwrap()));
    sim.feed(Event::AddressesChanged(host("192.0.2.5")));
    assert_eq!(primary(&sim), Some("198.51.100.7".parse().unwrap()));
    sim.files(vec![gone]);
    assert_eq!(primary(&sim), Some("192.0.2.5".parse().unwrap()));
}

#[test]
fn a_service_port_that_the_kernel_refuses_is_shown() {
    let mut sim = sim_on(Picky::default());
    sim.files(vec![service("web"), service("bad")]);
    let status = sim.status();
    assert_eq!(
        status.refused,
        BTreeMap::from([("default/bad/tcp".to_owned(), "the set is full".to_owned())])
    );
    assert_eq!(status.failures.in_a_row, 0);
    let logged =
        |sim: &Sim<Picky>| sim.lines.iter().filter(|line| matches!(line, Line::Refused { .. })).count();
    assert_eq!(logged(&sim), 1);
    sim.pass(ms(1000));
    sim.files(vec![endpoints("web", 1, 1)]);
    assert_eq!(sim.status().refused.len(), 1, "another service port's sync says nothing of it");
    sim.pass(ms(60_000));
    assert_eq!(logged(&sim), 1, "a full pass that is refused the same is no news");
    sim.dataplane.is_kind = true;
    sim.pass(ms(60_000));
    assert_eq!(sim.status().refused.len(), 0);
}

/// A dataplane that refuses the service `bad`.
#[derive(Default)]
struct Picky {
    is_kind: bool,
}

impl Dataplane for Picky {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let about: BTreeSet<ServicePortId> = match scope {
            Scope::Everything | Scope::AllThatIsKnown => {
                desired.ports().map(|port| port.id().clone()).collect()
            }
            Scope::Changed(ids) => ids.clone(),
        };
        let bad = about.into_iter().filter(|id| id.service.name() == "bad" && !self.is_kind);
        let refused = bad.map(|id| (id, "the set is full".to_owned())).collect();
        Ok(Synced { was_full: matches!(scope, Scope::Everything), refused, ..Synced::default() })
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, _: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        Ok(Vec::new())
    }
}

#[test]
fn whoever_asks_sees_the_same_picture() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    let Answer::Picture(snapshot) = sim.ask(Question::Picture) else { panic!("a picture was asked for") };
    let picture = Picture::of(*snapshot.clone());
    assert_eq!(picture.table(), sim.state.table());
    assert_eq!(picture.snapshot(), *snapshot);
    let Answer::Status(status) = sim.ask(Question::Status) else { panic!("the status was asked for") };
    assert_eq!((status.services, status.service_ports, &*status.mode), (1, 1, "nftables"));
}

#[test]
fn a_question_disturbs_no_timer() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 4)]);
    sim.pass(ms(1000));
    let wake_at = sim.wake_at;
    sim.ask(Question::Status);
    assert_eq!((sim.wake_at, sim.syncs.len()), (wake_at, 1));
}

#[test]
fn ending_leaves_the_rules_in_place() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    let rules = sim.listed();
    sim.feed(Event::Stop("SIGTERM"));
    assert!(sim.has_exited);
    assert_eq!(sim.lines.last(), Some(&Line::Stopping("SIGTERM")));
    assert_eq!((sim.syncs.len(), sim.listed()), (1, rules));
}

#[test]
fn a_feed_that_is_gone_ends_the_process_and_leaves_the_rules() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    let rules = sim.listed();
    sim.feed(Event::FeedEnded("files"));
    assert!(sim.has_exited);
    assert_eq!((sim.syncs.len(), sim.listed()), (1, rules));
}

#[test]
fn addresses_that_cannot_be_given_hold_back_nothing_and_are_tried_again() {
    let folder = std::env::temp_dir().join(format!("portway-run-loop-{}", std::process::id()));
    let mut sim = sim_with(&folder, false, Nftables::new(Simulated::default(), Options::default()));
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1000));
    let rules = sim.listed();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "no folder any more").unwrap();
    sim.files(vec![service("more")]);
    let is_told = |line: &&Line| matches!(line, Line::AllocationWaits { services, .. } if services == &["default/more"]);
    assert_eq!(sim.lines.iter().filter(is_told).count(), 1, "{:?}", sim.lines);
    sim.pass(ms(20));
    assert_eq!(sim.listed(), rules);
    sim.files(vec![endpoints("web", 1, 3)]);
    sim.pass(ms(60));
    assert_eq!(changed(sim.last_work()), ["default/web/tcp"], "endpoints of others go on at once");
    assert_eq!(sim.differences(), [""; 0]);
    let status = sim.status();
    let waiting: Vec<&str> = status.waiting_for_addresses.keys().map(String::as_str).collect();
    assert_eq!((waiting, status.failures.in_a_row), (vec!["default/more"], 0), "{status:#?}");
    assert_eq!(sim.lines.iter().filter(is_told).count(), 1, "it is told once");
    std::fs::remove_file(&folder).unwrap();
    sim.pass(ms(5000));
    let status = sim.status();
    assert_eq!((status.failures.in_a_row, status.service_ports), (0, 2), "{status:#?}");
    assert!(status.is_in_sync && status.waiting_for_addresses.is_empty(), "{status:#?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_problem_with_a_file_is_logged_once() {
    use standalone::objects::{Origin, Problem};
    let mut sim = sim();
    let origin = Origin { file: Path::new("a.yaml").into(), line: 3 };
    let problems = vec![Problem { origin, message: "is wrong".into() }];
    for _ in 0..3 {
        sim.feed(Event::FilesChanged { changes: Vec::new(), problems: problems.clone(), is_complete: true });
    }
    let logged = sim.lines.iter().filter(|line| **line == Line::Problem("a.yaml:3: is wrong".into())).count();
    assert_eq!(logged, 1);
    assert_eq!(sim.status().problems, ["a.yaml:3: is wrong"]);
}
