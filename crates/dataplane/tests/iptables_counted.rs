//! What rules have counted goes on through every rewriting, on the twin of each program. `packets` of the crate portway has the real ones.
#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

mod iptables_guides;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::{Dataplane, Scope};
use iptables_guides::{plain, service, slice, table};
use kernel::IpProtocol;
use kernel::nft;
use kernel::xtables::{Error, Family, State, Table, Variant, Xtables};
use kernel_sim::nft::{Outcome, Path, SimPacket};
use kernel_sim::xtables::Simulated;
use model::ForwardingTable;
use serde_json::json;

const NODE_PORT: u16 = 30080;
const BE_LIBERAL: &str = "net/netfilter/nf_conntrack_tcp_be_liberal";

fn mode(variant: Variant, localhost_node_ports: bool) -> Iptables<Simulated> {
    let options = Options { localhost_node_ports, ..Options::default() };
    Iptables::new(Family::ALL.map(|family| Simulated::new(variant, family)), options)
}

fn web() -> ForwardingTable {
    let spec = json!({"type": "NodePort", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80, "nodePort": NODE_PORT}]});
    let endpoints = slice("default", "web", &json!([{"port": 8080}]), &["10.244.0.1", "10.244.0.2"]);
    table(plain(), &[service("default", "web", &spec), endpoints])
}

fn packet(path: Path, source: &str, destination: &str, port: u16) -> SimPacket {
    let (source, destination): (IpAddr, IpAddr) = (source.parse().unwrap(), destination.parse().unwrap());
    SimPacket {
        family: if source.is_ipv4() { nft::Family::V4 } else { nft::Family::V6 },
        path,
        source,
        destination,
        protocol: IpProtocol::TCP,
        port: Some(port),
        mark: 0,
        priority: 0,
        local: ["192.168.0.1".parse().unwrap(), "fd00:1::1".parse().unwrap()].into(),
    }
}

fn send(mode: &mut Iptables<Simulated>, packet: &SimPacket, state: State) -> Outcome {
    let at = usize::from(packet.family == nft::Family::V6);
    let door = mode.doors().nth(at).unwrap();
    door.send_as(packet, &BTreeSet::from([state]), Duration::ZERO, &mut |_| true)
}

/// A packet of no connection that this host would forward.
fn send_invalid(mode: &mut Iptables<Simulated>, family: Family) {
    let (source, destination) = match family {
        Family::V4 => ("10.244.0.1", "10.244.1.1"),
        Family::V6 => ("fd00:244::1", "fd00:244:1::1"),
    };
    send(mode, &packet(Path::Arrives("eth0".into()), source, destination, 80), State::Invalid);
}

#[test]
fn invalid_packets_of_both_families_are_counted_from_the_first_sync_on() {
    for variant in Variant::ALL {
        let (mut first, table) = (mode(variant, false), web());
        assert_eq!(first.counted().invalid_dropped, None, "nobody has looked yet");
        first.sync(&table, Scope::Everything).unwrap();
        assert_eq!(first.counted().invalid_dropped, Some(0));
        for family in Family::ALL {
            send_invalid(&mut first, family);
        }
        assert_eq!(first.counted().invalid_dropped, Some(2));
        // A process that finds these rules begins with 0, as every counter of a process does.
        let doors: Vec<Simulated> = first.doors().map(|door| door.clone()).collect();
        let mut second = Iptables::new(doors, Options::default());
        second.sync(&table, Scope::Everything).unwrap();
        assert_eq!(second.counted().invalid_dropped, Some(0), "{variant}");
        send_invalid(&mut second, Family::V6);
        assert_eq!(second.counted().invalid_dropped, Some(1), "{variant}");
    }
}

#[test]
fn a_rule_that_is_written_anew_counts_on() {
    for variant in Variant::ALL {
        let (mut mode, table) = (mode(variant, false), web());
        mode.sync(&table, Scope::Everything).unwrap();
        (0..5).for_each(|_| send_invalid(&mut mode, Family::V4));
        // Somebody flushes the chain; what came since anybody looked is gone with it, and was looked at here.
        assert_eq!(mode.counted().invalid_dropped, Some(5));
        mode.doors().next().unwrap().restore("*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n").unwrap();
        assert_eq!(mode.counted().invalid_dropped, Some(5), "{variant}: no rule");
        mode.sync(&table, Scope::Everything).unwrap();
        // More than before, so that a smaller number alone would not tell that it is another rule.
        (0..7).for_each(|_| send_invalid(&mut mode, Family::V4));
        assert_eq!(mode.counted().invalid_dropped, Some(12), "{variant}: a new rule");
        // We write it anew ourselves: what came before that is counted though nobody asked.
        (0..3).for_each(|_| send_invalid(&mut mode, Family::V4));
        mode.settings().values.insert(BE_LIBERAL.into(), "1".into());
        mode.sync(&table, Scope::Everything).unwrap();
        send_invalid(&mut mode, Family::V4);
        assert_eq!(mode.counted().invalid_dropped, Some(15), "{variant}: such packets pass");
        mode.settings().values.insert(BE_LIBERAL.into(), "0".into());
        mode.sync(&table, Scope::Everything).unwrap();
        (0..20).for_each(|_| send_invalid(&mut mode, Family::V4));
        assert_eq!(mode.counted().invalid_dropped, Some(35), "{variant}: they are dropped again");
    }
}

