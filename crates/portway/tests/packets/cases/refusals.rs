//! Who is refused learns it at once; who is dropped hears nothing.

use std::net::SocketAddr;

use model::Protocol;
use model::fate::Refusal;
use playground::{Family, Outcome, Ping, Refusal as Answer, ping};

use crate::check::{Target, Want, is_soon};
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::{PATIENCE, SILENCE};

const PINGS: usize = 3;

pub(crate) fn root_a_service_without_endpoints_refuses_at_once(setting: &Setting) {
    let dead = Service::new("dead", 1).load_balanced().externally();
    let living = Service::new("living", 2).on(&["web-a-0"]);
    let Some(stage) = setting.stage(&[&dead, &living]) else { return };
    answer_every_packet(&stage);
    stage.check(&[
        ("client-a", stage.cluster_ip(&dead), Want::Refused),
        ("outside", stage.cluster_ip(&dead), Want::Refused),
        ("a", stage.cluster_ip(&dead), Want::Refused),
        ("outside", stage.node_port("a", &dead), Want::Refused),
        ("outside", stage.node_port("b", &dead), Want::Refused),
        ("client-b", stage.node_port("b", &dead), Want::Refused),
        ("outside", stage.load_balancer_ip(&dead), Want::Refused),
        ("client-b", stage.load_balancer_ip(&dead), Want::Refused),
        ("outside", stage.external_ip(&dead), Want::Refused),
        ("client-a", stage.cluster_ip(&living), Want::kept(&["web-a-0"])),
    ]);
}

pub(crate) fn root_undefined_ports_unallocated_addresses_and_pings(setting: &Setting) {
    let web = Service::new("web", 1).on(&["web-a-0"]);
    let Some(stage) = setting.stage(&[&web]) else { return };
    answer_every_packet(&stage);
    let promises = stage.mode().semantics();
    let (undefined, unallocated) = (promises.undefined_port_of_cluster_ip, promises.unallocated_service_ip);
    stage.check(&[
        ("client-a", undefined_port(&stage, &web), undefined.into()),
        ("outside", undefined_port(&stage, &web), undefined.into()),
        ("a", undefined_port(&stage, &web), undefined.into()),
        ("client-a", unallocated_address(&stage), unallocated.into()),
        ("outside", unallocated_address(&stage), unallocated.into()),
        ("b", unallocated_address(&stage), unallocated.into()),
    ]);
    for client in ["client-a", "outside", "a"] {
        for family in Family::ALL {
            check_ping(&stage, client, web.cluster_ip(family));
        }
    }
}

/// Its packets go the way of all others: here to a router that knows no such network, and says so.
pub(crate) fn root_a_service_of_another_proxy_is_left_alone(setting: &Setting) {
    let other = Service::new("other", 1).on(&["web-a-0"]);
    let other = other.label("service.kubernetes.io/service-proxy-name", "another");
    let Some(stage) = setting.stage(&[&other]) else { return };
    stage.check(&[
        ("client-a", stage.cluster_ip(&other), Want::Untouched),
        ("outside", stage.node_port("a", &other), Want::Untouched),
    ]);
    for family in Family::ALL {
        let to = other.cluster_ip(family);
        // A router says to each client five times that there is no way, and from then on once a second (`route.error_burst` and
        // `error_cost`, which a namespace has not): those above have heard it already.
        until(&format!("client-a hears that there is no way to {to}"), || {
            let outcome = stage.talk.ask(stage.place("client-a"), Protocol::Udp, to, SILENCE);
            assert!(!outcome.is_answered(), "client-a -> {to} udp: {outcome}");
            matches!(outcome, Outcome::Refused { refusal: Answer::Unreachable, .. })
        });
    }
}

/// Kernels send few ICMP errors to each client in a second. This is about whether they are sent.
fn answer_every_packet(stage: &Stage) {
    let unlimited = [("ipv4/icmp_ratelimit", "0"), ("ipv6/icmp/ratelimit", "0")];
    stage.playground.nodes().iter().for_each(|node| node.place().set(&unlimited).unwrap());
}

fn undefined_port(stage: &Stage, web: &Service) -> Target {
    let web = web.clone();
    Target::new("a port that web does not have", stage.gateway, move |family| {
        SocketAddr::new(web.cluster_ip(family).ip(), 8888)
    })
}

fn unallocated_address(stage: &Stage) -> Target {
    let nobody = Service::new("nobody", 9);
    Target::new("an address that no Service has", stage.gateway, move |family| nobody.cluster_ip(family))
}

fn check_ping(stage: &Stage, client: &str, to: SocketAddr) {
    let promise = stage.mode().semantics().ping_of_cluster_ip;
    let limit = if promise == Refusal::Reject { PATIENCE } else { SILENCE };
    let is_right = |pinged: &Ping| match promise {
        Refusal::Reject => matches!(pinged, Ping::Unreachable { elapsed } if is_soon(*elapsed)),
        Refusal::Drop => *pinged == Ping::TimedOut,
        Refusal::Untouched => true,
    };
    // The machine may be busy elsewhere just then.
    let pings: Vec<Ping> = (0..PINGS).map(|_| ping(stage.place(client), to.ip(), limit)).collect();
    assert!(pings.iter().any(is_right), "{client} pings {}: {pings:?}, promised is {promise:?}", to.ip());
}
