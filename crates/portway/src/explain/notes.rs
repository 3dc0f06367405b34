//! What a reader should know beside the answer: where the question itself may mislead, and who names an address that is no
//! frontend.

use std::net::IpAddr;

use dataplane::checks::{Finding, Severity};
use model::facts::IpMode;
use model::fate::Payload;
use model::net::parse_ip;
use model::{Answer, DetectLocal, Fate, Packet, Why};
use observe::picture::Picture;
use observe::status::Status;
use standalone::objects::{Kind, Object};

use crate::kube::{cluster_ips, items, pod_ips, text};
use crate::table::printable;

/// What is odd about the question.
pub(super) fn on_question(picture: &Picture, packet: &Packet) -> Vec<String> {
    let notes = [no_interface(picture, packet), no_such_node(picture), from_another_node(picture, packet)];
    notes.into_iter().flatten().collect()
}

/// Who names the address or the port of a packet that is left alone.
pub(super) fn on_answer(picture: &Picture, packet: &Packet, answer: &Answer) -> Vec<String> {
    let is_no_frontend = |why: &Why| matches!(why, Why::NoFrontend { .. } | Why::NodePortElsewhere { .. });
    if answer.fate != Fate::Untouched || !answer.why.iter().any(is_no_frontend) {
        return Vec::new();
    }
    let address = packet.destination;
    let mut notes = refused_claims(picture, address);
    notes.extend(proxied(picture, address));
    notes.extend(closed_node_ports(picture, packet));
    notes
}

/// What on this host decides the way of the packet, whatever our rules do.
pub(super) fn on_host(findings: &[Finding]) -> Vec<String> {
    let note = |Finding { severity, check, cause, traffic, fix }: &Finding| {
        let what = match severity {
            Severity::Error => "this host loses it",
            Severity::Possible => "this host may lose it",
        };
        printable(&format!("{what}, by the check `{check}`: {cause} ({traffic}). Fix: {fix}"))
    };
    findings.iter().map(note).collect()
}

/// The model does not know the rules of a previous process that are kept: the kernel may still serve what it calls unserved.
pub(super) fn on_leftovers(status: &Status, answer: &Answer) -> Option<String> {
    let is_served = matches!(answer.fate, Fate::OneOf(_));
    (status.keeps_leftovers && !is_served).then(|| {
        printable(&format!(
            "Rules of the previous process stay in the kernel, so the packet may be served as before, until this is corrected: {}",
            status.problems.first().map_or("see `portway status`", String::as_str)
        ))
    })
}

fn no_interface(picture: &Picture, packet: &Packet) -> Option<String> {
    let is_by_interface = matches!(
        picture.cluster().config().detect_local,
        DetectLocal::BridgeInterface(_) | DetectLocal::InterfaceNamePrefix(_)
    );
    let is_foreign = !picture.table().node().is_own(packet.source);
    (is_by_interface && packet.interface.is_none() && is_foreign).then(|| {
        "Pods are known by their interface here, and none was given: the sender counts as no pod. Add `--interface NAME`."
            .to_owned()
    })
}

/// Nodes are given, and this is none of them: nothing is local then, and node ports answer at this host's addresses.
fn no_such_node(picture: &Picture) -> Option<String> {
    let node = &picture.table().node().name;
    let mut names = of_kind(picture, Kind::Node).map(|object| &*object.key.name).peekable();
    let first = names.peek().copied()?;
    (!names.any(|name| name == node.as_str())).then(|| {
        format!(
            "This node is called `{node}`, and no Node of that name is given: no endpoint is local to it. Add \
             `--node-name NAME`, as in `--node-name {first}`."
        )
    })
}

/// A packet of a Pod meets the rules of the node that the Pod runs on.
fn from_another_node(picture: &Picture, packet: &Packet) -> Option<String> {
    let has_source =
        |object: &&Object| pod_ips(&object.value).into_iter().any(|ip| parse_ip(ip) == Some(packet.source));
    let pod = of_kind(picture, Kind::Pod).find(has_source)?;
    let (its, ours) = (text(&pod.value, "spec.nodeName")?, &picture.table().node().name);
    (its != ours).then(|| {
        format!(
            "{} runs on node {its}, where its packets are judged; this is the answer of node {ours}. Add `--node-name \
             {its}`.",
            pod.key
        )
    })
}

/// Services that name the address, and do not have it: each has a report with the reason.
fn refused_claims(picture: &Picture, address: IpAddr) -> Vec<String> {
    let is_claim = |report: &&model::Report| {
        report.object.kind == Kind::Service.name() && parse_ip(&report.value) == Some(address)
    };
    let claims = picture.reports().into_iter().filter(is_claim);
    claims
        .map(|claim| format!("{} names it ({}), but: {}.", claim.object, claim.field, claim.problem))
        .collect()
}

fn proxied(picture: &Picture, address: IpAddr) -> Vec<String> {
    let services = picture.cluster().services().filter(|service| {
        let external = service.external.iter();
        let mut balancers = external.flat_map(|external| &external.load_balancer_ips);
        balancers.any(|balancer| balancer.ip == address && balancer.mode == IpMode::Proxy)
    });
    let note = |service: &model::facts::Service| {
        format!(
            "Service {} names it (status.loadBalancer.ingress), but with ipMode Proxy: the load balancer itself answers \
             there, and comes in by the node port.",
            service.name
        )
    };
    services.map(note).collect()
}

/// Node ports of Services that have no cluster IP are not served.
fn closed_node_ports(picture: &Picture, packet: &Packet) -> Vec<String> {
    let Payload::Transport { protocol, port } = packet.payload else { return Vec::new() };
    if !picture.table().node().is_own(packet.destination) {
        return Vec::new();
    }
    let mut notes = Vec::new();
    for service in of_kind(picture, Kind::Service).filter(|service| cluster_ips(&service.value).is_empty()) {
        for (index, item) in items(&service.value, "spec.ports").iter().enumerate() {
            let is_of_protocol = text(item, "protocol").unwrap_or("TCP") == protocol.upper_name();
            if is_of_protocol && item["nodePort"].as_u64() == Some(u64::from(port)) {
                let field = format!("spec.ports[{index}].nodePort");
                notes.push(format!(
                    "{} names the port ({field}), but has no cluster IP, and is not served without: `portway check` tells why.",
                    service.key
                ));
            }
        }
    }
    notes
}

fn of_kind(picture: &Picture, kind: Kind) -> impl Iterator<Item = &Object> {
    picture.objects().values().filter(move |object| object.key.kind == kind)
}
