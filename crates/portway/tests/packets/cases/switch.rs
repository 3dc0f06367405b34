//! Another mode, or another program, takes the place of the one that runs, while traffic runs and connections are open: nobody
//! notices, and nothing of the one before is left.
//!
//! The tour is that of an operator who changes `--mode` on one node after the other.

use std::process::Command;

use kernel::ipvs::{Ipvs as _, Netlink};
use kernel::xtables::{Programs, Table, Xtables};
use playground::plan::NODES;
use playground::{Ask, Family, Held, Protocol};

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;
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
    for way in [Way::Nftables, stage.way()].into_iter().cycle().take(2 * ROUNDS) {
        restart_all(&mut stage, way, &traffic);
        held.talk();
    }
    traffic.until_enough();
    traffic.end(&stage);
    held.still_talk();
}

pub(crate) fn root_switching_from_ipvs_to_nftables_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::Nftables);
}

pub(crate) fn root_switching_from_ipvs_to_iptables_nft_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::IptablesNft);
}

pub(crate) fn root_switching_from_ipvs_to_iptables_legacy_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::IptablesLegacy);
}

/// One node after the other. What is open goes on, whichever mode opened it: a mode that comes after IPVS leaves virtual servers where
/// they are until their connections have ended. A UDP client that goes on from the same port is answered, too.
fn there_and_back(setting: &Setting, other: Way) {
    let web = Service::new("web", 1).on(&ALL);
    if !other.is_available() {
        return;
    }
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let mut held = vec![Open::start(&stage, &web)];
    let mut datagrams = datagrams(&stage, &web);
    let traffic = Traffic::start(&stage, &web);
    for way in [other, Way::Ipvs] {
        stage.go(way);
        for node in NODES {
            stage.terminate(node);
            stage.start(node);
            stage.wait_for_sync(node);
            until("rules of others are gone", || rules_are_of(&stage, node));
            traffic.go_on();
        }
        held.iter_mut().for_each(Open::talk);
        for held in &mut datagrams {
            until("the same socket is answered", || held.ping(PATIENCE).is_answered());
        }
        held.push(Open::start(&stage, &web));
    }
    traffic.until_enough();
    traffic.end(&stage);
    held.iter_mut().for_each(Open::still_talk);
}

/// A node has the rules of its own way alone. Virtual servers stay while they have connections.
pub(crate) fn rules_are_of(stage: &Stage, node: &str) -> bool {
    let mut found = written(stage, node);
    found.retain(|way| *way != Way::Ipvs || stage.way() == Way::Ipvs);
    // The rules of userspace mode are chains of the same program.
    let wanted = if stage.way() == Way::Userspace { Way::IptablesNft } else { stage.way() };
    found == [wanted] && has_ipvs_chains(stage, node) == (stage.way() == Way::Ipvs)
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

/// A client that asks from one port all the while, of each family.
fn datagrams(stage: &Stage, web: &Service) -> Vec<Held> {
    let open = |family| {
        Held::open(stage.place("client-a"), Protocol::Udp, web.cluster_ip(family), &Ask::within(PATIENCE))
    };
    Family::ALL.map(open).into_iter().map(Result::unwrap).collect()
}

/// A node comes to have the rules of its own way, and of no other.
fn only(stage: &Stage, node: &str) {
    let wanted = stage.way();
    until(&format!("node {node} has rules of {wanted} alone"), || written(stage, node) == [wanted]);
}

/// The ways whose rules a node has.
fn written(stage: &Stage, node: &str) -> Vec<Way> {
    let has_rules = |way: &Way| match way {
        Way::Ipvs => has_servers(),
        Way::Nftables => has_table(),
        way => has_chains(*way),
    };
    let all = || Way::KERNEL.into_iter().chain([Way::Ipvs]).filter(has_rules).collect();
    stage.place(node).run(all).unwrap()
}

/// Are there virtual servers?
fn has_servers() -> bool {
    Netlink::open().is_ok_and(|mut door| !door.virtual_servers().unwrap().is_empty())
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
    // The IPVS mode has a canary of the same name.
    let canaries = if has_servers() { "KUBE-PROXY-CANARY" } else { "\n\n" };
    let has = |text: String| text.replace(canaries, "").contains("KUBE-");
    doors.any(|door| TABLES.into_iter().any(|table| door.save(table).unwrap().is_some_and(has)))
}
