//! Packets through the simulated tables: the order of places and tables, chance, memory, and what each target does.
#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::nft::Reject;
use kernel::xtables::{Family, State, Variant, Xtables};
use kernel_sim::nft::{Fate, Path, SimPacket};
use kernel_sim::xtables::Simulated;

const NODE: &str = "192.168.0.1";
const CLIENT: &str = "192.168.0.9";
const DROP_INVALID: &str = "*filter\n:FORWARD DROP [0:0]\n\
    -A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
    -A FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn twin(texts: &[&str]) -> Simulated {
    let mut twin = Simulated::new(Variant::Nft, Family::V4);
    for text in texts {
        twin.restore(text).unwrap();
    }
    twin
}

fn packet(path: Path, source: &str, destination: &str, port: u16) -> SimPacket {
    SimPacket {
        family: kernel::nft::Family::V4,
        path,
        source: ip(source),
        destination: ip(destination),
        protocol: IpProtocol::TCP,
        port: Some(port),
        mark: 0x1,
        priority: 0,
        local: BTreeSet::from([ip(NODE)]),
    }
}

fn arrives(destination: &str, port: u16) -> SimPacket {
    packet(Path::Arrives("eth0".to_owned()), CLIENT, destination, port)
}

fn own(destination: &str, port: u16) -> SimPacket {
    packet(Path::Output, NODE, destination, port)
}

/// Where a packet can end, with shares.
fn ends(twin: &Simulated, packet: &SimPacket) -> BTreeMap<String, (u64, u64)> {
    let ways = twin.ways(packet, Duration::ZERO);
    ways.into_iter()
        .map(|way| (format!("{:?} {}", way.outcome.fate, way.outcome.masqueraded), way.share))
        .collect()
}

fn fate(twin: &mut Simulated, packet: &SimPacket) -> Fate {
    twin.send(packet, Duration::ZERO, &mut |_| panic!("nothing is left to chance")).fate
}

#[test]
fn every_endpoint_has_its_share() {
    let twin = twin(&["*nat\n:SVC - [0:0]\n-A PREROUTING -d 10.96.0.1 -p tcp --dport 80 -j SVC\n\
        -A SVC -m statistic --mode random --probability 0.2500000000 -p tcp -j DNAT --to-destination 10.1.0.1:8080\n\
        -A SVC -m statistic --mode random --probability 0.3333333333 -p tcp -j DNAT --to-destination 10.1.0.2:8080\n\
        -A SVC -m statistic --mode random --probability 0.5000000000 -p tcp -j DNAT --to-destination 10.1.0.3:8080\n\
        -A SVC -p tcp -j DNAT --to-destination 10.1.0.4:8080\nCOMMIT\n"]);
    let found = ends(&twin, &arrives("10.96.0.1", 80));
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.values().all(|share| *share == (1, 4)), "{found:?}");
    assert_eq!(
        ends(&twin, &arrives("10.96.0.1", 81)),
        BTreeMap::from([("Untouched false".to_owned(), (1, 1))])
    );
}

#[test]
fn filter_sees_the_translated_destination_and_the_mark() {
    let nat = "*nat\n-A PREROUTING -d 10.96.0.1 -j MARK --or-mark 0x4000\n\
        -A PREROUTING -d 10.96.0.1 -p tcp -j DNAT --to-destination 10.1.0.1:8080\n\
        -A OUTPUT -d 10.96.0.1 -p tcp -j DNAT --to-destination 10.1.0.1:8080\n\
        -A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
        -A POSTROUTING -j MARK --xor-mark 0x4000\n-A POSTROUTING -j MASQUERADE --random-fully\nCOMMIT\n";
    let filter = "*filter\n-A OUTPUT -d 10.96.0.1 -j DROP\n-A OUTPUT -d 10.1.0.1 -m conntrack --ctstate DNAT -j REJECT\nCOMMIT\n";
    let mut twin = twin(&[nat, DROP_INVALID, filter]);
    let outcome = twin.send(&arrives("10.96.0.1", 80), Duration::ZERO, &mut |_| true);
    assert_eq!(outcome.fate, Fate::Dnat(ip("10.1.0.1"), Some(8080)));
    assert!(outcome.masqueraded);
    assert_eq!(outcome.mark, 0x1, "the bit is off again, and the others are as they were");
    // Not marked, so the policy takes it.
    assert_eq!(fate(&mut twin, &arrives("10.96.0.2", 80)), Fate::Dropped);
    assert_eq!(fate(&mut twin, &own("10.96.0.1", 80)), Fate::Rejected(Reject::PortUnreachable));
}

#[test]
fn only_the_first_packet_of_a_connection_meets_nat() {
    let nat = "*nat\n-A PREROUTING -p tcp -j DNAT --to-destination 10.1.0.1:8080\nCOMMIT\n";
    let mut twin = twin(&[nat, DROP_INVALID]);
    let cases =
        [(State::Established, Fate::Untouched), (State::Invalid, Fate::Dropped), (State::New, Fate::Dropped)];
    for (state, expected) in cases {
        let packet = arrives("10.96.0.1", 80);
        let outcome = twin.send_as(&packet, &BTreeSet::from([state]), Duration::ZERO, &mut |_| true);
        assert_eq!(outcome.fate, expected, "{state:?}");
    }
}

