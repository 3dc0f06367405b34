//! Real connections through the kernel's IPVS, against what its twin says of the same packet.
//!
//! Everything is on one host: virtual addresses on a dummy link, servers on its loopback, and the client, whose packets IPVS
//! takes on their way out.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use kernel::IpProtocol;
use kernel::host::{ChangeHost, ThisMachine};
use kernel::ipvs::{Family, Ipvs, RealServer, Request, VirtualServer, What};
use kernel::nft;
use kernel::sysctl::{self, Sysctls};
use kernel::xtables::{Programs, Variant, Xtables as _};
use kernel_sim::ipvs::{Answer, Share, Simulated};
use kernel_sim::nft::{Path, SimPacket};

use super::{at, common};

const LIMIT: Duration = Duration::from_secs(20);
const MARK: u32 = 7;
/// Packets to this port are marked.
const MARKED_PORT: u16 = 81;
const SERVER_PORTS: [u16; 3] = [8081, 8082, 8083];

/// How often each server answered; `None`: refused.
type Reached = BTreeMap<Option<SocketAddr>, usize>;

fn of(family: Family, v4: &str, v6: &str) -> IpAddr {
    if family == Family::V4 { v4.parse().unwrap() } else { v6.parse().unwrap() }
}

fn virtual_ip(family: Family) -> IpAddr {
    of(family, "10.96.0.1", "fd00:96::1")
}

fn server(family: Family, port: u16) -> SocketAddr {
    SocketAddr::new(of(family, "10.1.0.1", "fd00:1::1"), port)
}

/// Both kernels take all steps, and every packet.
pub(super) fn walk(real: &mut impl Ipvs, twin: &mut Simulated) {
    set_up();
    let mut connections = 0;
    for family in Family::ALL {
        serve(family);
        for (frontend, step) in steps(family) {
            assert_eq!(real.run(&step).unwrap(), []);
            assert_eq!(twin.run(&step).unwrap(), []);
            let expected = expected(twin, frontend);
            let times: usize = expected.values().sum();
            let reached = reach(frontend, times);
            assert_eq!(reached, expected, "{frontend} after {step:#?}");
            connections += times;
        }
    }
    eprintln!("counted: {connections} connections through the real IPVS as the twin says");
}

fn set_up() {
    assert!(common::ip(&["addr add 10.1.0.1/32 dev lo", "addr add fd00:1::1/128 dev lo nodad"]));
    ThisMachine.make_dummy("vip0").unwrap();
    assert_eq!(ThisMachine.add_addresses("vip0", &Family::ALL.map(virtual_ip)).unwrap(), []);
    for name in ["conntrack", "expire_quiescent_template", "expire_nodest_conn"] {
        sysctl::ThisMachine.write(&format!("net/ipv4/vs/{name}"), "1").unwrap();
    }
    for mut door in Programs::find().programs.into_iter().filter(|door| door.variant() == Variant::Nft) {
        let rule =
            format!("-A OUTPUT -p tcp -m tcp --dport {MARKED_PORT} -j MARK --set-xmark {MARK:#x}/0xffffffff");
        door.restore(&format!("*mangle\n{rule}\nCOMMIT\n")).unwrap();
    }
}

/// Servers that say their own port; also one at the marked port.
fn serve(family: Family) {
    for port in SERVER_PORTS.into_iter().chain([MARKED_PORT]) {
        let listener = TcpListener::bind(server(family, port)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ended = stream.and_then(|mut stream| stream.write_all(&port.to_be_bytes()));
            }
        });
    }
}

/// The frontend to connect to after each step.
fn steps(family: Family) -> Vec<(SocketAddr, Vec<Request>)> {
    let frontend = SocketAddr::new(virtual_ip(family), 80);
    let marked = SocketAddr::new(virtual_ip(family), MARKED_PORT);
    let (what, mark) = (What::Address(frontend, IpProtocol::TCP), What::Mark(MARK, family));
    let real = |at: usize, weight| RealServer::masquerading(server(family, SERVER_PORTS[at]), weight);
    let weigh = |what, at, weight| Request::ChangeServer(what, real(at, weight));
    let persistent = |what| VirtualServer { persistence_s: Some(600), ..VirtualServer::new(what, "rr") };
    vec![
        (frontend, vec![Request::Add(VirtualServer::new(what, "rr"))]),
        (frontend, vec![Request::AddServer(what, real(0, 1)), Request::AddServer(what, real(1, 1))]),
        (frontend, vec![Request::AddServer(what, real(2, 3))]),
        (frontend, vec![weigh(what, 1, 0)]),
        (frontend, vec![Request::Change(VirtualServer::new(what, "wrr"))]),
        (frontend, vec![Request::Change(VirtualServer::new(what, "fo"))]),
        (frontend, vec![weigh(what, 0, 0), weigh(what, 2, 0)]),
        (frontend, vec![weigh(what, 0, 1), Request::Change(persistent(what))]),
        // The client had the first, which takes nobody any more.
        (frontend, vec![weigh(what, 0, 0), weigh(what, 1, 1)]),
        // It comes back to the second, whoever else is there.
        (frontend, vec![weigh(what, 0, 1), weigh(what, 2, 1)]),
        (marked, vec![Request::Add(VirtualServer::new(mark, "rr")), Request::AddServer(mark, real(0, 1))]),
        (marked, vec![Request::AddServer(mark, real(1, 1))]),
        // With persistence the kernel keeps the packet's own port.
        (marked, vec![Request::Change(persistent(mark))]),
        // Without a port of its own a server gets the packet's.
        (
            marked,
            vec![
                Request::Change(VirtualServer::new(mark, "rr")),
                Request::DeleteServer(mark, server(family, SERVER_PORTS[0])),
                Request::DeleteServer(mark, server(family, SERVER_PORTS[1])),
                Request::AddServer(mark, RealServer::masquerading(server(family, 0), 1)),
            ],
        ),
        (marked, vec![Request::DeleteServer(mark, server(family, 0))]),
    ]
}

