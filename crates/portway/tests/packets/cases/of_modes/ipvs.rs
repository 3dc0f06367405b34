//! What is about the mode ipvs, and the ways from it to all others.

use playground::plan::NODES;
use playground::{Ask, Family, Held, Protocol};

use super::{carried, drain, remembered, schedulers, sores};
use crate::case::{Case, case};
use crate::cases::live::Traffic;
use crate::cases::restart::Open;
use crate::cases::switch::rules_are_of;
use crate::cases::{ALL, counted};
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;
use crate::way::Way;

pub(super) const CASES: &[Case] = &[
    case!(counted::root_what_virtual_servers_carried_is_counted).smoke(Way::needs_vm),
    case!(sores::root_ports_of_the_host_do_not_answer_at_addresses_of_services).smoke(Way::needs_vm),
    case!(sores::root_a_ping_of_a_service_is_answered_by_the_node),
    case!(sores::root_an_address_that_is_the_hosts_too_is_told_and_never_removed),
    case!(sores::root_an_address_that_becomes_the_hosts_stays_when_the_service_goes),
    case!(sores::root_a_cleanup_leaves_nothing_and_gives_settings_back).smoke(Way::needs_vm),
    case!(sores::root_neighbours_hear_of_no_address_with_strict_arp).smoke(Way::needs_vm),
    case!(drain::root_an_endpoint_that_goes_keeps_its_connections_and_gets_no_new_ones).smoke(Way::needs_vm),
    case!(drain::root_endpoints_that_drain_are_found_again_after_a_crash).smoke(Way::needs_vm),
    case!(drain::root_an_endpoint_drains_no_longer_than_the_limit),
    case!(root_switching_from_ipvs_to_nftables_and_back_disturbs_nobody),
    case!(root_switching_from_ipvs_to_iptables_nft_and_back_disturbs_nobody),
    case!(root_switching_from_ipvs_to_iptables_legacy_and_back_disturbs_nobody),
    case!(remembered::root_affinity_in_ipvs_outlives_restarts_but_no_other_mode),
    case!(carried::root_switching_from_ipvs_to_userspace_and_back_fails_no_new_connection),
    case!(schedulers::root_a_service_gets_every_scheduler_that_the_kernel_has).smoke(Way::needs_vm),
    case!(schedulers::root_another_scheduler_fails_no_new_connection),
    case!(schedulers::root_an_unknown_scheduler_is_told_and_the_chosen_one_serves),
    case!(schedulers::root_source_hashing_keeps_a_client_and_least_connection_evens_out),
];

fn root_switching_from_ipvs_to_nftables_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::named("nftables"));
}

fn root_switching_from_ipvs_to_iptables_nft_and_back_disturbs_nobody(setting: &Setting) {
    there_and_back(setting, Way::named("iptables-nft"));
}

fn root_switching_from_ipvs_to_iptables_legacy_and_back_disturbs_nobody(setting: &Setting) {
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
