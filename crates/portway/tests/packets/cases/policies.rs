//! Traffic policies, and pods that terminate.

use crate::check::Want;
use crate::manifest::Service;
use crate::stage::Setting;

pub(crate) fn root_external_policy_local_keeps_the_client_or_drops_it(setting: &Setting) {
    const ON_A: [&str; 1] = ["web-a-0"];
    let web = Service::new("web", 1).on(&ON_A).load_balanced().externally();
    let web = web.with("externalTrafficPolicy", "Local".into());
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    stage.check(&[
        ("outside", stage.node_port("a", &web), Want::kept(&ON_A)),
        ("outside", stage.node_port("b", &web), Want::Silent),
        ("outside", stage.load_balancer_ip(&web), Want::kept(&ON_A)),
        ("outside", stage.external_ip(&web), Want::kept(&ON_A)),
        ("outside", stage.cluster_ip(&web), Want::masqueraded(&ON_A)),
        // The short cut: pods and the host may use all endpoints.
        ("client-b", stage.node_port("b", &web), Want::kept(&ON_A)),
        ("client-b", stage.load_balancer_ip(&web), Want::kept(&ON_A)),
        ("b", stage.node_port("b", &web), Want::masqueraded(&ON_A)),
        ("b", stage.load_balancer_ip(&web), Want::masqueraded(&ON_A)),
        // Another host is an outsider.
        ("b", stage.node_port("a", &web), Want::kept(&ON_A)),
    ]);
    stage.route_services_via("b");
    stage.check(&[
        ("outside", stage.load_balancer_ip(&web), Want::Silent),
        ("outside", stage.external_ip(&web), Want::Silent),
    ]);
}

pub(crate) fn root_internal_policy_local_stays_on_the_node(setting: &Setting) {
    const ON_A: [&str; 1] = ["web-a-0"];
    let local = |web: Service| web.with("internalTrafficPolicy", "Local".into());
    let (one, both) = (local(Service::new("one", 1)), local(Service::new("both", 2)));
    let (one, both) = (one.on(&ON_A), both.on(&["web-a-0", "web-b-0", "web-b-1"]));
    let Some(mut stage) = setting.stage(&[&one, &both]) else { return };
    stage.check(&[
        ("client-a", stage.cluster_ip(&one), Want::kept(&ON_A)),
        ("a", stage.cluster_ip(&one), Want::masqueraded(&ON_A)),
        ("outside", stage.cluster_ip(&one), Want::masqueraded(&ON_A)),
        ("client-b", stage.cluster_ip(&one), Want::Silent),
        ("b", stage.cluster_ip(&one), Want::Silent),
        ("client-a", stage.cluster_ip(&both), Want::kept(&ON_A)),
        ("client-b", stage.cluster_ip(&both), Want::kept(&["web-b-0", "web-b-1"])),
        // The internal policy says nothing about node ports.
        ("outside", stage.node_port("b", &one), Want::masqueraded(&ON_A)),
    ]);
    // The last pods of node a terminate: those that still serve do, though node b has a ready one.
    stage.apply_unheard(
        &one.clone().on(&["web-b-0"]).terminating("web-a-0", true).terminating("web-a-1", false),
    );
    stage.apply(&both.clone().on(&["web-b-0"]).terminating("web-a-0", false));
    stage.check(&[
        ("client-a", stage.cluster_ip(&one), Want::kept(&ON_A)),
        ("a", stage.cluster_ip(&one), Want::masqueraded(&ON_A)),
        ("client-b", stage.cluster_ip(&one), Want::kept(&["web-b-0"])),
        ("client-a", stage.cluster_ip(&both), Want::Silent),
    ]);
}

pub(crate) fn root_terminating_pods_serve_when_no_other_does(setting: &Setting) {
    let fading = Service::new("web", 1).terminating("web-a-0", true).terminating("web-b-0", true);
    let fading = fading.terminating("web-b-1", false);
    let Some(mut stage) = setting.stage(&[&fading]) else { return };
    let serving = ["web-a-0", "web-b-0"];
    stage.check(&[
        ("client-a", stage.cluster_ip(&fading), Want::kept(&serving)),
        ("outside", stage.node_port("b", &fading), Want::masqueraded(&serving)),
    ]);
    let renewed = Service::new("web", 1).on(&["web-a-1"]).terminating("web-a-0", true);
    stage.apply(&renewed);
    stage.check(&[
        ("client-a", stage.cluster_ip(&renewed), Want::kept(&["web-a-1"])),
        ("outside", stage.node_port("b", &renewed), Want::masqueraded(&["web-a-1"])),
    ]);
    // Under the local policy it is the node's own pods that count.
    let local = renewed.clone().on(&["web-b-0"]).terminating("web-a-0", true);
    let local = local.with("externalTrafficPolicy", "Local".into());
    stage.apply(&local);
    stage.check(&[
        ("outside", stage.node_port("a", &local), Want::kept(&["web-a-0"])),
        ("outside", stage.node_port("b", &local), Want::kept(&["web-b-0"])),
        ("client-a", stage.cluster_ip(&local), Want::kept(&["web-b-0"])),
    ]);
    stage.apply(&Service::new("web", 1).terminating("web-b-1", false));
    stage.check(&[("client-a", stage.cluster_ip(&fading), Want::Refused)]);
}
