//! Verdicts about forwarded packets, compared with what the real kernel does with such a packet.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use kernel::IpProtocol;
use kernel::forward_filter::{Filter, Packet, Verdict};
use playground::namespace::Namespace;

/// Nothing that shall come takes so long; a datagram that is dropped is followed by one that is not.
const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 8080;
/// No rule of any case drops datagrams to this port.
const MARKER: u16 = 9;

/// A client, a host that forwards, and a pod, each in its namespace.
struct Stage {
    client: Namespace,
    host: Namespace,
    pods: [[UdpSocket; 2]; 2],
}

impl Stage {
    fn build() -> Option<Self> {
        let made: std::io::Result<Vec<_>> = (0..3).map(|_| Namespace::create()).collect();
        let [client, host, pod] = match made {
            Ok(made) => <[Namespace; 3]>::try_from(made).unwrap(),
            Err(error) => {
                eprintln!("skipped: network namespaces of its own need root: {error}");
                return None;
            }
        };
        let ends = [("uplink", &client), ("docker0", &pod)];
        for (number, (link, outside)) in ends.into_iter().enumerate() {
            let path = outside.path().display().to_string();
            let inside = [
                format!("link add {link} type veth peer name eth0 netns {path}"),
                format!("addr add 10.{number}.0.1/24 dev {link}"),
                format!("addr add fd00:{number}::1/64 dev {link} nodad"),
                format!("link set {link} up"),
            ];
            let opposite = [
                format!("addr add 10.{number}.0.2/24 dev eth0"),
                format!("addr add fd00:{number}::2/64 dev eth0 nodad"),
                "link set eth0 up".to_owned(),
                format!("route add default via 10.{number}.0.1"),
                format!("-6 route add default via fd00:{number}::1"),
            ];
            for (namespace, lines) in [(&host, &inside[..]), (outside, &opposite[..])] {
                let lines: Vec<_> = lines.iter().map(String::as_str).collect();
                if !namespace.run(|| common::ip(&lines)).unwrap() {
                    return None;
                }
            }
        }
        host.run(|| {
            for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
            }
        })
        .unwrap();
        let bind = |address: IpAddr, port| UdpSocket::bind(SocketAddr::new(address, port)).unwrap();
        let pods = pod
            .run(|| [true, false].map(|is_v4| [PORT, MARKER].map(|port| bind(ends_of(is_v4)[1], port))))
            .unwrap();
        Some(Self { client, host, pods })
    }

    /// Runs a program on the host; false, with the reason, where it is not installed.
    fn host_runs(&self, program: &str, arguments: &[&str], input: &str) -> bool {
        let Some(output) = self.host.run(|| common::run(program, arguments, input)).unwrap() else {
            return false;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        true
    }

    /// Whether a datagram from the client reaches the pod.
    fn arrives(&self, is_v4: bool) -> bool {
        let [source, destination] = ends_of(is_v4);
        let socket = self.client.run(|| UdpSocket::bind(SocketAddr::new(source, 0)).unwrap()).unwrap();
        let [at_port, at_marker] = &self.pods[usize::from(!is_v4)];
        socket.send_to(b"x", SocketAddr::new(destination, PORT)).unwrap();
        socket.send_to(b"x", SocketAddr::new(destination, MARKER)).unwrap();
        let mut byte = [0];
        at_marker.set_read_timeout(Some(LIMIT)).unwrap();
        at_marker.recv(&mut byte).unwrap();
        // One queue leads from the client to the pod, so what was sent first is there by now, or nowhere.
        at_port.set_nonblocking(true).unwrap();
        match at_port.recv(&mut byte) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                false
            }
        }
    }

    fn judged(&self, is_v4: bool) -> Verdict {
        let [source, destination] = ends_of(is_v4);
        let packet = Packet {
            in_interface: Some("uplink".to_owned()),
            out_interface: Some("docker0".to_owned()),
            source,
            destination,
            protocol: IpProtocol::UDP,
            source_port: None,
            destination_port: Some(PORT),
            is_destination_translated: false,
            mark: 0,
        };
        self.host.run(|| Filter::default().judge(&packet)).unwrap()
    }
}

fn ends_of(is_v4: bool) -> [IpAddr; 2] {
    let text = if is_v4 { ["10.0.0.2", "10.1.0.2"] } else { ["fd00:0::2", "fd00:1::2"] };
    text.map(|address| address.parse().unwrap())
}

