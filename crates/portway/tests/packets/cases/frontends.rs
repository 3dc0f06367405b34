//! Where a Service can be dialled from outside: node ports, load balancer IPs, external IPs, one family or both.

use std::net::{IpAddr, SocketAddr};

use model::NodePortAddress;
use playground::Family;
use serde_json::json;

use crate::check::{Target, Want};
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};

const WEB: [&str; 1] = ["web-a-0"];

pub(crate) fn root_node_ports_answer_on_both_nodes_whichever_has_the_pod(setting: &Setting) {
    let on_a = Service::new("on-a", 1).on(&["web-a-0"]);
    let on_b = Service::new("on-b", 2).on(&["web-b-1"]);
    let Some(stage) = setting.stage(&[&on_a, &on_b]) else { return };
    stage.check(&[
        ("outside", stage.node_port("a", &on_a), Want::masqueraded(&["web-a-0"])),
        ("outside", stage.node_port("b", &on_a), Want::masqueraded(&["web-a-0"])),
        ("outside", stage.node_port("a", &on_b), Want::masqueraded(&["web-b-1"])),
        ("outside", stage.node_port("b", &on_b), Want::masqueraded(&["web-b-1"])),
    ]);
}

/// The primary address, or all, as the mode promises.
pub(crate) fn root_node_ports_answer_by_default_where_the_mode_promises(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB);
    let Some(stage) = setting.stage(&[&web]) else { return };
    add_address(&stage);
    let second = match stage.mode().semantics().default_node_port_addresses {
        NodePortAddress::Primary => Want::Untouched,
        _ => Want::masqueraded(&WEB),
    };
    stage.check(&[
        ("outside", stage.node_port("a", &web), Want::masqueraded(&WEB)),
        ("client-b", stage.node_port("a", &web), Want::masqueraded(&WEB)),
        ("outside", second_address(&web), second),
    ]);
}

pub(crate) fn root_node_ports_answer_on_chosen_networks(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB);
    let networks = ["--nodeport-addresses", "192.168.0.100/30,fd00:192::100/120"];
    let Some(stage) = setting.with(&networks).stage(&[&web]) else { return };
    add_address(&stage);
    stage.check(&[
        ("outside", second_address(&web), Want::masqueraded(&WEB)),
        ("client-a", second_address(&web), Want::masqueraded(&WEB)),
        ("outside", stage.node_port("a", &web), Want::Untouched),
    ]);
}

pub(crate) fn root_node_ports_follow_the_addresses_of_the_host(setting: &Setting) {
    let web = Service::new("web", 1).on(&WEB);
    let Some(stage) = setting.with(&["--nodeport-addresses", "all"]).stage(&[&web]) else { return };
    stage.check(&[("outside", stage.node_port("a", &web), Want::masqueraded(&WEB))]);
    add_address(&stage);
    stage.check(&[
        ("outside", stage.node_port("a", &web), Want::masqueraded(&WEB)),
        ("outside", second_address(&web), Want::masqueraded(&WEB)),
    ]);
}

pub(crate) fn root_source_ranges_keep_strangers_from_the_load_balancer(setting: &Setting) {
    let ranged = |name, number, ranges: [&str; 2]| {
        Service::new(name, number).on(&WEB).load_balanced().with("loadBalancerSourceRanges", json!(ranges))
    };
    let friends = ranged("friends", 1, ["172.16.0.0/24", "fd00:172::/64"]);
    let pods = ranged("pods", 2, ["10.244.0.0/16", "fd00:10:244::/48"]);
    let Some(stage) = setting.stage(&[&friends, &pods]) else { return };
    stage.check(&[
        ("outside", stage.load_balancer_ip(&friends), Want::masqueraded(&WEB)),
        ("client-a", stage.load_balancer_ip(&friends), Want::Silent),
        ("outside", stage.load_balancer_ip(&pods), Want::Silent),
        ("client-b", stage.load_balancer_ip(&pods), Want::masqueraded(&WEB)),
        // Only the load balancer's address has the ranges.
        ("outside", stage.node_port("a", &pods), Want::masqueraded(&WEB)),
        ("client-a", stage.cluster_ip(&friends), Want::kept(&WEB)),
    ]);
}

pub(crate) fn root_external_ips_are_served(setting: &Setting) {
    let web = Service::new("web", 1).on(&["web-a-0", "web-b-0"]).externally();
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let both = Want::masqueraded(&["web-a-0", "web-b-0"]);
    stage.check(&[
        ("outside", stage.external_ip(&web), both.clone()),
        ("client-a", stage.external_ip(&web), both.clone()),
        ("b", stage.external_ip(&web), both.clone()),
    ]);
    stage.route_services_via("b");
    stage.check(&[("outside", stage.external_ip(&web), both)]);
}

pub(crate) fn root_a_service_of_one_family_ignores_the_other(setting: &Setting) {
    let four = Service::new("four", 4).on(&WEB).only(Family::V4);
    let six = Service::new("six", 6).on(&WEB).only(Family::V6);
    let Some(stage) = setting.stage(&[&four, &six]) else { return };
    for (web, family, other) in [(&four, Family::V4, Family::V6), (&six, Family::V6, Family::V4)] {
        stage.check_of(
            &[family],
            &[
                ("client-a", stage.cluster_ip(web), Want::kept(&WEB)),
                ("outside", stage.node_port("b", web), Want::masqueraded(&WEB)),
            ],
        );
        stage.check_of(&[other], &[("outside", stage.node_port("b", web), Want::Untouched)]);
    }
}

/// Node a has these addresses, too.
pub(crate) const SECOND: [&str; 2] = ["192.168.0.101", "fd00:192::101"];

fn second_address(web: &Service) -> Target {
    let port = web.node_port();
    let ip = |family| if family == Family::V4 { SECOND[0] } else { SECOND[1] };
    Target::new("the second address of a", "a", move |family| {
        SocketAddr::new(ip(family).parse::<IpAddr>().unwrap(), port)
    })
}

/// Gives node a its second addresses, and waits until its portway has heard of them.
pub(crate) fn add_address(stage: &Stage) {
    let [v4, v6] = SECOND;
    stage
        .place("a")
        .ip([format!("addr add {v4}/24 dev eth0"), format!("addr add {v6}/64 dev eth0 nodad")])
        .unwrap();
    until("node a knows its new addresses", || {
        let picture = stage.picture("a");
        let known = picture.cluster().local_addresses();
        SECOND.iter().all(|ip| known.is_some_and(|known| known.contains(&ip.parse().unwrap())))
    });
    stage.wait_for_sync("a");
}
