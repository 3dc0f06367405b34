//! The ways from virtual servers to all others that the kernel carries, and back.

use playground::plan::NODES;
use playground::{Ask, Family, Held, Protocol};

use crate::cases::ALL;
use crate::cases::live::Traffic;
use crate::cases::restart::Open;
use crate::cases::switch::rules_are_of;
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;
use crate::way::Way;

pub(super) fn root_switching_from_ipvs_to_nftables_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::named("nftables"));
}

pub(super) fn root_switching_from_ipvs_to_iptables_nft_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::named("iptables-nft"));
}

pub(super) fn root_switching_from_ipvs_to_iptables_legacy_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::named("iptables-legacy"));
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
    for way in [other, setting.way()] {
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

/// A client that asks from one port all the while, of each family.
fn datagrams(stage: &Stage, web: &Service) -> Vec<Held> {
    let open = |family| {
        Held::open(stage.place("client-a"), Protocol::Udp, web.cluster_ip(family), &Ask::within(PATIENCE))
    };
    Family::ALL.map(open).into_iter().map(Result::unwrap).collect()
}