/// What a case expects beside agreement with the real packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Accepted,
    /// The place's text contains this.
    Dropped(&'static str),
    /// The reason contains this.
    Unknown(&'static str),
}

/// Loads rules, judges, sends a datagram, compares.
fn check(stage: &Stage, name: &str, expected: Expected) {
    for is_v4 in [true, false] {
        let (verdict, arrives) = (stage.judged(is_v4), stage.arrives(is_v4));
        let case = format!("{name}, {}", if is_v4 { "IPv4" } else { "IPv6" });
        match (&verdict, expected) {
            (Verdict::Accepted, Expected::Accepted) => assert!(arrives, "{case}: accepted, but lost"),
            (Verdict::Dropped { by }, Expected::Dropped(text)) => {
                assert!(!arrives, "{case}: {by}, but it arrived");
                assert!(by.to_string().contains(text), "{case}: {by}");
            }
            (Verdict::Unknown { because }, Expected::Unknown(text)) => {
                assert!(because.contains(text), "{case}: {because}");
            }
            _ => panic!("{case}: {verdict:?}, expected {expected:?}; it arrives: {arrives}"),
        }
    }
}

const NFT: &str = "nft";

/// Docker's usual filter table, with the bridge of its default network.
const DOCKER: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n\
    :DOCKER-ISOLATION-STAGE-1 - [0:0]\n:DOCKER-ISOLATION-STAGE-2 - [0:0]\n:DOCKER-USER - [0:0]\n\
    -A FORWARD -p udp -m udp --dport 9 -j ACCEPT\n\
    -A FORWARD -j DOCKER-USER\n-A FORWARD -j DOCKER-ISOLATION-STAGE-1\n\
    -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A FORWARD -o docker0 -j DOCKER\n\
    -A FORWARD -i docker0 ! -o docker0 -j ACCEPT\n-A FORWARD -i docker0 -o docker0 -j ACCEPT\n\
    -A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2\n-A DOCKER-ISOLATION-STAGE-1 -j RETURN\n\
    -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP\n-A DOCKER-ISOLATION-STAGE-2 -j RETURN\n";

mod needs_root {
    use super::*;

    #[test]
    fn nftables_rules_are_judged_as_the_kernel_judges() {
        let Some(stage) = Stage::build() else { return };
        let table = |body: &str| format!("flush ruleset\ntable inet fw {{\n{body}\n}}\n");
        let forward = |policy: &str, rules: &str| {
            table(&format!(
                "set ports {{ type inet_service; flags interval; elements = {{ 8000-8999, 99 }} }}\n\
             map ways {{ type inet_proto . inet_service : verdict; elements = {{ udp . 8080 : drop, tcp . 80 : accept }} }}\n\
             chain other {{ udp dport 8080 drop; }}\n\
             chain fw {{ type filter hook forward priority filter; policy {policy};\nudp dport {MARKER} accept\n{rules}\n}}"
            ))
        };
        // As firewalld writes its forward chain, in short.
        let firewalld = "ct state { established, related } accept\nct status dnat accept\niifname \"lo\" accept\n\
                     ct state invalid drop\niifname \"docker0\" jump other\n\
                     reject with icmpx admin-prohibited";
        let cases = [
            ("no rules", forward("accept", ""), Expected::Accepted),
            ("a policy", forward("drop", ""), Expected::Dropped("table inet fw, chain fw: policy drop")),
            (
                "a rule by interface",
                forward("accept", "iifname \"uplink\" oifname \"docker0\" drop"),
                Expected::Dropped("iifname \"uplink\" oifname \"docker0\" drop"),
            ),
            ("another interface", forward("accept", "iifname \"docker0\" drop"), Expected::Accepted),
            (
                "the beginning of a name",
                forward("accept", "iifname \"up*\" drop"),
                Expected::Dropped("iifname \"up*\""),
            ),
            ("the number of a link", forward("drop", "iif \"uplink\" accept"), Expected::Accepted),
            ("firewalld", forward("accept", firewalld), Expected::Dropped("reject")),
            ("new connections", forward("drop", "ct state new accept"), Expected::Accepted),
            ("an interval", forward("accept", "udp dport @ports drop"), Expected::Dropped("@ports")),
            ("an interval without it", forward("accept", "udp dport != @ports drop"), Expected::Accepted),
            ("an anonymous set", forward("drop", "udp dport { 53, 8080 } accept"), Expected::Accepted),
            ("a range", forward("accept", "udp dport 8000-8100 drop"), Expected::Dropped("8000")),
            (
                "a verdict map",
                forward("accept", "meta l4proto . th dport vmap @ways"),
                Expected::Dropped("vmap @ways"),
            ),
            (
                "a default element",
                forward("accept", "ct state vmap { established : accept, * : drop }"),
                Expected::Dropped("vmap"),
            ),
            ("a jump", forward("accept", "jump other"), Expected::Dropped("chain other")),
            (
                "a prefix",
                forward("accept", "ip saddr 10.0.0.0/8 drop\nip6 saddr fd00::/20 drop"),
                Expected::Dropped("saddr"),
            ),
            (
                "a mark",
                forward("accept", "meta mark set 0x10\nmeta mark & 0xf0 == 0x10 drop"),
                Expected::Dropped("meta mark"),
            ),
            (
                "a limit before the policy",
                forward("drop", "limit rate 1000/second accept"),
                Expected::Unknown("limit accept"),
            ),
            (
                "a limit that changes nothing",
                forward("accept", "limit rate 1000/second log\nlimit rate 1/second accept"),
                Expected::Accepted,
            ),
            (
                "a dormant table",
                table("flags dormant\nchain fw { type filter hook forward priority 0; policy drop; }"),
                Expected::Accepted,
            ),
            (
                "another hook",
                table("chain in { type filter hook input priority 0; policy drop; }"),
                Expected::Accepted,
            ),
            (
                "two tables",
                format!(
                    "{}table ip b {{ chain c {{ type filter hook forward priority 10; udp dport 8080 drop; }}; }}\ntable ip6 b {{ chain c {{ type filter hook forward priority 10; udp dport 8080 drop; }}; }}\n",
                    forward("accept", "accept")
                ),
                Expected::Dropped("chain c: "),
            ),
        ];
        for (name, rules, expected) in cases {
            if !stage.host_runs(NFT, &["-f", "-"], &rules) {
                return;
            }
            check(&stage, name, expected);
        }
    }

    #[test]
    fn iptables_rules_of_both_programs_are_judged_as_the_kernel_judges() {
        for program in ["nft", "legacy"] {
            let Some(stage) = Stage::build() else { return };
            let docker = |more: &str| format!("{DOCKER}{more}-A DOCKER-USER -j RETURN\nCOMMIT\n");
            let plain = |policy: &str, rules: &str| {
                format!(
                    "*filter\n:FORWARD {policy} [0:0]\n:A - [0:0]\n-A FORWARD -p udp -m udp --dport 9 -j ACCEPT\n{rules}COMMIT\n"
                )
            };
            let cases = [
                ("Docker", docker(""), Expected::Dropped("policy drop")),
                (
                    "Docker with a published port",
                    docker("-A DOCKER ! -i docker0 -o docker0 -p udp -m udp --dport 8080 -j ACCEPT\n"),
                    Expected::Accepted,
                ),
                (
                    "Docker with another port",
                    docker("-A DOCKER ! -i docker0 -o docker0 -p udp -m udp --dport 8081 -j ACCEPT\n"),
                    Expected::Dropped("policy drop"),
                ),
                (
                    "a rule of the operator",
                    docker(
                        "-A DOCKER-USER -m comment --comment \"pods\" -m conntrack --ctstate NEW -o docker0 -j ACCEPT\n",
                    ),
                    Expected::Accepted,
                ),
                (
                    "a limit of the operator",
                    docker("-A DOCKER-USER -m limit --limit 1000/sec -j ACCEPT\n"),
                    Expected::Unknown("limit"),
                ),
                (
                    "a limit of what is not ours",
                    docker("-A DOCKER-USER -i docker0 -m limit --limit 1000/sec -j ACCEPT\n"),
                    Expected::Dropped("policy drop"),
                ),
                ("REJECT", plain("ACCEPT", "-A FORWARD -i up+ -j REJECT\n"), Expected::Dropped("REJECT")),
                (
                    "ports",
                    plain("ACCEPT", "-A FORWARD -p udp -m multiport --dports 53,8000:9000 -j DROP\n"),
                    Expected::Dropped("multiport"),
                ),
                (
                    "not these ports",
                    plain("ACCEPT", "-A FORWARD -p udp -m multiport ! --dports 53,8000:9000 -j DROP\n"),
                    Expected::Accepted,
                ),
                ("goto", plain("ACCEPT", "-A FORWARD -g A\n-A FORWARD -j DROP\n"), Expected::Accepted),
                (
                    "a mark",
                    plain(
                        "DROP",
                        "-A FORWARD -j MARK --set-xmark 0x10/0x10\n-A FORWARD -m mark --mark 0x10/0x10 -j ACCEPT\n",
                    ),
                    Expected::Accepted,
                ),
                ("no target", plain("ACCEPT", "-A FORWARD -m comment --comment x\n"), Expected::Accepted),
                ("another protocol", plain("ACCEPT", "-A FORWARD ! -p udp -j DROP\n"), Expected::Accepted),
            ];
            for (name, rules, expected) in cases {
                for family in ["iptables", "ip6tables"] {
                    let restore = format!("{family}-{program}-restore");
                    if !stage.host_runs(&restore, &[], &rules) {
                        return;
                    }
                }
                check(&stage, &format!("{program}: {name}"), expected);
            }
        }
    }

    #[test]
    fn asking_makes_no_legacy_table() {
        let Some(stage) = Stage::build() else { return };
        check(&stage, "an empty host", Expected::Accepted);
        let names = || std::fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap_or_default();
        assert_eq!(stage.host.run(names).unwrap(), "");
    }
}
