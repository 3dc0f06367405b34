//! Large payloads arrive whole, in both directions: a stream of 3 MB, and a datagram that must be fragmented.
//!
//! Through every frontend, and so through both relays: that of userspace mode, and that of node ports on localhost.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use playground::{Family, Place, patient};

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

use super::localhost::localhost;

/// On the other node than most clients, so that the wire and its MTU of 1500 bytes are in between.
const POD: &str = "web-b-0";
/// Beside those of the pod's usual server.
const POD_PORT: u16 = 9090;
const STREAM_SIZE: usize = 3_000_000;
/// Forty-one fragments.
const DATAGRAM_SIZE: usize = 60_000;

pub(crate) fn root_large_payloads_pass_every_frontend_unchanged(setting: &Setting) {
    let web = Service::new("web", 1).on(&[POD]).target_port(POD_PORT).load_balanced().externally();
    let setting = setting.with(&["--nodeport-addresses", "localhost,primary"]);
    let Some(stage) = setting.stage(&[&web]) else { return };
    let sent = [Payloads::new(1), Payloads::new(2)];
    thread::scope(|scope| {
        for family in Family::ALL {
            let (stage, web, sent) = (&stage, &web, &sent);
            scope.spawn(move || pass_every_frontend(stage, web, family, sent));
        }
    });
}

fn pass_every_frontend(stage: &Stage, web: &Service, family: Family, sent: &[Payloads; 2]) {
    let pod = Pod::open(stage.place(POD), family);
    let frontends = [
        ("client-a", "the cluster IP", web.cluster_ip(family)),
        ("a", "the cluster IP", web.cluster_ip(family)),
        ("outside", "the node port", stage.place("a").at(family, web.node_port())),
        ("outside", "the external IP", web.external_ip(family)),
        ("outside", "the load balancer IP", web.load_balancer_ip(family)),
        ("a", "the node port on localhost", SocketAddr::new(localhost(family), web.node_port())),
    ];
    for (from, name, to) in frontends {
        let told = format!("{from} -> {name} ({to})");
        pod.exchange_streams(stage.place(from), to, sent, &told);
        stage.talk.count(family, model::Protocol::Tcp, 1);
        let is_own = stage.way().has_addresses_of_services() && from == "a" && !to.ip().is_loopback();
        if is_own {
            is_told_that_it_is_too_long(stage.place(from), to, &sent[0].datagram, &told);
        } else {
            pod.exchange_datagrams(stage.place(from), to, sent, &told);
        }
        stage.talk.count(family, model::Protocol::Udp, 1);
    }
}

/// What one side sends.
struct Payloads {
    stream: Vec<u8>,
    datagram: Vec<u8>,
}

impl Payloads {
    /// Bytes without a pattern (xorshift), so that whatever is lost, repeated or moved is noticed.
    fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let mut bytes = |size: usize| (0..size.div_ceil(8)).flat_map(|_| next()).take(size).collect();
        Self { stream: bytes(STREAM_SIZE), datagram: bytes(DATAGRAM_SIZE) }
    }
}

/// The pod's side, of one family.
struct Pod {
    listener: TcpListener,
    socket: UdpSocket,
}

impl Pod {
    fn open(place: &Place, family: Family) -> Self {
        let here = place.at(family, POD_PORT);
        let open = || (TcpListener::bind(here).unwrap(), UdpSocket::bind(here).unwrap());
        let (listener, socket) = place.run(open).unwrap();
        listener.set_nonblocking(true).unwrap();
        socket.set_read_timeout(Some(patient(PATIENCE))).unwrap();
        Self { listener, socket }
    }

    /// The client sends all and ends its direction; then the pod does the same.
    fn exchange_streams(&self, from: &Place, to: SocketAddr, sent: &[Payloads; 2], told: &str) {
        let dial = || TcpStream::connect_timeout(&to, patient(PATIENCE));
        let client = from.run(dial).unwrap().unwrap_or_else(|error| panic!("{told}: {error}"));
        // A relay accepts before it dials the pod.
        let mut accepted = None;
        until(&format!("{told} reaches the pod"), || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        let (pod, _) = accepted.unwrap();
        pod.set_nonblocking(false).unwrap();
        let [question, answer] = sent.each_ref().map(|payloads| payloads.stream.as_slice());
        thread::scope(|scope| {
            scope.spawn(|| {
                is_same(&read_all(&pod, told), question, &format!("{told}, stream to the pod"));
                write_all(&pod, answer, told);
            });
            write_all(&client, question, told);
            is_same(&read_all(&client, told), answer, &format!("{told}, stream to the client"));
        });
    }

    /// One datagram there, one back.
    fn exchange_datagrams(&self, from: &Place, to: SocketAddr, sent: &[Payloads; 2], told: &str) {
        let client = udp_socket(from, to);
        let [question, answer] = sent.each_ref().map(|payloads| payloads.datagram.as_slice());
        let mut buffer = vec![0; usize::from(u16::MAX)];
        client.send(question).unwrap();
        let received = self.socket.recv_from(&mut buffer);
        let (size, seen) = received.unwrap_or_else(|error| panic!("{told}, datagram to the pod: {error}"));
        is_same(&buffer[..size], question, &format!("{told}, datagram to the pod"));
        self.socket.send_to(answer, seen).unwrap();
        let received = client.recv(&mut buffer);
        let size = received.unwrap_or_else(|error| panic!("{told}, datagram to the client: {error}"));
        is_same(&buffer[..size], answer, &format!("{told}, datagram to the client"));
    }
}

fn udp_socket(from: &Place, to: SocketAddr) -> UdpSocket {
    let any = SocketAddr::new(if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
    let socket = from.run(|| UdpSocket::bind(any).unwrap()).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(patient(PATIENCE))).unwrap();
    socket
}

/// Where an address of a Service is this host's, its own datagrams leave by the loopback link, whose MTU is 65,536. IPVS finds that
/// they do not fit the wire, and refuses to fragment them (see the README of the mode).
fn is_told_that_it_is_too_long(from: &Place, to: SocketAddr, datagram: &[u8], told: &str) {
    let client = udp_socket(from, to);
    client.send(datagram).unwrap();
    let error = client.recv(&mut [0; 1]).expect_err("nothing is answered");
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{told}: {error}");
}

fn write_all(mut stream: &TcpStream, bytes: &[u8], told: &str) {
    stream.set_write_timeout(Some(patient(PATIENCE))).unwrap();
    stream.write_all(bytes).unwrap_or_else(|error| panic!("{told}: {error}"));
    stream.shutdown(Shutdown::Write).unwrap();
}

/// All until the other side ends its direction.
fn read_all(mut stream: &TcpStream, told: &str) -> Vec<u8> {
    stream.set_read_timeout(Some(patient(PATIENCE))).unwrap();
    let mut bytes = Vec::with_capacity(STREAM_SIZE);
    stream
        .read_to_end(&mut bytes)
        .unwrap_or_else(|error| panic!("{told}, after {} bytes: {error}", bytes.len()));
    bytes
}

/// Names the first byte that differs: the whole would fill the screen.
#[track_caller]
fn is_same(found: &[u8], sent: &[u8], told: &str) {
    let differs = found.iter().zip(sent).position(|(found, sent)| found != sent);
    assert_eq!(differs, None, "{told}: this byte differs");
    assert_eq!(found.len(), sent.len(), "{told}: the sizes differ");
}
