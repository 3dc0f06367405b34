//! What the kernel has carried and counted is told on the metrics port.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};

use playground::Family;
use playground::namespace::socket::RawSocket;

use super::ALL;
use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

const PORT: u16 = 10249;
const DIALS: u64 = 8;

pub(crate) fn root_what_virtual_servers_carried_is_counted(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let options = ["--metrics-bind-address", "127.0.0.1:10249"];
    let Some(stage) = setting.with(&options).stage(&[&web]) else { return };
    for family in Family::ALL {
        let to = web.cluster_ip(family);
        for _ in 0..DIALS {
            let dialled = stage
                .place("client-a")
                .run(|| TcpStream::connect_timeout(&to, playground::patient(PATIENCE)));
            let mut stream = dialled.unwrap().unwrap();
            stream.write_all(b"hello\n").unwrap();
        }
        let of_family = format!("ip_family=\"{}\"", if family == Family::V4 { "IPv4" } else { "IPv6" });
        let count = |name: &str| -> u64 {
            let page = metrics(&stage);
            let is_it = |line: &&str| {
                line.starts_with(name) && line.contains(&of_family) && line.contains("default/web")
            };
            page.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        until("each connection is counted for its service port, and for an endpoint", || {
            count("portway_service_connections_total") == DIALS
                && count("portway_endpoint_connections_total") == DIALS
        });
        assert!(count("portway_service_bytes_in_total") > DIALS * 40, "{}", metrics(&stage));
    }
}

/// Whether packets are dropped as invalid or dial a node port on localhost, in both families, is told before a move to nftables.
pub(crate) fn root_what_a_move_to_nftables_would_change_is_counted(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let options = ["--metrics-bind-address", "127.0.0.1:10249", "--sync-period", "1s"];
    let by_rules = [&options[..], &["--iptables-localhost-nodeports"]].concat();
    for (options, is_by_rules) in [(options.to_vec(), false), (by_rules, true)] {
        let Some(stage) = setting.with(&options).stage(&[&web]) else { return };
        assert_eq!((value(&stage, INVALID), value(&stage, ACCEPTED)), (Some(0), Some(0)));
        for family in Family::ALL {
            send_invalid(&stage, family);
        }
        until("invalid packets are counted", || value(&stage, INVALID) == Some(2 * DIALS));
        // To an address of the node, which is not localhost, and to localhost, where only node ports count.
        assert!(dial(&stage, SocketAddr::new(stage.place("a").address(Family::V4), web.node_port())));
        assert!(!dial(&stage, SocketAddr::from(([127, 0, 0, 1], 9))), "nobody listens there");
        for _ in 0..DIALS {
            for family in Family::ALL {
                assert!(dial(&stage, SocketAddr::new(localhost(family), web.node_port())), "{family:?}");
            }
        }
        until("connections to node ports on localhost are counted", || {
            value(&stage, ACCEPTED) == Some(2 * DIALS)
        });
        if is_by_rules {
            assert!(
                dial(&stage, SocketAddr::from(([127, 9, 9, 9], web.node_port()))),
                "rules serve all of 127/8"
            );
            until("another loopback address is counted", || value(&stage, ACCEPTED) == Some(2 * DIALS + 1));
        }
        goes_on_when_rules_are_written_anew(&stage);
    }
}

/// Somebody flushes the chain whose rule counts: it is written anew with the next comparison, and counts on.
fn goes_on_when_rules_are_written_anew(stage: &Stage) {
    let before = value(stage, INVALID).unwrap();
    let program = stage.way().program().unwrap();
    stage.shell("a", &format!("{program} -F KUBE-FORWARD"));
    until("the rule is there again", || {
        stage.shell("a", &format!("{program}-save -t filter")).contains("--ctstate INVALID -j DROP")
    });
    assert_eq!(value(stage, INVALID), Some(before), "nothing is lost, and nothing counted twice");
    send_invalid(stage, Family::V4);
    until("the new rule counts on", || value(stage, INVALID) == Some(before + DIALS));
}

/// What asks for node ports on localhost, and what cannot be served there, is told in mode nftables.
pub(crate) fn root_what_is_not_served_on_localhost_is_counted(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let nowhere = ["--metrics-bind-address", "127.0.0.1:10249", "--nodeport-addresses", "primary"];
    let Some(stage) = setting.with(&nowhere).stage(&[&web]) else { return };
    for family in Family::ALL {
        let to = SocketAddr::new(localhost(family), web.node_port());
        let count = |protocol: &str| value(&stage, &rejected(family, protocol));
        assert_eq!((count("TCP"), count("UDP"), count("SCTP")), (Some(0), Some(0), Some(0)));
        assert!(!dial(&stage, to), "nobody serves it");
        assert!(!dial(&stage, SocketAddr::new(to.ip(), 9)), "this is no node port");
        send_udp(&stage, to);
        send_udp(&stage, SocketAddr::new(to.ip(), 9));
        send_sctp(&stage, to);
        until("each is counted by its protocol", || {
            (count("TCP"), count("UDP"), count("SCTP")) == (Some(1), Some(1), Some(1))
        });
    }
    drop(stage);
    let listening = ["--metrics-bind-address", "127.0.0.1:10249", "--nodeport-addresses", "localhost"];
    let Some(stage) = setting.with(&listening).stage_without_portways(&[&web]) else { return };
    let taken = SocketAddr::new(localhost(Family::V6), web.node_port());
    let squatter = stage.place("a").run(|| std::net::TcpListener::bind(taken)).unwrap().unwrap();
    let mut stage = stage;
    stage.start("a");
    stage.wait_for_sync("a");
    let (v4, v6) = (failures(Family::V4), failures(Family::V6));
    until("a listener that cannot be opened is counted", || {
        value(&stage, &v6).is_some_and(|count| count > 0)
    });
    assert_eq!(value(&stage, &v4), Some(0));
    let to = SocketAddr::new(localhost(Family::V4), web.node_port());
    assert!(dial(&stage, to), "a listener serves it");
    send_udp(&stage, to);
    send_sctp(&stage, to);
    until("SCTP has no listener", || value(&stage, &rejected(Family::V4, "SCTP")) == Some(1));
    for protocol in ["TCP", "UDP"] {
        assert_eq!(value(&stage, &rejected(Family::V4, protocol)), Some(0), "{protocol} is served");
    }
    drop(squatter);
}

const INVALID: &str = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";
const ACCEPTED: &str = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";

fn rejected(family: Family, protocol: &str) -> String {
    let name = "kubeproxy_nftables_localhost_nodeport_rejected_packets_total";
    format!("{name}{{ip_family=\"{}\",protocol=\"{protocol}\"}}", word(family))
}

fn failures(family: Family) -> String {
    let name = "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total";
    format!("{name}{{ip_family=\"{}\"}}", word(family))
}

fn word(family: Family) -> &'static str {
    if family == Family::V4 { "IPv4" } else { "IPv6" }
}

