//! The node changes under a running portway: node ports follow without a restart.

use std::net::{IpAddr, SocketAddr};

use playground::{Family, plan};

use crate::check::{Target, Want};
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};

const WEB: [&str; 1] = ["web-b-0"];
/// The addresses that node a gets in the place of its own.
const OTHER: [&str; 2] = ["192.168.0.77", "fd00:192::77"];

fn at_other(web: &Service) -> Target {
    let port = web.node_port();
    Target::new("the new address of a", "a", move |family| SocketAddr::new(other(family), port))
}

fn other(family: Family) -> IpAddr {
    OTHER[usize::from(family == Family::V6)].parse().unwrap()
}

fn wait_for_addresses(stage: &Stage, has: &[IpAddr], has_not: &[IpAddr]) {
    until("node a knows its addresses", || {
        let picture = stage.picture("a");
        let Some(known) = picture.cluster().local_addresses() else { return false };
        has.iter().all(|ip| known.contains(ip)) && !has_not.iter().any(|ip| known.contains(ip))
    });
    stage.wait_for_sync("a");
}

pub(crate) fn root_node_ports_move_with_the_address_of_the_host(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB);
    let Some(stage) = setting.with(&["--nodeport-addresses", "all"]).stage(&[&web]) else { return };
    let own = plan::node(1).both();
    let others = Family::ALL.map(other);
    stage.check(&[("outside", stage.node_port("a", &web), Want::masqueraded(&WEB))]);
    let [v4, v6] = OTHER;
    stage
        .place("a")
        .ip([format!("addr add {v4}/24 dev eth0"), format!("addr add {v6}/64 dev eth0 nodad")])
        .unwrap();
    wait_for_addresses(&stage, &others, &[]);
    stage.check(&[
        ("outside", stage.node_port("a", &web), Want::masqueraded(&WEB)),
        ("outside", at_other(&web), Want::masqueraded(&WEB)),
    ]);
    stage
        .place("a")
        .ip([format!("addr del {v4}/24 dev eth0"), format!("addr del {v6}/64 dev eth0")])
        .unwrap();
    wait_for_addresses(&stage, &own, &others);
    stage.check(&[("outside", stage.node_port("a", &web), Want::masqueraded(&WEB))]);
}

pub(crate) fn root_node_ports_answer_after_an_interface_was_renamed_and_went_down_and_up(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB);
    let Some(stage) = setting.with(&["--nodeport-addresses", "all"]).stage(&[&web]) else { return };
    let own = plan::node(1).both();
    let (from_outside, want) = (|| stage.node_port("a", &web), Want::masqueraded(&WEB));
    stage.check(&[("outside", from_outside(), want.clone())]);

    stage
        .place("a")
        .ip(["link set dev eth0 down", "link set dev eth0 name lan7", "link set dev lan7 up"])
        .unwrap();
    stage.playground.node("a").furnish_uplink("lan7").unwrap();
    wait_for_addresses(&stage, &own, &[]);
    stage.check(&[("outside", from_outside(), want.clone())]);

    // The kernel takes IPv6 addresses away from a link that goes down.
    stage.place("a").ip(["link set dev lan7 down"]).unwrap();
    wait_for_addresses(&stage, &[], &own[1..]);
    stage.place("a").ip(["link set dev lan7 up"]).unwrap();
    stage.playground.node("a").furnish_uplink("lan7").unwrap();
    wait_for_addresses(&stage, &own, &[]);
    stage.check(&[("outside", from_outside(), want)]);
}
