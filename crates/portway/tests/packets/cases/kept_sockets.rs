//! A UDP client keeps one socket while its pod becomes ready, listens on another port and is replaced.
//!
//! At every frontend, under every traffic policy, from a pod, from the node's own network and from outside. The client sends the next
//! datagram from the same port, so the connection tracker or a relay's session decides where it goes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use playground::{Family, Ports, Reply, patient};

use crate::manifest::{Service, TARGET_PORT};
use crate::stage::{Setting, Stage};
use crate::talk::SILENCE;

use super::localhost::localhost;

/// The pod at first, the one that replaces it on its own node, and the one on the other node.
const POD: &str = "web-a-0";
const BESIDE: &str = "web-a-1";
const ELSEWHERE: &str = "web-b-1";
/// The port to which the Services lead later. Pods serve both ports all the time, so that a stale flow is answered, and noticed.
const OTHER_PORT: u16 = 9090;
/// Rules come before stale flows are deleted: a client may have to ask a few times.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn root_a_kept_udp_socket_follows_its_pod_at_every_frontend(setting: &Setting) {
    let [plain, inside, outer] = services();
    let unready = [&plain, &inside, &outer].map(|web| web.clone().not_ready(POD));
    let setting = setting.with(&["--nodeport-addresses", "localhost,primary"]);
    let Some(mut stage) = setting.stage(&[&unready[0], &unready[1], &unready[2]]) else { return };
    for pod in [POD, BESIDE, ELSEWHERE] {
        let ports = Ports { udp: vec![TARGET_PORT, OTHER_PORT], ..Ports::default() };
        stage.playground.serve(pod, &ports).unwrap();
    }
    let of_family = |family| clients(&stage, &services(), family);
    let clients: Vec<Client> = Family::ALL.into_iter().flat_map(of_family).collect();
    nobody_is_answered(&clients);
    // The pod becomes ready.
    stage.apply_all(&services().map(|web| web.on(&[POD])));
    all_reach(&clients, |_| (POD, TARGET_PORT));
    // The same pod listens on another port.
    stage.apply_all(&services().map(|web| web.on(&[POD]).target_port(OTHER_PORT)));
    all_reach(&clients, |_| (POD, OTHER_PORT));
    // Another pod takes its place: anywhere, or on the same node where the policy asks for that.
    let moved = [plain.on(&[ELSEWHERE]), inside.on(&[BESIDE]), outer.on(&[BESIDE])];
    stage.apply_all(&moved.map(|web| web.target_port(OTHER_PORT)));
    all_reach(&clients, |client| (if client.service == "plain" { ELSEWHERE } else { BESIDE }, OTHER_PORT));
}

/// One without a policy, one for clients on the node of its pod, one for outside clients of that node.
fn services() -> [Service; 3] {
    let local = |web: Service, policy| web.with(policy, "Local".into());
    [
        Service::new("plain", 1).load_balanced().externally(),
        local(Service::new("inside", 2), "internalTrafficPolicy"),
        local(Service::new("outer", 3).load_balanced().externally(), "externalTrafficPolicy"),
    ]
}

/// Who dials what. A node's name stands for a client in the node's own network (`hostNetwork`).
fn clients(stage: &Stage, [plain, inside, outer]: &[Service; 3], family: Family) -> Vec<Client> {
    let on = |node: &str, web: &Service| stage.place(node).at(family, web.node_port());
    let on_localhost = |web: &Service| SocketAddr::new(localhost(family), web.node_port());
    [
        ("client-a", plain, plain.cluster_ip(family)),
        ("a", plain, plain.cluster_ip(family)),
        ("outside", plain, on("b", plain)),
        ("b", plain, on("a", plain)),
        ("a", plain, on("a", plain)),
        ("outside", plain, plain.load_balancer_ip(family)),
        ("client-b", plain, plain.load_balancer_ip(family)),
        ("a", plain, plain.load_balancer_ip(family)),
        ("outside", plain, plain.external_ip(family)),
        ("a", plain, on_localhost(plain)),
        ("client-a", inside, inside.cluster_ip(family)),
        ("a", inside, inside.cluster_ip(family)),
        ("outside", outer, on("a", outer)),
        ("outside", outer, outer.load_balancer_ip(family)),
        ("outside", outer, outer.external_ip(family)),
        ("client-b", outer, outer.load_balancer_ip(family)),
        ("a", outer, on_localhost(outer)),
    ]
    .map(|(from, web, to)| Client::new(stage, from, web, to))
    .into()
}

/// A client with its socket.
struct Client {
    from: &'static str,
    service: String,
    to: SocketAddr,
    socket: UdpSocket,
}

impl Client {
    fn new(stage: &Stage, from: &'static str, web: &Service, to: SocketAddr) -> Self {
        let any: IpAddr = match Family::of(to.ip()) {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        stage.talk.count(Family::of(to.ip()), model::Protocol::Udp, 1);
        let socket = stage.place(from).run(|| UdpSocket::bind((any, 0)).unwrap()).unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(patient(SILENCE))).unwrap();
        Self { from, service: web.name().to_owned(), to, socket }
    }

    /// Sends a datagram. The answer may be one to an earlier datagram, and an error that of an earlier refusal.
    fn ask(&self) -> Option<Reply> {
        self.socket.send(b"who?\n").ok()?;
        let mut answer = [0; 512];
        let size = self.socket.recv(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..size]).trim_end().parse().unwrap())
    }

    fn reaches(&self, (pod, port): (&str, u16)) -> bool {
        self.ask().is_some_and(|reply| reply.server == pod && reply.to.port() == port)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} of {}", self.from, self.to, self.service)
    }
}

/// Each sends a datagram, and none is answered, since no endpoint is ready. All at once: some are refused, others hear nothing.
fn nobody_is_answered(clients: &[Client]) {
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(move || {
                let answer = client.ask();
                assert!(answer.is_none(), "{client}: {} is not ready, and answered", answer.unwrap());
            });
        }
    });
}

/// Each reaches this pod at this port.
fn all_reach(clients: &[Client], goal: impl Fn(&Client) -> (&'static str, u16)) {
    let begun = Instant::now();
    let mut left: Vec<&Client> = clients.iter().collect();
    while !left.is_empty() {
        left.retain(|client| !client.reaches(goal(client)));
        let is_over = begun.elapsed() > patient(LIMIT);
        let told = || left.iter().map(|client| format!("{client}: not at {:?}\n", goal(client)));
        assert!(left.is_empty() || !is_over, "{}", told().collect::<String>());
    }
}
