//! More clients on one sticky Service than the iptables mode's lists have room for.
//!
//! All clients meet the only endpoint there is, and then there is a second one. Whoever is remembered stays; whoever is not is
//! drawn anew. What `recent` remembers, and what not, is told in the README of the iptables mode.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use playground::client::ask;
use playground::{Ask, Family, Held, Protocol};

use crate::manifest::{HELD_PORT, Service};
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;
use crate::way::Way;

const CLIENTS: u8 = 150;
/// Nobody is forgotten for having rested.
pub(crate) const HOURS: u32 = 10_800;
pub(crate) const FIRST: &str = "web-a-0";
pub(crate) const SECOND: &str = "web-b-0";

pub(crate) fn root_a_crowd_of_clients_is_remembered_as_far_as_the_mode_can(setting: &Setting) {
    let web = Service::new("web", 1).on(&[FIRST]).sticky(HOURS);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let crowd = Family::ALL.map(|family| gather(&stage, family, CLIENTS));
    for (family, clients) in Family::ALL.into_iter().zip(&crowd) {
        let servers = servers(&stage, &web, family, clients);
        assert!(servers.iter().all(|server| server == FIRST), "{servers:?}");
    }
    let mut held = crowd.clone().map(|clients| hold(&stage, &web, &clients));
    stage.apply(&web.clone().on(&[FIRST, SECOND]));
    let remembered = remembered(stage.way());
    for (family, clients) in Family::ALL.into_iter().zip(&crowd) {
        // The longest ago come last: each of them that is drawn to the first endpoint takes another one's place there.
        let (forgotten, known) = clients.split_at(clients.len() - remembered);
        let stayed = servers(&stage, &web, family, known);
        assert!(stayed.iter().all(|server| server == FIRST), "{family:?}: {stayed:?}");
        let drawn = servers(&stage, &web, family, forgotten);
        // That none of fifty meets the second one comes by chance once in 10¹⁵ times.
        assert_eq!(drawn.iter().any(|server| server == SECOND), !forgotten.is_empty(), "{drawn:?}");
        tell(&stage, known.len(), forgotten.len());
    }
    for held in held.iter_mut().flatten() {
        let outcome = held.ping(PATIENCE);
        assert_eq!(outcome.server(), Some(FIRST), "a connection that was open: {outcome}");
    }
}

/// So many of the clients of one endpoint are remembered, those who came last.
fn remembered(way: Way) -> usize {
    let all = usize::from(CLIENTS);
    let Some(file) = way.behaviour().affinity_limit else { return all };
    let room = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    all.min(room.trim().parse().unwrap())
}

/// Gives the outside client an address for each of the crowd.
pub(crate) fn gather(stage: &Stage, family: Family, count: u8) -> Vec<IpAddr> {
    let address = |number: u8| -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(172, 16, 0, 100 + number).into(),
            Family::V6 => Ipv6Addr::new(0xfd00, 0x172, 0, 0, 0, 0, 1, number.into()).into(),
        }
    };
    let clients: Vec<IpAddr> = (0..count).map(address).collect();
    let lines = clients.iter().map(|client| match family {
        Family::V4 => format!("addr add {client}/32 dev eth0"),
        Family::V6 => format!("addr add {client}/128 dev eth0 nodad"),
    });
    stage.place("outside").ip(lines).unwrap();
    clients
}

/// Who answers each of them, one after the other.
pub(crate) fn servers(stage: &Stage, web: &Service, family: Family, clients: &[IpAddr]) -> Vec<String> {
    let to = web.cluster_ip(family);
    let server = |client: &IpAddr| {
        let from = Ask { source: Some(SocketAddr::new(*client, 0)), ..Ask::within(PATIENCE) };
        let outcome = ask(stage.place("outside"), Protocol::Tcp, to, &from);
        outcome.server().unwrap_or_else(|| panic!("{client} -> {to}: {outcome}")).to_owned()
    };
    stage.talk.count(family, model::Protocol::Tcp, clients.len().try_into().unwrap());
    clients.iter().map(server).collect()
}

/// Connections of all of them that stay, at another port of the same Service.
fn hold(stage: &Stage, web: &Service, clients: &[IpAddr]) -> Vec<Held> {
    let open = |client: &IpAddr| {
        let to = SocketAddr::new(web.cluster_ip(Family::of(*client)).ip(), HELD_PORT);
        let from = Ask { source: Some(SocketAddr::new(*client, 0)), ..Ask::within(PATIENCE) };
        Held::open(stage.place("outside"), Protocol::Tcp, to, &from).unwrap()
    };
    clients.iter().map(open).collect()
}

#[expect(clippy::print_stderr, reason = "the test's own output")]
fn tell(stage: &Stage, remembered: usize, drawn: usize) {
    eprintln!("counted: {} {remembered} clients remembered, {drawn} drawn anew", stage.way());
}
