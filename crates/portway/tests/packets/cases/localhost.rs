//! Node ports on 127.0.0.1 and `::1`: served by listening there, without `route_localnet`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use model::fate::Payload;
use model::{Fate, Packet, Protocol};
use playground::{Family, Held};

use crate::manifest::{HELD_PORT, Service};
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

use super::ALL;

/// So often is asked until every endpoint has answered.
const ASKED_MAX: usize = 200;
const LOCALNET: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";

pub(crate) fn root_node_ports_answer_on_localhost(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let setting = setting.with(&["--nodeport-addresses", "localhost,primary"]);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    for (family, protocol) in kinds() {
        answers(&stage, &web, family, protocol, &ALL);
    }
    assert_eq!(stage.place("a").run(|| fs::read_to_string(LOCALNET)).unwrap().unwrap().trim(), "0");
    // A connection that is open goes on when its endpoint leaves, and new ones go elsewhere.
    let to = SocketAddr::new(localhost(Family::V4), web.held_node_port());
    let how = playground::Ask::within(PATIENCE);
    let mut held = Held::open(stage.place("a"), Protocol::Tcp, to, &how).unwrap();
    let first = held.reply().server.clone();
    let rest: Vec<&str> = ALL.into_iter().filter(|pod| *pod != first).collect();
    stage.apply(&web.clone().on(&rest));
    for (family, protocol) in kinds() {
        answers(&stage, &web, family, protocol, &rest);
    }
    assert_eq!(held.ping(PATIENCE).server(), Some(first.as_str()));
    // Without endpoints, and without the Service, it is refused.
    stage.apply(&web.clone().on(&[]));
    for (family, protocol) in kinds() {
        is_refused(&stage, &web, family, protocol);
    }
    stage.delete(&web);
    is_refused(&stage, &web, Family::V4, Protocol::Tcp);
}

/// Where nothing names localhost, the default of the mode says whether it is served.
pub(crate) fn root_node_ports_answer_on_localhost_by_default_where_the_mode_promises(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    for (family, protocol) in kinds() {
        match fate(&stage, &web, family, protocol) {
            Fate::OneOf(_) => answers(&stage, &web, family, protocol, &ALL),
            _ => is_refused(&stage, &web, family, protocol),
        }
    }
}

/// A neighbour that sends packets for 127.0.0.1 to this host reaches nothing (CVE-2020-8558), whether rules or a relay serve it there.
pub(crate) fn root_nobody_else_reaches_node_ports_on_localhost(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let by_rules = ["--nodeport-addresses", "localhost", "--iptables-localhost-nodeports"];
    let ways = if setting.has("iptables-localhost-nodeports") { 2..=3 } else { 2..=2 };
    for count in ways {
        let Some(stage) = setting.with(&by_rules[..count]).stage(&[&web]) else { return };
        let (outside, node) = (stage.place("outside"), stage.place("a").address(Family::V4));
        outside.set(&[("ipv4/conf/all/route_localnet", "1")]).unwrap();
        outside
            .ip(["address del 127.0.0.1/8 dev lo".to_owned(), format!("route add 127.0.0.1/32 via {node}")])
            .unwrap();
        let chain = "add chain inet seen pre { type filter hook prerouting priority -350; }";
        let rule = "add rule inet seen pre iifname != lo ip daddr 127.0.0.0/8 counter";
        stage.shell("a", &format!("nft 'add table inet seen; {chain}; {rule}'"));
        let to = SocketAddr::new(localhost(Family::V4), web.node_port());
        let how = playground::Ask::within(LOST);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let outcome = playground::client::ask(outside, protocol, to, &how);
            assert!(!outcome.is_answered(), "{protocol:?}, {count} options: {outcome}");
            assert!(
                playground::client::ask(stage.place("a"), protocol, to, &playground::Ask::within(PATIENCE))
                    .is_answered()
            );
        }
        let seen = stage.shell("a", "nft list table inet seen");
        assert!(seen.contains("counter packets") && !seen.contains("packets 0 "), "no packet came: {seen}");
    }
}

/// The relay carries what is dialled on localhost, so that it is handed over too.
pub(crate) fn root_a_hand_over_keeps_localhost_served(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let setting = setting.with(&["--nodeport-addresses", "localhost"]);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let to = SocketAddr::new(localhost(Family::V4), web.held_node_port());
    assert_eq!(to.port(), web.held_node_port(), "{HELD_PORT} is the port of the pods");
    let how = playground::Ask::within(PATIENCE);
    let mut held = Held::open(stage.place("a"), Protocol::Tcp, to, &how).unwrap();
    let work = playground::Work { parallel: 2, ask: playground::Ask::within(PATIENCE), ..Default::default() };
    let dialled = SocketAddr::new(localhost(Family::V4), web.node_port());
    let load = playground::Load::start(stage.place("a"), dialled, &work).unwrap();
    for _ in 0..3 {
        stage.hand_over_carrying("a");
        // Longer than any client waits: on a slow machine traffic is late, and only what failed is a loss.
        assert!(load.wait_for(100, PATIENCE * 12), "traffic has come to rest: {}", load.so_far());
    }
    let stats = load.stop();
    crate::talk::none_failed(&stats);
    stage.talk.count_stats(Family::V4, Protocol::Tcp, &stats);
    let before = held.reply().server.clone();
    assert_eq!(held.ping(PATIENCE).server(), Some(before.as_str()));
    drop(held);
    stage.end_old();
}

/// A packet that is lost is waited for so long.
const LOST: std::time::Duration = std::time::Duration::from_millis(500);

fn kinds() -> impl Iterator<Item = (Family, Protocol)> {
    Family::ALL.into_iter().flat_map(|family| [(family, Protocol::Tcp), (family, Protocol::Udp)])
}

pub(super) fn localhost(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// What the model says of it.
fn fate(stage: &Stage, web: &Service, family: Family, protocol: Protocol) -> Fate {
    let packet = Packet {
        source: localhost(family),
        destination: localhost(family),
        payload: Payload::Transport { protocol, port: web.node_port() },
        interface: None,
    };
    stage.picture("a").table().fate(&packet, &stage.mode().semantics()).fate
}

fn answers(stage: &Stage, web: &Service, family: Family, protocol: Protocol, pods: &[&str]) {
    let said = fate(stage, web, family, protocol);
    assert!(matches!(&said, Fate::OneOf(one) if one.landings.len() == pods.len()), "the model says {said:?}");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..ASKED_MAX {
        let outcome = ask(stage, web, family, protocol);
        let reply = outcome.reply().unwrap_or_else(|| panic!("{family:?} {protocol}: {outcome}"));
        assert!(pods.contains(&&*reply.server), "{reply}");
        seen.insert(reply.server.clone());
        if seen.len() == pods.len() {
            return;
        }
    }
    panic!("only {seen:?} answered");
}

/// A listener that is told to close does so a moment later.
fn is_refused(stage: &Stage, web: &Service, family: Family, protocol: Protocol) {
    until("localhost is refused", || ask(stage, web, family, protocol).is_refused());
}

fn ask(stage: &Stage, web: &Service, family: Family, protocol: Protocol) -> playground::Outcome {
    let to = SocketAddr::new(localhost(family), web.node_port());
    stage.talk.count(family, protocol, 1);
    playground::client::ask(stage.place("a"), protocol, to, &playground::Ask::within(PATIENCE))
}
