//! A segment far ahead of the TCP window: its connection goes on, and so does what looks like it.

use std::net::SocketAddr;

use playground::stray::StraySender;
use playground::{Ask, Family, Held, Protocol};

use crate::manifest::Service;
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;

/// The port of the pods for connections that stay.
const POD_PORT: u16 = 8081;
/// A reset that a stray segment causes may arrive after the next question; it does not arrive after so many.
const PINGS: usize = 3;
const LOOSE: &str = "net/netfilter/nf_conntrack_tcp_loose";

/// kubernetes#74839: the connection tracker cannot assign the segment, so the client sees the address of a pod that it does not know.
pub(crate) fn root_a_stray_segment_resets_no_connection(setting: &Setting) {
    let near = Service::new("near", 1).on(&["web-a-0"]);
    let far = Service::new("far", 2).on(&["web-b-0"]);
    let Some(stage) = setting.stage(&[&near, &far]) else { return };
    count_invalid(&stage);
    for family in Family::ALL {
        for (service, pod) in [(&near, "web-a-0"), (&far, "web-b-0")] {
            survives(&stage, "client-a", service.held_cluster_ip(family), pod);
            // In some modes, as in upstream's, neither what is masqueraded nor connections of this host are protected.
            if stage.way().behaviour().drops_all_stray_segments {
                survives(&stage, "outside", stage.place("a").at(family, service.held_node_port()), pod);
                survives(&stage, "a", service.held_cluster_ip(family), pod);
            }
        }
    }
    let counted = stage.shell("a", "nft list table inet seen");
    assert!(!counted.contains("packets 0 "), "no segment was invalid: {counted}");
}

/// Replies of an endpoint are routed over node a, which has not seen the requests: the tracker calls them invalid. With
/// `nf_conntrack_tcp_loose=0` that is true of all of them, else of the first.
pub(crate) fn root_replies_that_alone_pass_a_node_arrive(setting: &Setting) {
    let web = Service::new("web", 1).on(&["web-b-0"]);
    let Some(mut stage) = setting.stage_without_portways(&[&web]) else { return };
    for family in Family::ALL {
        let (outside, over) = (stage.place("outside").address(family), stage.place("a").address(family));
        stage.place("b").ip([format!("route add {outside} via {over}")]).unwrap();
    }
    stage.shell("a", &format!("sysctl -w {LOOSE}=0"));
    stage.start("a");
    stage.start("b");
    for node in ["a", "b"] {
        stage.wait_for_sync(node);
    }
    count_invalid(&stage);
    direct_connections_work(&stage);
    stage.terminate("a");
    stage.shell("a", &format!("sysctl -w {LOOSE}=1"));
    stage.start("a");
    stage.wait_for_sync("a");
    direct_connections_work(&stage);
    let counted = stage.shell("a", "nft list table inet seen");
    assert!(!counted.contains("packets 0 "), "no reply was invalid: {counted}");
}

fn direct_connections_work(stage: &Stage) {
    for family in Family::ALL {
        let to = stage.place("web-b-0").at(family, POD_PORT);
        let mut held = hold(stage, "outside", to);
        (0..PINGS).for_each(|_| assert_eq!(held.ping(PATIENCE).server(), Some("web-b-0")));
    }
}

fn survives(stage: &Stage, from: &str, to: SocketAddr, pod: &str) {
    let family = Family::of(to.ip());
    let strays = StraySender::listen(stage.place(pod), family, POD_PORT).unwrap().unwrap();
    let mut held = hold(stage, from, to);
    strays.send(PATIENCE).unwrap();
    for _ in 0..PINGS {
        let outcome = held.ping(PATIENCE);
        assert_eq!(outcome.server(), Some(pod), "{from} to {to}: {outcome}");
    }
}

fn hold(stage: &Stage, from: &str, to: SocketAddr) -> Held {
    let held = Held::open(stage.place(from), Protocol::Tcp, to, &Ask::within(PATIENCE));
    held.unwrap_or_else(|outcome| panic!("{from} to {to}: {outcome}"))
}

/// Counts invalid packets that arrive at node a, of each family.
fn count_invalid(stage: &Stage) {
    let chain = "add chain inet seen pre { type filter hook prerouting priority -160; }";
    let rule =
        |family: &str| format!("add rule inet seen pre meta nfproto {family} ct state invalid counter");
    let rules = format!("add table inet seen; {chain}; {}; {}", rule("ipv4"), rule("ipv6"));
    stage.shell("a", &format!("nft '{rules}'"));
}
