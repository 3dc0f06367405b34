//! The order of steps of IPVS mode where the kernel is not whole while it carries out a single one.
use dataplane::ipvs::{Delta, Item, Place, Step, plan};
use model::Family;

use super::*;

const PLACE: Place = Place {
    ip: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1)),
    protocol: Number::TCP,
    port: 80,
};

fn scheduled_by(scheduler: &str) -> VirtualServer {
    let what = What::Address(SocketAddr::new(PLACE.ip, PLACE.port), PLACE.protocol);
    VirtualServer::new(what, scheduler)
}

fn dropped() -> Entry {
    Entry::IpPort(PLACE.ip, PLACE.protocol, PLACE.port)
}

/// From one scheduler to another, with what else changes.
fn steps(removed: &[Item], added: &[Item]) -> Vec<Step> {
    let with = |scheduler, more: &[Item]| {
        [Item::Server(scheduled_by(scheduler))].iter().chain(more).cloned().collect()
    };
    let delta = Delta { removed: with("rr", removed), added: with("wrr", added) };
    let steps = plan(&delta, &[].into(), &|_| true, &|_| vec![PLACE]).steps;
    let is_change = |step: &Step| {
        matches!(step, Step::Servers(all) if !all.is_empty())
            || matches!(step, Step::Sets(all) if !all.is_empty())
    };
    steps.into_iter().filter(is_change).collect()
}

#[test]
fn new_connections_are_held_back_while_a_virtual_server_has_no_scheduler() {
    let set = SetName::new("PORTWAY-DROP").unwrap();
    let expected = [
        Step::Sets(vec![SetRequest::Add(set.clone(), dropped())]),
        Step::Servers(vec![Request::Change(scheduled_by("wrr"))]),
        Step::Sets(vec![SetRequest::Delete(set, dropped())]),
    ];
    assert_eq!(steps(&[], &[]), expected);
}

#[test]
fn a_place_that_becomes_silent_or_ceases_to_be_is_so_at_its_own_time() {
    let silent = [Item::Entry(Family::V4, SetId::Drop, dropped())];
    for (removed, added) in [(&silent[..], &[][..]), (&[], &silent)] {
        let steps = steps(removed, added);
        assert_eq!(steps.len(), 2, "{steps:?}");
    }
}