#[test]
fn what_a_host_sends_to_itself_comes_in_again_by_lo() {
    let filter = "*filter\n-A INPUT -i lo -p tcp --dport 30001 -j REJECT\n-A INPUT ! -i lo -j DROP\nCOMMIT\n";
    let nat = "*nat\n-A PREROUTING -p tcp --dport 30002 -j DNAT --to-destination 10.1.0.1:80\nCOMMIT\n";
    let mut twin = twin(&[filter, nat]);
    assert_eq!(fate(&mut twin, &own(NODE, 30001)), Fate::Rejected(Reject::PortUnreachable));
    assert_eq!(fate(&mut twin, &own("127.0.0.1", 30001)), Fate::Rejected(Reject::PortUnreachable));
    assert_eq!(fate(&mut twin, &own(CLIENT, 30001)), Fate::Untouched);
    // Its connection is known by then.
    assert_eq!(fate(&mut twin, &own(NODE, 30002)), Fate::Untouched);
    assert_eq!(fate(&mut twin, &arrives(NODE, 30001)), Fate::Dropped);
    assert_eq!(fate(&mut twin, &arrives("10.9.9.9", 30001)), Fate::Untouched);
}

#[test]
fn a_chain_is_left_by_return_and_by_its_end() {
    let mut twin =
        twin(&["*filter\n:A - [0:0]\n:B - [0:0]\n-A FORWARD -j A\n-A FORWARD -d 10.0.0.3 -j DROP\n\
        -A A -d 10.0.0.1 -j RETURN\n-A A -j B\n-A A -d 10.0.0.2 -j REJECT\n-A B -d 10.0.0.2 -j RETURN\n\
        -A B -d 10.0.0.4 -j ACCEPT\n-A B -d 10.0.0.5 -j DROP\n-A FORWARD -d 10.0.0.4 -j DROP\n\
        -A FORWARD -m addrtype ! --src-type LOCAL -d 10.0.0.6 -j DROP\nCOMMIT\n"]);
    let cases = [
        (1, Fate::Untouched),
        (2, Fate::Rejected(Reject::PortUnreachable)),
        (3, Fate::Dropped),
        (4, Fate::Untouched),
        (5, Fate::Dropped),
        (6, Fate::Dropped),
        (7, Fate::Untouched),
    ];
    for (last, expected) in cases {
        assert_eq!(fate(&mut twin, &arrives(&format!("10.0.0.{last}"), 80)), expected, "{last}");
    }
}

#[test]
fn a_client_is_remembered_until_its_time_is_over_or_no_rule_names_the_list() {
    let text = "*nat\n:SVC - [0:0]\n:A - [0:0]\n:B - [0:0]\n-A PREROUTING -j SVC\n\
        -A SVC -m recent --name A --rcheck --seconds 10 --reap -j A\n\
        -A SVC -m recent --name B --rcheck --seconds 10 --reap -j B\n\
        -A SVC -m statistic --mode random --probability 0.5 -j A\n-A SVC -j B\n\
        -A A -m recent --name A --set -p tcp -j DNAT --to-destination 10.1.0.1:80\n\
        -A B -m recent --name B --set -p tcp -j DNAT --to-destination 10.1.0.2:80\nCOMMIT\n";
    let mut twin = twin(&[text]);
    let packet = arrives("10.96.0.1", 80);
    let at = |twin: &mut Simulated, seconds: u64, falls: bool| {
        let outcome = twin.send(&packet, Duration::from_secs(seconds), &mut |_| falls);
        outcome.fate == Fate::Dnat(ip("10.1.0.1"), Some(80))
    };
    assert!(at(&mut twin, 0, true));
    // Each new connection refreshes it.
    assert!(at(&mut twin, 9, false) && at(&mut twin, 19, false));
    assert!(!at(&mut twin, 30, false));
    assert_eq!(twin.recently_seen("B"), [(ip(CLIENT), Duration::from_secs(30))]);
    // The same text again keeps the lists; one without them forgets.
    twin.restore(text).unwrap();
    assert!(!at(&mut twin, 31, true));
    twin.restore("*nat\n:SVC - [0:0]\n:A - [0:0]\n:B - [0:0]\nCOMMIT\n").unwrap();
    assert_eq!(twin.recently_seen("B"), []);
    twin.restore(text).unwrap();
    assert!(at(&mut twin, 32, true));
}

#[test]
fn a_part_that_remembers_is_asked_only_if_those_before_it_hold() {
    let mut twin = twin(&["*nat\n-A PREROUTING -m recent --name A --set -p tcp --dport 80\n\
        -A PREROUTING -m mark --mark 0x2 -m recent --name B --set\n\
        -A PREROUTING -m recent --name C --set -m mark --mark 0x2\n-A PREROUTING -m recent --name D --set -d 10.9.9.9\nCOMMIT\n"]);
    assert_eq!(fate(&mut twin, &arrives("10.96.0.1", 81)), Fate::Untouched);
    let seen = ["A", "B", "C", "D"].map(|list| twin.recently_seen(list).len());
    // The port is asked after the list, since its module stands behind; the address before it, wherever it stands.
    assert_eq!(seen, [1, 0, 1, 0]);
}

#[test]
fn a_packet_is_redirected_to_a_port_of_this_host() {
    let mut twin = twin(&["*nat\n-A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080\n\
        -A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 8080\nCOMMIT\n"]);
    assert_eq!(fate(&mut twin, &arrives("10.96.0.1", 80)), Fate::Dnat(ip(NODE), Some(8080)));
    assert_eq!(fate(&mut twin, &own("10.96.0.1", 80)), Fate::Dnat(ip("127.0.0.1"), Some(8080)));
}