/// What the twin says of so many connections that all shares come out even. All of them are one client's.
fn expected(twin: &Simulated, frontend: SocketAddr) -> Reached {
    let packet = packet(frontend);
    match twin.answer(&packet, Duration::ZERO) {
        Answer::Ignored => panic!("{frontend} has a virtual server"),
        Answer::Refused => BTreeMap::from([(None, 1)]),
        Answer::OneOf(shares) => {
            twin.deliver(&packet, shares[0].server, Duration::ZERO);
            let again = twin.answer(&packet, Duration::ZERO);
            let Answer::OneOf(shares) = again else { panic!("{again:?}") };
            let mut reached = Reached::new();
            for Share { server, times } in shares {
                *reached.entry(Some(server)).or_default() += 2 * usize::try_from(times).unwrap();
            }
            reached
        }
    }
}

fn packet(frontend: SocketAddr) -> SimPacket {
    let family = if frontend.is_ipv4() { nft::Family::V4 } else { nft::Family::V6 };
    SimPacket {
        family,
        path: Path::Output,
        source: frontend.ip(),
        destination: frontend.ip(),
        protocol: IpProtocol::TCP,
        port: Some(frontend.port()),
        mark: if frontend.port() == MARKED_PORT { MARK } else { 0 },
        priority: 0,
        local: [frontend.ip()].into(),
    }
}

fn reach(frontend: SocketAddr, times: usize) -> Reached {
    let mut reached = Reached::new();
    for _ in 0..times {
        let answered = connect(frontend).map(|port| {
            let family = Family::of(frontend.ip());
            server(family, port)
        });
        *reached.entry(answered).or_default() += 1;
    }
    reached
}

/// The port of the server that answered, or `None` if the connection was refused.
fn connect(frontend: SocketAddr) -> Option<u16> {
    let mut port = [0; 2];
    match TcpStream::connect_timeout(&frontend, LIMIT) {
        Ok(mut stream) => {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.read_exact(&mut port).unwrap();
            Some(u16::from_be_bytes(port))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => None,
        Err(error) => panic!("{frontend}: {error}"),
    }
}

#[test]
fn marks_go_before_addresses_and_a_client_is_as_wide_as_its_mask() {
    let mut twin = Simulated::default();
    let (frontend, one, other) = (at("10.96.0.1:81"), at("10.1.0.1:1"), at("10.1.0.2:1"));
    let (what, mark) = (What::Address(frontend, IpProtocol::TCP), What::Mark(MARK, Family::V4));
    let wide = VirtualServer { persistence_s: Some(10), client_bits: 24, ..VirtualServer::new(what, "rr") };
    let requests = [
        Request::Add(wide),
        Request::Add(VirtualServer::new(mark, "rr")),
        Request::AddServer(what, RealServer::masquerading(one, 1)),
        Request::AddServer(what, RealServer::masquerading(other, 1)),
    ];
    assert_eq!(twin.run(&requests).unwrap(), []);
    let marked = packet(frontend);
    assert_eq!(twin.answer(&marked, Duration::ZERO), Answer::Refused, "the mark's has no server");
    let from = |source: &str| SimPacket { mark: 0, source: source.parse().unwrap(), ..marked.clone() };
    let servers = |source: &str, seconds| match twin.answer(&from(source), Duration::from_secs(seconds)) {
        Answer::OneOf(shares) => shares.iter().map(|share| share.server).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(servers("192.168.1.1", 0), [one, other]);
    twin.deliver(&from("192.168.1.1"), other, Duration::ZERO);
    assert_eq!(servers("192.168.1.77", 9), [other], "a neighbour is the same client");
    assert_eq!(servers("192.168.2.1", 9), [one, other], "another network is another");
    assert_eq!(servers("192.168.1.1", 10), [one, other], "it is over");
}
