//! Rules that ask sets: their text, what the iptables programs make of it, and which packets they meet; the real programs and
//! sets against their twins.
//!
//! The real ones run in a network namespace of their own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod xtables_common;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use kernel::IpProtocol;
use kernel::ipset::{self, Entry, Ipsets, Kind, Request, Set};
use kernel::nft;
use kernel::xtables::{Family, FoundRule, Is, Match, Rule, SetName, Side, Target, Variant, Xtables};
use kernel_sim::nft::{Fate, Path, SimPacket};
use kernel_sim::xtables::Simulated;

fn name(text: &str) -> SetName {
    SetName::new(text).unwrap()
}

fn ip(family: Family, last: u8) -> IpAddr {
    let prefix = if family == Family::V4 { "10.1.0." } else { "fd00:1::" };
    format!("{prefix}{last}").parse().unwrap()
}

/// A set of each kind, and one of the other family. The client is `.9`.
fn sets(family: Family) -> Vec<Request> {
    let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
    let (f, tcp) = (family, IpProtocol::TCP);
    let net = IpNet::new(ip(family, 9), if family == Family::V4 { 29 } else { 125 }).unwrap();
    let one = ip(family, 1);
    let create = |text: &str, kind| Request::Create(Set::new(name(text), kind));
    vec![
        create("OTHER", Kind::Ip(other)),
        create("IP", Kind::Ip(f)),
        create("IP-PORT", Kind::IpPort(f)),
        create("IP-PORT-IP", Kind::IpPortIp(f)),
        create("IP-PORT-NET", Kind::IpPortNet(f)),
        create("PORT", Kind::Port),
        Request::Add(name("IP"), Entry::Ip(one)),
        Request::Add(name("IP-PORT"), Entry::IpPort(one, tcp, 80)),
        Request::Add(name("IP-PORT"), Entry::IpPort(one, IpProtocol::UDP, 81)),
        Request::Add(name("IP-PORT-IP"), Entry::IpPortIp(one, tcp, 80, ip(family, 9))),
        Request::Add(name("IP-PORT-NET"), Entry::IpPortNet(one, tcp, 81, net)),
        Request::Add(name("PORT"), Entry::Port(80)),
    ]
}

/// Matches as they are printed and saved, and which of the packets to `.1:80`, `.1:81`, `.2:80` they meet.
const MATCHES: &[(&str, [bool; 3])] = &[
    ("-m set --match-set IP dst", [true, true, false]),
    ("-m set --match-set IP src", [false, false, false]),
    ("-m set ! --match-set IP dst", [false, false, true]),
    ("-m set --match-set IP-PORT dst,dst", [true, false, false]),
    ("-m set ! --match-set IP-PORT dst,dst", [false, true, true]),
    // Asked for less than its entries are, a set has nothing.
    ("-m set --match-set IP-PORT dst", [false, false, false]),
    ("-m set --match-set IP-PORT-IP dst,dst,src", [true, false, false]),
    ("-m set --match-set IP-PORT-IP dst,dst,dst", [false, false, false]),
    ("-m set --match-set IP-PORT-NET dst,dst,src", [false, true, false]),
    ("-m set --match-set PORT dst", [true, false, true]),
    ("-m set --match-set IP dst -m set --match-set PORT dst", [true, false, false]),
];

fn targets(family: Family) -> [SocketAddr; 3] {
    [(1, 80), (1, 81), (2, 80)].map(|(last, port)| SocketAddr::new(ip(family, last), port))
}

fn packet(family: Family, to: SocketAddr) -> SimPacket {
    SimPacket {
        family,
        path: Path::Output,
        source: ip(family, 9),
        destination: to.ip(),
        protocol: IpProtocol::TCP,
        port: Some(to.port()),
        mark: 0,
        priority: 0,
        local: BTreeSet::from([1, 2, 9].map(|last| ip(family, last))),
    }
}

