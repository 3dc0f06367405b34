//! How a pod's packet is known from others. By the networks of the cluster: that is the usual setting of all other cases.

use playground::node::BRIDGE;

use crate::check::Want;
use crate::manifest::Service;
use crate::stage::Setting;

pub(crate) fn root_pods_are_known_by_their_nodes_network(setting: &Setting) {
    tells_pods_from_others(&setting.detecting(&["--detect-local-mode", "NodeCIDR"]));
}

pub(crate) fn root_pods_are_known_by_their_bridge(setting: &Setting) {
    let detection = ["--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", BRIDGE];
    tells_pods_from_others(&setting.bridged().detecting(&detection));
}

pub(crate) fn root_pods_are_known_by_the_names_of_their_interfaces(setting: &Setting) {
    let detection = ["--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "veth"];
    tells_pods_from_others(&setting.detecting(&detection));
}

/// Endpoints are on the other node: pods on one bridge answer each other directly where the kernel does not let bridged
/// packets pass its rules.
fn tells_pods_from_others(setting: &Setting) {
    const REMOTE: [&str; 1] = ["web-b-0"];
    let web = Service::new("web", 1).on(&REMOTE);
    let local = Service::new("local", 2).on(&REMOTE).with("externalTrafficPolicy", "Local".into());
    let Some(stage) = setting.stage(&[&web, &local]) else { return };
    stage.check(&[
        ("client-a", stage.cluster_ip(&web), Want::kept(&REMOTE)),
        ("outside", stage.cluster_ip(&web), Want::masqueraded(&REMOTE)),
        ("a", stage.cluster_ip(&web), Want::masqueraded(&REMOTE)),
        ("outside", stage.node_port("a", &web), Want::masqueraded(&REMOTE)),
        // The short cut is for this node's own pods and for the host; to all others the policy applies.
        ("client-a", stage.node_port("a", &local), Want::kept(&REMOTE)),
        ("a", stage.node_port("a", &local), Want::masqueraded(&REMOTE)),
        ("client-b", stage.node_port("a", &local), Want::Silent),
        ("outside", stage.node_port("a", &local), Want::Silent),
    ]);
}
