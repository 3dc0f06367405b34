//! UDP clients keep one socket for hours. What the connection tracker remembers of them must not outlive the Service or the
//! endpoint that it leads to. `kept_sockets` has the changes of endpoints while portway runs.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use kernel::conntrack::{Conntrack as _, Entry, Filter, Netlink};
use playground::{Ask, Family, Held, Place, Protocol};

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

const OLD: [&str; 1] = ["web-a-0"];
const NEW: [&str; 1] = ["web-b-1"];
/// An answer that does not come.
const SILENCE: Duration = Duration::from_millis(300);

/// A pod of node a dials the cluster IP, and an outsider a node port.
fn clients(stage: &Stage, web: &Service) -> Vec<Held> {
    let open = |from, to| Held::open(stage.place(from), Protocol::Udp, to, &Ask::within(PATIENCE)).unwrap();
    let both = |family| {
        let node_port = stage.place("b").at(family, web.node_port());
        [open("client-a", web.cluster_ip(family)), open("outside", node_port)]
    };
    Family::ALL.into_iter().flat_map(both).collect()
}

/// All of them reach this endpoint, at the latest after a few tries: rules come before flows are forgotten.
fn all_reach(clients: &mut [Held], server: &str) {
    for held in clients {
        until(&format!("the same socket reaches {server}"), || held.ping(SILENCE).server() == Some(server));
    }
}

/// Nobody was there to see it happen.
pub(crate) fn root_a_udp_client_whose_pod_was_replaced_during_a_restart_reaches_the_new_one(
    setting: &Setting,
) {
    let web = Service::new("web", 1).on(&OLD);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let mut clients = clients(&stage, &web);
    for node in ["a", "b"] {
        stage.kill(node);
    }
    stage.apply_unheard(&web.clone().on(&NEW));
    for node in ["a", "b"] {
        stage.start(node);
        stage.wait_for_sync(node);
    }
    all_reach(&mut clients, NEW[0]);
}

pub(crate) fn root_a_udp_client_that_spoke_before_any_endpoint_reaches_it_once_there_is_one(
    setting: &Setting,
) {
    let (known, unknown) = (Service::new("known", 1), Service::new("unknown", 2));
    let Some(mut stage) = setting.stage(&[&known]) else { return };
    // At a node port that nobody has yet the host itself answers, and the tracker remembers that.
    let node_port = |web: &Service, family| stage.place("b").at(family, web.node_port());
    let speak = |web: &Service, family| {
        [
            early(stage.place("client-a"), web.cluster_ip(family)),
            early(stage.place("outside"), node_port(web, family)),
        ]
    };
    let spoken: Vec<UdpSocket> = [&known, &unknown]
        .into_iter()
        .flat_map(|web| Family::ALL.map(|family| speak(web, family)))
        .flatten()
        .collect();
    stage.apply(&known.clone().on(&OLD));
    stage.apply(&unknown.clone().on(&OLD));
    for socket in spoken {
        let to = socket.peer_addr().unwrap();
        until(&format!("the socket that spoke to {to} too early is answered"), || is_answered(&socket));
    }
}

/// A socket that has spoken to somebody who is not there.
fn early(from: &Place, to: SocketAddr) -> UdpSocket {
    let local = SocketAddr::new(from.address(Family::of(to.ip())), 0);
    let socket = from.run(|| UdpSocket::bind(local).unwrap()).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    assert!(!is_answered(&socket), "nobody is there yet");
    socket
}

/// A refusal of earlier may still be waiting at the socket.
fn is_answered(socket: &UdpSocket) -> bool {
    let _ = socket.send(b"who?\n");
    socket.recv(&mut [0; 512]).is_ok()
}

/// The pod's address belongs to somebody else by then.
pub(crate) fn root_flows_of_a_deleted_service_do_not_leak_to_the_pod(setting: &Setting) {
    let web = Service::new("web", 1).on(&OLD);
    let other = Service::new("other", 2).on(&OLD);
    let Some(mut stage) = setting.stage(&[&web, &other]) else { return };
    let mut clients = clients(&stage, &web);
    all_reach(&mut clients, OLD[0]);
    stage.delete(&web);
    for held in &mut clients {
        until("nobody answers any more", || held.ping(SILENCE).server().is_none());
    }
}

/// The same, while no portway runs.
pub(crate) fn root_flows_of_a_service_that_was_deleted_during_a_restart_do_not_leak(setting: &Setting) {
    let web = Service::new("web", 1).on(&OLD);
    let other = Service::new("other", 2).on(&OLD);
    let Some(mut stage) = setting.stage(&[&web, &other]) else { return };
    let mut clients = clients(&stage, &web);
    for node in ["a", "b"] {
        stage.kill(node);
    }
    stage.delete_unheard(&web);
    for node in ["a", "b"] {
        stage.start(node);
        stage.wait_for_sync(node);
    }
    for held in &mut clients {
        until("nobody answers any more", || held.ping(SILENCE).server().is_none());
    }
}

pub(crate) fn root_flows_of_others_are_left_alone(setting: &Setting) {
    let web = Service::new("web", 1).on(&OLD);
    let still = Service::new("still", 2).on(&OLD);
    let Some(mut stage) = setting.stage(&[&web, &still]) else { return };
    let mut replaced = clients(&stage, &web);
    let pod = stage.place(OLD[0]).at(Family::V4, 8080);
    let direct = Held::open(stage.place("client-b"), Protocol::Udp, pod, &Ask::within(PATIENCE)).unwrap();
    let beside = Held::open(
        stage.place("client-a"),
        Protocol::Udp,
        still.cluster_ip(Family::V4),
        &Ask::within(PATIENCE),
    )
    .unwrap();
    let others = [direct.local().unwrap(), beside.local().unwrap()];
    let before = entries(&stage, &others);
    assert_eq!(before.len(), 2, "{before:?}");
    stage.apply(&web.clone().on(&NEW));
    all_reach(&mut replaced, NEW[0]);
    assert_eq!(entries(&stage, &others), before);
}

/// The entries that node a has of these clients. An entry that was made anew has another number.
fn entries(stage: &Stage, clients: &[SocketAddr]) -> Vec<Entry> {
    let is_theirs = |entry: &Entry| {
        let source: (IpAddr, u16) = entry.original.source;
        clients.iter().any(|client| source == (client.ip(), client.port()))
    };
    let list = || {
        let mut found = Vec::new();
        let filter = Filter::Protocol(kernel::conntrack::Family::V4, kernel::IpProtocol::UDP);
        let mut tracker = Netlink::open().unwrap();
        tracker.visit(&filter, &mut |entry| found.extend(is_theirs(entry).then_some(*entry))).unwrap();
        found
    };
    let mut found = stage.place("a").run(list).unwrap();
    found.sort_by_key(|entry| entry.original.source);
    found
}