#[test]
fn what_cannot_be_read_or_is_not_as_we_wrote_it_changes_no_count() {
    for variant in Variant::ALL {
        let (mut mode, table) = (mode(variant, false), web());
        mode.sync(&table, Scope::Everything).unwrap();
        send_invalid(&mut mode, Family::V4);
        assert_eq!(mode.counted().invalid_dropped, Some(1));
        let refused = Error::NotPermitted { program: "look".into(), stderr: String::new() };
        mode.doors().for_each(|door| door.save_fault = Some(refused.clone()));
        send_invalid(&mut mode, Family::V4);
        assert_eq!(mode.counted().invalid_dropped, Some(1), "{variant}: nobody could look");
        mode.doors().for_each(|door| door.save_fault = None);
        assert_eq!(mode.counted().invalid_dropped, Some(2), "{variant}: nothing was lost");
        let door = mode.doors().next().unwrap();
        door.restore("*filter\n-I KUBE-FORWARD -s 10.0.0.0/8 -j RETURN\nCOMMIT\n").unwrap();
        send_invalid(&mut mode, Family::V4);
        assert_eq!(mode.counted().invalid_dropped, Some(2), "{variant}: another rule is in front");
        // The comparison writes the chain anew. More come than before, so that the number alone would not tell it.
        mode.sync(&table, Scope::Everything).unwrap();
        (0..7).for_each(|_| send_invalid(&mut mode, Family::V4));
        assert_eq!(mode.counted().invalid_dropped, Some(9), "{variant}: all of the new rule's");
    }
}

#[test]
fn connections_to_node_ports_on_loopback_addresses_are_counted_once_each() {
    for variant in Variant::ALL {
        let (mut mode, table) = (mode(variant, true), web());
        mode.sync(&table, Scope::Everything).unwrap();
        assert_eq!(mode.counted().localhost_accepted, Some(0));
        let made_here = |to: &str, port| packet(Path::Output, "127.0.0.1", to, port);
        for (packet, is_counted) in [
            (made_here("127.0.0.1", NODE_PORT), true),
            (made_here("127.9.9.9", NODE_PORT), true),
            (made_here("127.0.0.1", 80), false),
            (packet(Path::Output, "192.168.0.1", "192.168.0.1", NODE_PORT), false),
            (packet(Path::Output, "192.168.0.1", "10.96.0.1", 80), false),
            (packet(Path::Arrives("eth0".into()), "203.0.113.1", "192.168.0.1", NODE_PORT), false),
            (packet(Path::Arrives("eth0".into()), "203.0.113.1", "127.0.0.1", NODE_PORT), false),
        ] {
            let before = mode.counted().localhost_accepted.unwrap();
            send(&mut mode, &packet, State::New);
            let expected = before + u64::from(is_counted);
            assert_eq!(mode.counted().localhost_accepted, Some(expected), "{variant}: {packet:?}");
        }
        let door = mode.doors().nth(1).unwrap();
        assert_eq!(
            door.packets(Table::Nat, "KUBE-MARK-MASQ").unwrap().unwrap().len(),
            1,
            "IPv4 alone has it"
        );
    }
}

/// A legacy table is given whole, so a scrape reads a large one no more; a full sync does.
#[test]
fn a_scrape_reads_no_large_legacy_table() {
    let ports: Vec<_> = (0..1001).map(|n| json!({"name": format!("p{n}"), "port": 1000 + n})).collect();
    let empty = service("default", "empty", &json!({"clusterIPs": ["10.96.0.9"], "ports": ports}));
    let table = table(plain(), &[empty]);
    for variant in Variant::ALL {
        let mut mode = mode(variant, false);
        mode.sync(&table, Scope::Everything).unwrap();
        send_invalid(&mut mode, Family::V4);
        let at_once = u64::from(variant == Variant::Nft);
        assert_eq!(mode.counted().invalid_dropped, Some(at_once), "{variant}");
        mode.sync(&table, Scope::Everything).unwrap();
        assert_eq!(mode.counted().invalid_dropped, Some(1), "{variant}");
    }
}

#[test]
fn without_rules_for_localhost_nothing_is_added_to_the_chains() {
    let (mut mode, table) = (mode(Variant::Nft, false), web());
    mode.sync(&table, Scope::Everything).unwrap();
    assert_eq!(mode.counted().localhost_accepted, Some(0), "what listeners take is added to this");
    for door in mode.doors() {
        assert_eq!(door.packets(Table::Nat, "KUBE-MARK-MASQ").unwrap().unwrap().len(), 1);
    }
}
