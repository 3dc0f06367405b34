//! Another mode, or another program, takes the place of the one that runs, while traffic runs and connections are open: nobody
//! notices, and nothing of the one before is left.
//!
//! The tour is that of an operator who changes `--mode` on one node after the other.

use std::collections::BTreeSet;
use std::process::Command;

use kernel::ipvs::{Ipvs as _, Netlink};
use kernel::xtables::{Programs, Table, Variant, Xtables};
use playground::plan::NODES;

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::way::{Rules, Way};

use super::ALL;
use super::live::Traffic;
use super::restart::Open;

/// So often all ways are gone.
const ROUNDS: usize = 3;
const TABLES: [Table; 3] = [Table::Nat, Table::Filter, Table::Mangle];

pub(crate) fn root_switching_between_modes_and_programs_disturbs_nobody(setting: &Setting) {
    if !Way::by_kernel().all(Way::is_available) {
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
    let others = Way::by_kernel().filter(|way| *way != home);
    let tour: Vec<Way> = others.chain([home]).collect();
    for way in tour.iter().cycle().take(ROUNDS * tour.len()) {
        restart_all(&mut stage, *way, &traffic);
        held.talk();
    }
    // Who came last not only found the rules of an earlier life, but also writes its own.
    stage.apply(&web.clone().on(&ALL[..2]));
    traffic.until_enough();
    traffic.end(&stage);
    held.still_talk();
}

/// Both nodes go on in another way, one after the other, and leave nothing of the former one.
fn restart_all(stage: &mut Stage, way: Way, traffic: &Traffic) {
    stage.go(way);
    for node in NODES {
        stage.terminate(node);
        traffic.go_on();
        stage.start(node);
        stage.wait_for_sync(node);
        traffic.go_on();
        only(stage, node);
        traffic.go_on();
    }
}

/// From rules of iptables, of either program, to the nftables mode of an image that has no program, and back.
pub(crate) fn root_switching_to_an_image_without_programs_disturbs_nobody(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.hiding_programs().stage(&[&web]) else { return };
    let mut held = Open::start(&stage, &web);
    let traffic = Traffic::start(&stage, &web);
    for way in [Way::without_program(), stage.way()].into_iter().cycle().take(2 * ROUNDS) {
        restart_all(&mut stage, way, &traffic);
        held.talk();
    }
    traffic.until_enough();
    traffic.end(&stage);
    held.still_talk();
}

/// A node has the rules of its own way alone. Virtual servers stay while they have connections.
pub(crate) fn rules_are_of(stage: &Stage, node: &str) -> bool {
    let (wanted, has_servers) = (stage.way().rules(), stage.way().has_virtual_servers());
    let mut found = written(stage, node);
    found.retain(|rules| *rules != Rules::VirtualServers || has_servers);
    found == BTreeSet::from_iter(wanted) && has_ipvs_chains(stage, node) == has_servers
}

fn has_ipvs_chains(stage: &Stage, node: &str) -> bool {
    let is_there = || {
        let mut doors = Programs::find().programs;
        doors.iter_mut().any(|door| {
            TABLES
                .into_iter()
                .any(|table| door.save(table).unwrap().is_some_and(|text| text.contains("PORTWAY-")))
        })
    };
    stage.place(node).run(is_there).unwrap()
}

/// A node comes to have the rules of its own way, and of no other.
fn only(stage: &Stage, node: &str) {
    let wanted = BTreeSet::from_iter(stage.way().rules());
    until(&format!("node {node} has rules of {} alone", stage.way()), || written(stage, node) == wanted);
}

/// The rules that a node has, of those that a way writes.
fn written(stage: &Stage, node: &str) -> BTreeSet<Rules> {
    let is_there = |rules: &Rules| match rules {
        Rules::VirtualServers => has_servers(),
        Rules::Table(name) => has_table(name),
        Rules::Chains(program) => has_chains(*program),
    };
    let all: BTreeSet<Rules> = Way::all().filter_map(Way::rules).collect();
    stage.place(node).run(|| all.into_iter().filter(is_there).collect()).unwrap()
}

/// Are there virtual servers?
fn has_servers() -> bool {
    Netlink::open().is_ok_and(|mut door| !door.virtual_servers().unwrap().is_empty())
}

/// Is there a table of this name, of either family?
fn has_table(name: &str) -> bool {
    let output = Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line.rsplit(' ').next() == Some(name))
}

/// Has a program chains of the iptables mode, or jumps to them, in any table of either family?
fn has_chains(program: Variant) -> bool {
    let mut doors = Programs::find().programs;
    let mut doors = doors.iter_mut().filter(|door| door.variant() == program);
    // The IPVS mode has a canary of the same name.
    let canaries = if has_servers() { "KUBE-PROXY-CANARY" } else { "\n\n" };
    let has = |text: String| text.replace(canaries, "").contains("KUBE-");
    doors.any(|door| TABLES.into_iter().any(|table| door.save(table).unwrap().is_some_and(has)))
}