fn twin(variant: Variant, family: Family) -> Simulated {
    let mut twin = Simulated::new(variant, family);
    assert_eq!(twin.sets.run(&sets(family)).unwrap(), []);
    twin
}

/// Refuses what the client sends, not what it is answered.
fn refuses(family: Family, matches: &str) -> String {
    format!("*filter\n-F OUTPUT\n-A OUTPUT -s {} -p tcp {matches} -j REJECT\nCOMMIT\n", ip(family, 9))
}

#[test]
fn matches_of_sets_and_of_ipvs_are_read_as_they_are_printed() {
    let set = |is, text: &str, sides: &[Side]| Match::Set { is, name: name(text), sides: sides.to_vec() };
    let cases = [
        (set(Is::Equal, "A", &[Side::Destination, Side::Source]), "-m set --match-set A dst,src"),
        (set(Is::Not, "KUBE-6-B", &[Side::Source]), "-m set ! --match-set KUBE-6-B src"),
        (Match::Ipvs, "-m ipvs --ipvs"),
    ];
    for (part, text) in cases {
        let rule = Rule::new([part], Target::Xmark { value: 1, mask: 3 });
        assert_eq!(rule.to_string(), format!("{text} -j MARK --set-xmark 0x000001/0x000003"));
        let saved = FoundRule::parse(&format!("{text} -j MARK --set-xmark 0x1/0x3"));
        assert_eq!(saved, FoundRule::Known(rule));
    }
    for text in [
        "-m set --match-set A",
        "-m set --match-set A up",
        "-m set --match-set A dst,",
        "-m set --match-set A dst --return-nomatch",
        "-m set --match-set 0123456789012345678901234567890x dst",
        "-m ipvs ! --ipvs",
        "-m ipvs --vproto 6 --vaddr 10.0.0.1 --vport 80 -j DROP",
    ] {
        assert_eq!(FoundRule::parse(text), FoundRule::Unknown(text.to_owned()));
    }
}

#[test]
fn the_twins_rules_meet_the_packets_that_are_in_their_sets() {
    for family in Family::ALL {
        let mut twin = twin(Variant::Nft, family);
        for (matches, met) in MATCHES {
            twin.restore(&refuses(family, matches)).unwrap();
            for (to, is_met) in targets(family).into_iter().zip(met) {
                let sent = twin.send(&packet(family, to), Duration::ZERO, &mut |_| panic!("no chance"));
                let expected =
                    if *is_met { Fate::Rejected(nft::Reject::PortUnreachable) } else { Fate::Untouched };
                assert_eq!(sent.fate, expected, "{matches}: {to}");
            }
        }
    }
}

#[test]
fn a_set_of_ports_knows_no_sctp() {
    let mut twin = twin(Variant::Nft, Family::V4);
    twin.restore("*filter\n-A OUTPUT -m set --match-set PORT dst -j DROP\nCOMMIT\n").unwrap();
    let [to, ..] = targets(Family::V4);
    for (protocol, fate) in [
        (IpProtocol::UDP, Fate::Dropped),
        (IpProtocol::SCTP, Fate::Untouched),
        (IpProtocol::ICMP, Fate::Untouched),
    ] {
        let packet = SimPacket { protocol, ..packet(Family::V4, to) };
        assert_eq!(twin.send(&packet, Duration::ZERO, &mut |_| false).fate, fate, "{protocol:?}");
    }
}

mod needs_root {
    use super::*;
    use playground::namespace::socket::connect_from;
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use xtables_common::{for_each_door, saved_lines};

    const LIMIT: Duration = Duration::from_secs(20);

    /// The sets of this thread's namespace; `None`, with the reason, where the kernel has none.
    fn real_sets(family: Family) -> Option<ipset::Netlink> {
        let mut real = ipset::Netlink::open().inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        assert_eq!(real.run(&sets(family)).unwrap(), []);
        Some(real)
    }

    fn filter(door: &mut dyn Xtables) -> Vec<String> {
        saved_lines(&door.save(kernel::xtables::Table::Filter).unwrap().unwrap())
    }

