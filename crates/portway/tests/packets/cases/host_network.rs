//! Endpoints in the host network: their address is that of their node, as of the API server and of many agents.

use playground::Ports;

use crate::check::Want;
use crate::manifest::Service;
use crate::stage::Setting;

pub(crate) fn root_endpoints_in_the_host_network_are_reached_from_everywhere(setting: &Setting) {
    let hosts = Service::new("hosts", 1).on(&["a", "b"]).load_balanced();
    let local = |service: Service| {
        service.with("internalTrafficPolicy", "Local".into()).with("externalTrafficPolicy", "Local".into())
    };
    let (agents, on_b) = (local(Service::new("agents", 2)), local(Service::new("on-b", 3)));
    let (agents, on_b) = (agents.on(&["a", "b"]), on_b.on(&["b"]));
    let Some(mut stage) = setting.stage(&[&hosts, &agents, &on_b]) else { return };
    for node in ["a", "b"] {
        stage.playground.serve(node, &Ports::default()).unwrap();
    }
    let both = ["a", "b"];
    // What ends on the node that it comes to is not masqueraded; what goes on to the other node is, unless a pod sends it.
    let by_a = Want::kept(&["a"]).and(Want::masqueraded(&["b"]));
    let by_b = Want::masqueraded(&["a"]).and(Want::kept(&["b"]));
    stage.check(&[
        ("client-a", stage.cluster_ip(&hosts), Want::kept(&both)),
        ("client-b", stage.cluster_ip(&hosts), Want::kept(&both)),
        ("a", stage.cluster_ip(&hosts), Want::masqueraded(&both)),
        ("b", stage.cluster_ip(&hosts), Want::masqueraded(&both)),
        ("outside", stage.cluster_ip(&hosts), by_a.clone()),
        ("outside", stage.node_port("a", &hosts), by_a.clone()),
        ("outside", stage.node_port("b", &hosts), by_b.clone()),
        ("client-a", stage.node_port("b", &hosts), by_b),
        ("a", stage.node_port("a", &hosts), Want::masqueraded(&both)),
        ("outside", stage.load_balancer_ip(&hosts), by_a),
    ]);
    stage.check(&[
        ("client-a", stage.cluster_ip(&agents), Want::kept(&["a"])),
        ("client-b", stage.cluster_ip(&agents), Want::kept(&["b"])),
        ("a", stage.cluster_ip(&agents), Want::masqueraded(&["a"])),
        ("b", stage.cluster_ip(&agents), Want::masqueraded(&["b"])),
        ("outside", stage.cluster_ip(&agents), Want::kept(&["a"])),
        ("outside", stage.node_port("a", &agents), Want::kept(&["a"])),
        ("outside", stage.node_port("b", &agents), Want::kept(&["b"])),
        ("client-b", stage.cluster_ip(&on_b), Want::kept(&["b"])),
        ("client-a", stage.cluster_ip(&on_b), Want::Silent),
        ("a", stage.cluster_ip(&on_b), Want::Silent),
        ("outside", stage.node_port("a", &on_b), Want::Silent),
    ]);
}
