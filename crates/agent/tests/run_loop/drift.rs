//! Others write to our tables: put right at once, named, and never a war.

use agent::{Event, Line};
use dataplane::nftables::sim::Nftables;
use dataplane::{Meddled, Scope};
use kernel::nft::{Family, Kernel as _, Operation, Transaction};
use kernel_sim::nft::Simulated;

use crate::sim::{Sim, endpoints, ms, service, sim, sim_glancing};

fn in_sync() -> Sim<Nftables<Simulated>> {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1_000));
    sim
}

impl Sim<Nftables<Simulated>> {
    /// Somebody empties a map of ours, and the kernel tells of it.
    fn meddle(&mut self, program: &str) {
        self.meddle_in_silence();
        self.feed(Event::Meddled(Meddled::By { program: program.to_owned(), process: 4711 }));
    }

    fn meddle_in_silence(&mut self) {
        let mut transaction = Transaction::new(Family::V4, "kube-proxy");
        transaction.push(Operation::FlushSet("frontends".into()));
        self.dataplane.kernel().run(&transaction).unwrap();
    }

    fn wars(&self) -> Vec<&String> {
        let wars = self.lines.iter();
        wars.filter_map(|line| if let Line::War { program } = line { Some(program) } else { None }).collect()
    }
}

#[test]
fn what_is_heard_is_put_right_at_once_counted_and_blamed() {
    let mut sim = in_sync();
    let (before, now) = (sim.syncs.len(), sim.now);
    sim.meddle("nft");
    assert_eq!(sim.syncs[before..], [(now, Scope::Everything)], "no time passed");
    assert_eq!(sim.differences(), [""; 0]);
    let status = sim.status();
    assert_eq!((status.drift.repairs, status.drift.heard), (1, 1));
    assert_eq!(status.drift.last.unwrap().by.as_deref(), Some("nft (process 4711)"));
    let by = Some("nft (process 4711)".to_owned());
    assert!(sim.lines.contains(&Line::Repaired { operations: 1, by }), "{:?}", sim.lines);
}

#[test]
fn a_foreign_write_that_harms_nothing_is_no_repair() {
    let mut sim = in_sync();
    let mut transaction = Transaction::new(Family::V4, "others");
    transaction.push(Operation::AddTable(None));
    sim.dataplane.kernel().run(&transaction).unwrap();
    sim.feed(Event::Meddled(Meddled::By { program: "nft".into(), process: 1 }));
    assert_eq!(sim.status().drift.repairs, 0);
}

#[test]
fn own_writes_are_no_drift() {
    let mut sim = in_sync();
    for turn in 0..100 {
        sim.files(vec![endpoints("web", 1, 2 + turn % 3)]);
        sim.pass(ms(1_000));
    }
    let drift = sim.status().drift;
    assert_eq!((drift.repairs, drift.heard, drift.last), (0, 0, None));
}

#[test]
fn a_lost_notification_leads_to_one_full_compare() {
    let mut sim = in_sync();
    let before = sim.syncs.len();
    sim.meddle_in_silence();
    for _ in 0..50 {
        sim.feed(Event::Meddled(Meddled::Unknown));
    }
    assert_eq!(sim.syncs[before..].iter().filter(|(_, work)| *work == Scope::Everything).count(), 1);
    assert_eq!(sim.differences(), [""; 0]);
    assert_eq!((sim.status().drift.repairs, sim.status().drift.lost), (1, 50));
    // However many were lost, the next loss is compared at once.
    sim.pass(ms(12_000));
    sim.meddle_in_silence();
    sim.feed(Event::Meddled(Meddled::Unknown));
    sim.pass(ms(100));
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn while_somebody_fights_for_our_tables_we_are_not_in_sync_and_say_why() {
    let mut sim = in_sync();
    for _ in 0..5 {
        sim.meddle("rival");
        sim.pass(ms(100));
    }
    let status = sim.status();
    assert!(!status.is_in_sync, "{status:#?}");
    let because = status.pending.because.unwrap();
    assert!(
        because.starts_with("rival (process 4711) changed our tables: that is put right in "),
        "{because}"
    );
    sim.pass(ms(11_000));
    assert!(sim.status().is_in_sync);
    sim.pass(ms(60_000));
    assert_eq!(sim.status().drift.fighting, [""; 0], "a war that is over is not told");
}

#[test]
fn what_nobody_told_is_found_within_half_a_minute() {
    let mut sim = in_sync();
    sim.meddle_in_silence();
    sim.pass(ms(31_000));
    assert_eq!(sim.differences(), [""; 0]);
    assert_eq!(sim.status().drift.last.unwrap().by, None);
}

#[test]
fn a_writer_that_comes_back_and_back_is_named_once_and_waited_for() {
    let mut sim = in_sync();
    // Ten times a second, for a minute.
    for _ in 0..600 {
        sim.meddle("rival");
        sim.pass(ms(100));
    }
    assert_eq!(sim.wars(), ["rival"]);
    let repairs = sim.status().drift.repairs;
    assert!((6..=12).contains(&repairs), "{repairs} repairs in a minute");
    assert_eq!(sim.status().drift.fighting, ["rival"]);
    // It stops. What it did last is put right, and later it is forgotten.
    sim.pass(ms(11_000));
    assert_eq!(sim.differences(), [""; 0]);
    sim.pass(ms(30_000));
    sim.meddle("operator");
    assert_eq!(sim.differences(), [""; 0]);
    assert_eq!(sim.status().drift.fighting, [""; 0]);
}

#[test]
fn a_war_does_not_hold_back_what_is_new_on_our_side() {
    let mut sim = in_sync();
    for _ in 0..20 {
        sim.meddle("rival");
        sim.pass(ms(100));
    }
    assert_eq!(sim.wars(), ["rival"]);
    sim.files(vec![endpoints("web", 1, 5)]);
    sim.pass(ms(200));
    assert_eq!(sim.slots(), 5);
}

#[test]
fn a_touch_of_the_hosts_links_brings_the_glance_forward_but_at_most_once_a_second() {
    let mut sim = sim_glancing(ms(5_000));
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(6_000));
    assert_eq!(sim.glances.len(), 1);
    sim.pass(ms(2_000));
    let before = sim.now;
    sim.is_flushed = true;
    let syncs = sim.syncs.len();
    sim.feed(Event::HostTouched);
    assert_eq!(sim.glances.last(), Some(&before), "at once");
    sim.pass(ms(10));
    assert_eq!(sim.syncs.len(), syncs + 1, "all is compared");
    sim.is_flushed = false;
    for _ in 0..50 {
        sim.feed(Event::HostTouched);
        sim.pass(ms(10));
    }
    assert_eq!(sim.glances.len(), 2, "links that come and go all the time cost one look a second");
    sim.pass(ms(1_000));
    assert_eq!(sim.glances.len(), 3);
}