    /// Texts, what is saved, who uses which set, and what that forbids.
    fn rules_and_their_sets(variant: Variant) {
        for_each_door(variant, |real, family| {
            let (Some(mut real_sets), mut twin) = (real_sets(family), twin(variant, family)) else { return };
            let mut twin_sets = twin.sets.clone();
            for (matches, _) in MATCHES {
                real.restore(&refuses(family, matches)).unwrap();
                twin.restore(&refuses(family, matches)).unwrap();
                assert_eq!(filter(real), filter(&mut twin), "{variant} {family}");
                assert_eq!(
                    real_sets.sets().unwrap(),
                    twin_sets.sets().unwrap(),
                    "{variant} {family}: {matches}"
                );
            }
            for missing in ["-m set --match-set NONE dst", "-m set --match-set OTHER dst"] {
                assert!(real.restore(&refuses(family, missing)).is_err(), "{variant} {family}: {missing}");
                assert!(twin.restore(&refuses(family, missing)).is_err(), "{variant} {family}: {missing}");
            }
            // The last rule uses two of them. A set that is swapped keeps its rules.
            let swap = [
                Request::Create(Set::new(name("IP-NEW"), Kind::Ip(family))),
                Request::Swap(name("IP-NEW"), name("IP")),
            ];
            let destroy = ["IP", "PORT", "IP-PORT", "IP-NEW"].map(|text| Request::Destroy(name(text)));
            for requests in [&swap[..], &destroy] {
                let said = [real_sets.run(requests).unwrap(), twin_sets.run(requests).unwrap()];
                assert_eq!(said[0], said[1], "{variant} {family}");
                assert_eq!(real_sets.sets().unwrap(), twin_sets.sets().unwrap(), "{variant} {family}");
            }
            for door in [real as &mut dyn Xtables, &mut twin] {
                door.restore("*filter\n-F OUTPUT\nCOMMIT\n").unwrap();
            }
            let refused = [real_sets.run(&destroy).unwrap(), twin_sets.run(&destroy).unwrap()];
            assert_eq!(refused, [vec![], vec![]], "{variant} {family}");
        });
    }

    #[test]
    fn root_iptables_nft_and_its_twin_use_sets_alike() {
        rules_and_their_sets(Variant::Nft);
    }

    #[test]
    fn root_iptables_legacy_and_its_twin_use_sets_alike() {
        rules_and_their_sets(Variant::Legacy);
    }

    fn ip_program(family: Family) {
        let flag = if family == Family::V4 { "" } else { " nodad" };
        let addresses = [1, 2, 9].map(|last| format!("addr add {} dev lo{flag}", ip(family, last)));
        for line in ["link set lo up".to_owned()].iter().chain(&addresses) {
            let done = std::process::Command::new("ip").args(line.split(' ')).status().unwrap();
            assert!(done.success(), "{line}");
        }
    }

    /// Whether a connection from `.9` was refused by a rule: servers listen everywhere.
    fn is_refused(family: Family, to: SocketAddr) -> bool {
        match connect_from(SocketAddr::new(ip(family, 9), 0), to, LIMIT) {
            Ok(_) => false,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => true,
            Err(error) => panic!("{to}: {error}"),
        }
    }

    #[test]
    fn root_real_packets_meet_the_rules_that_their_sets_say() {
        for_each_door(Variant::Nft, |real, family| {
            if real_sets(family).is_none() {
                return;
            }
            ip_program(family);
            let _servers = targets(family).map(|to| TcpListener::bind(to).unwrap());
            for (matches, met) in MATCHES {
                // A reset is heard at once, "port unreachable" only with the second try.
                let text = refuses(family, matches).replace("REJECT", "REJECT --reject-with tcp-reset");
                real.restore(&text).unwrap();
                let found = targets(family).map(|to| is_refused(family, to));
                assert_eq!(found, *met, "{family}: {matches}");
            }
            eprintln!("counted: {} connections asked sets of {family}", 3 * MATCHES.len());
        });
    }
}
