//! Another mode, or another program, takes the place of the one that runs, while traffic runs and connections are open: nobody
//! notices, and nothing of the one before is left.
//!
//! The tour is that of an operator who changes `--mode` on one node after the other.

use std::process::Command;

use kernel::xtables::{Programs, Table, Xtables};
use playground::plan::NODES;

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::way::Way;

use super::ALL;
use super::live::Traffic;
use super::restart::Open;

/// So often all ways are gone.
const ROUNDS: usize = 3;
const TABLES: [Table; 3] = [Table::Nat, Table::Filter, Table::Mangle];

pub(crate) fn root_switching_between_modes_and_programs_disturbs_nobody(setting: &Setting) {
    if !Way::KERNEL.into_iter().all(Way::is_available) {
        return;
    }
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    for node in NODES {
        only(&stage, node);
    }
    let mut held = Open::start(&stage, &web);
    let traffic = Traffic::start(&stage, &web);
    let home = stage.way();
    let others = Way::KERNEL.into_iter().filter(|way| *way != home);
    let tour: Vec<Way> = others.chain([home]).collect();
    for way in tour.iter().cycle().take(ROUNDS * tour.len()) {
        stage.go(*way);
        for node in NODES {
            stage.terminate(node);
            traffic.go_on();
            stage.start(node);
            stage.wait_for_sync(node);
            traffic.go_on();
            only(&stage, node);
            traffic.go_on();
        }
        held.talk();
    }
    // Who came last not only found the rules of an earlier life, but also writes its own.
    stage.apply(&web.clone().on(&ALL[..2]));
    traffic.until_enough();
    traffic.end(&stage);
    held.still_talk();
}

/// A node comes to have the rules of its own way, and of no other.
fn only(stage: &Stage, node: &str) {
    let wanted = stage.way();
    until(&format!("node {node} has rules of {wanted} alone"), || written(stage, node) == [wanted]);
}

/// The ways whose rules a node has.
fn written(stage: &Stage, node: &str) -> Vec<Way> {
    let has_rules = |way: &Way| way.program().map_or_else(has_table, |_| has_chains(*way));
    stage.place(node).run(|| Way::KERNEL.into_iter().filter(has_rules).collect()).unwrap()
}

/// Is there a table of the nftables mode, of either family?
fn has_table() -> bool {
    let output = Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line.ends_with(" kube-proxy"))
}

/// Has a program chains of the iptables mode, or jumps to them, in any table of either family?
fn has_chains(way: Way) -> bool {
    let mut doors = Programs::find().programs;
    let mut doors = doors.iter_mut().filter(|door| Some(door.variant()) == way.program());
    doors.any(|door| {
        TABLES.into_iter().any(|table| door.save(table).unwrap().is_some_and(|text| text.contains("KUBE-")))
    })
}
