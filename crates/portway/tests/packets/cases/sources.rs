//! Whom the endpoint sees: the client, or a node in its place.

use playground::Ports;

use crate::check::{Target, Want};
use crate::manifest::Service;
use crate::stage::{Setting, Stage};

const BOTH: [&str; 2] = ["web-a-0", "web-b-0"];

pub(crate) fn root_a_pod_keeps_its_address_and_others_are_masqueraded(setting: &Setting) {
    let web = Service::new("web", 1).on(&BOTH).load_balanced();
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    stage.check(&[
        ("client-a", stage.cluster_ip(&web), Want::kept(&BOTH)),
        ("client-b", stage.cluster_ip(&web), Want::kept(&BOTH)),
        ("outside", stage.cluster_ip(&web), Want::masqueraded(&BOTH)),
        ("a", stage.cluster_ip(&web), Want::masqueraded(&BOTH)),
        ("b", stage.cluster_ip(&web), Want::masqueraded(&BOTH)),
        ("outside", stage.node_port("a", &web), Want::masqueraded(&BOTH)),
        ("client-a", stage.node_port("a", &web), Want::masqueraded(&BOTH)),
        ("client-a", stage.node_port("b", &web), Want::masqueraded(&BOTH)),
        ("a", stage.node_port("a", &web), Want::masqueraded(&BOTH)),
        ("a", stage.node_port("b", &web), Want::masqueraded(&BOTH)),
        ("outside", stage.load_balancer_ip(&web), Want::masqueraded(&BOTH)),
        ("client-b", stage.load_balancer_ip(&web), Want::masqueraded(&BOTH)),
    ]);
    what_is_no_services_keeps_its_source(&mut stage);
}

/// Who dials whom: pods, nodes and the outside client.
const DIRECT: [(&str, &str); 11] = [
    ("client-a", "web-a-0"),
    ("client-a", "web-b-0"),
    ("web-a-0", "web-b-1"),
    ("web-b-0", "web-b-1"),
    ("client-b", "outside"),
    ("web-a-0", "outside"),
    ("outside", "web-a-0"),
    ("outside", "web-b-1"),
    ("a", "web-a-0"),
    ("a", "web-b-0"),
    ("b", "outside"),
];

/// Rules are in force, and some of these are endpoints; but nobody dials a Service.
fn what_is_no_services_keeps_its_source(stage: &mut Stage) {
    stage.playground.serve("outside", &Ports::default()).unwrap();
    let row = |(from, to)| -> (&str, Target, Want) { (from, stage.direct(to), Want::Direct(to)) };
    stage.check(&DIRECT.map(row));
}

pub(crate) fn root_a_pod_that_reaches_itself_is_masqueraded(setting: &Setting) {
    let (alone, web) = (Service::new("alone", 1).on(&["web-a-0"]), Service::new("web", 2).on(&BOTH));
    let Some(stage) = setting.stage(&[&alone, &web]) else { return };
    let mixed = Want::masqueraded(&["web-a-0"]).and(Want::kept(&["web-b-0"]));
    stage.check(&[
        ("web-a-0", stage.cluster_ip(&alone), Want::masqueraded(&["web-a-0"])),
        ("web-a-1", stage.cluster_ip(&alone), Want::kept(&["web-a-0"])),
        ("web-a-0", stage.cluster_ip(&web), mixed),
        ("web-a-0", stage.node_port("a", &alone), Want::masqueraded(&["web-a-0"])),
    ]);
}

pub(crate) fn root_masquerade_all_hides_pods_too(setting: &Setting) {
    let web = Service::new("web", 1).on(&BOTH);
    let Some(mut stage) = setting.with(&["--masquerade-all"]).stage(&[&web]) else { return };
    stage.check(&[
        ("client-a", stage.cluster_ip(&web), Want::masqueraded(&BOTH)),
        ("outside", stage.cluster_ip(&web), Want::masqueraded(&BOTH)),
        ("b", stage.cluster_ip(&web), Want::masqueraded(&BOTH)),
    ]);
    what_is_no_services_keeps_its_source(&mut stage);
}

/// The endpoint is on the node by which the packet comes in: elsewhere the answer would not find its way back.
pub(crate) fn root_without_a_detector_nobody_is_masqueraded(setting: &Setting) {
    let web = Service::new("web", 1).on(&["web-a-0"]);
    let Some(stage) = setting.detecting(&[]).stage(&[&web]) else { return };
    stage.check(&[
        ("client-a", stage.cluster_ip(&web), Want::kept(&["web-a-0"])),
        ("outside", stage.cluster_ip(&web), Want::kept(&["web-a-0"])),
        ("outside", stage.node_port("b", &web), Want::masqueraded(&["web-a-0"])),
    ]);
    if !stage.way().has_addresses_of_services() {
        stage.check(&[("a", stage.cluster_ip(&web), Want::kept(&["web-a-0"]))]);
    }
}