fn localhost(family: Family) -> IpAddr {
    if family == Family::V4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// The value of one sample.
fn value(stage: &Stage, sample: &str) -> Option<u64> {
    let page = metrics(stage);
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

/// Whether somebody answers at the node itself.
fn dial(stage: &Stage, to: SocketAddr) -> bool {
    let limit = playground::patient(PATIENCE);
    let dialled = stage.place("a").run(|| TcpStream::connect_timeout(&to, limit)).unwrap();
    dialled.is_ok_and(|mut stream| stream.write_all(b"hello\n").is_ok())
}

fn send_udp(stage: &Stage, to: SocketAddr) {
    let sent = stage.place("a").run(|| {
        let socket = UdpSocket::bind(SocketAddr::new(to.ip(), 0))?;
        socket.send_to(b"hello\n", to)
    });
    sent.unwrap().unwrap();
}

/// The first packet of an association, as far as rules look at it.
fn send_sctp(stage: &Stage, to: SocketAddr) {
    const INIT: [u8; 20] = [1, 0, 0, 20, 0, 0, 0, 1, 0, 0, 255, 255, 0, 1, 0, 1, 0, 0, 0, 1];
    let mut packet = [&40_000_u16.to_be_bytes()[..], &to.port().to_be_bytes(), &[0; 8], &INIT].concat();
    let sum = crc32c(&packet).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
    let sent = stage.place("a").run(|| RawSocket::open(132, to.ip())?.send(&packet, to.ip()));
    sent.unwrap().unwrap();
}

/// The checksum of SCTP, without which the connection tracker takes a packet for broken.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(u32::MAX, byte)
}

/// Segments without any flag, which no connection can have: from a pod on the node, to one on the other.
fn send_invalid(stage: &Stage, family: Family) {
    let (client, server) = (stage.place("client-a"), stage.place("web-b-0"));
    let (source, destination) = (client.address(family), server.address(family));
    let segment =
        [&40_000_u16.to_be_bytes()[..], &8080_u16.to_be_bytes(), &[0; 8], &[5 << 4, 0], &[0; 6]].concat();
    let sent = client.run(|| {
        let socket = RawSocket::open(6, source)?;
        (0..DIALS).try_for_each(|_| socket.send(&segment, destination))
    });
    sent.unwrap().unwrap();
}

fn metrics(stage: &Stage) -> String {
    let at = SocketAddr::from(([127, 0, 0, 1], PORT));
    let read = stage.place("a").run(|| {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        std::io::Result::Ok(page)
    });
    read.unwrap().unwrap()
}
