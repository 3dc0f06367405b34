//! What rules have counted goes on through every rewriting, on the twin of each program. `packets` of the crate portway has the real ones.
use super::*;

/// The mode as it has written a Service with a node port, and what was written.
fn written(variant: Variant, localhost_node_ports: bool) -> (Iptables<Simulated>, model::ForwardingTable) {
    let table = table_of("svc web 10.96.0.1 80@30080\nep web 8080 10.244.0.1 10.244.0.2");
    let mut mode = mode(variant, Options { localhost_node_ports, ..Options::default() });
    everything(&mut mode, &table);
    (mode, table)
}

fn set_liberal(mode: &mut Iptables<Simulated>, value: &str) {
    mode.settings().values.insert("net/netfilter/nf_conntrack_tcp_be_liberal".into(), value.into());
}

fn send_through(mode: &mut Iptables<Simulated>, packet: &SimPacket, state: State) {
    let family = usize::from(packet.family == nft::Family::V6);
    send(mode.doors().nth(family).unwrap(), packet, state);
}

/// So many packets of no connection that this host would forward.
fn send_invalid(mode: &mut Iptables<Simulated>, family: Family, count: usize) {
    let (source, destination) = match family {
        Family::V4 => ("10.244.0.1", "10.244.1.1"),
        Family::V6 => ("fd00:244::1", "fd00:244:1::1"),
    };
    let packet = arriving(source, destination, 80);
    (0..count).for_each(|_| send_through(mode, &packet, State::Invalid));
}

#[track_caller]
fn assert_dropped(mode: &mut Iptables<Simulated>, count: u64, why: &str) {
    assert_eq!(mode.counted().invalid_dropped, Some(count), "{why}");
}

#[test]
fn invalid_packets_of_both_families_are_counted_from_the_first_sync_on() {
    for variant in Variant::ALL {
        let counted = mode(variant, Options::default()).counted();
        assert_eq!(counted.invalid_dropped, None, "nobody has looked yet");
        let (mut first, table) = written(variant, false);
        assert_dropped(&mut first, 0, "none has come");
        for family in Family::ALL {
            send_invalid(&mut first, family, 1);
        }
        assert_dropped(&mut first, 2, "one of each family");
        // A process that finds these rules begins with 0, as every counter of a process does.
        let doors: Vec<Simulated> = first.doors().map(|door| door.clone()).collect();
        let mut second = Iptables::new(doors, Options::default());
        everything(&mut second, &table);
        assert_dropped(&mut second, 0, "another process");
        send_invalid(&mut second, Family::V6, 1);
        assert_dropped(&mut second, 1, "another process");
    }
}

#[test]
fn a_rule_that_is_written_anew_counts_on() {
    for variant in Variant::ALL {
        let (mut mode, table) = written(variant, false);
        send_invalid(&mut mode, Family::V4, 5);
        // Somebody flushes the chain; what came since anybody looked is gone with it, and was looked at here.
        assert_dropped(&mut mode, 5, "");
        mode.doors().next().unwrap().restore("*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n").unwrap();
        assert_dropped(&mut mode, 5, "no rule");
        everything(&mut mode, &table);
        // More than before, so that a smaller number alone would not tell that it is another rule.
        send_invalid(&mut mode, Family::V4, 7);
        assert_dropped(&mut mode, 12, "a new rule");
        // We write it anew ourselves: what came before that is counted though nobody asked.
        send_invalid(&mut mode, Family::V4, 3);
        set_liberal(&mut mode, "1");
        everything(&mut mode, &table);
        send_invalid(&mut mode, Family::V4, 1);
        assert_dropped(&mut mode, 15, "such packets pass");
        set_liberal(&mut mode, "0");
        everything(&mut mode, &table);
        send_invalid(&mut mode, Family::V4, 20);
        assert_dropped(&mut mode, 35, "they are dropped again");
    }
}

#[test]
fn what_cannot_be_read_or_is_not_as_we_wrote_it_changes_no_count() {
    for variant in Variant::ALL {
        let (mut mode, table) = written(variant, false);
        send_invalid(&mut mode, Family::V4, 1);
        assert_dropped(&mut mode, 1, "");
        let refused = Error::NotPermitted { program: "look".into(), stderr: String::new() };
        mode.doors().for_each(|door| door.save_fault = Some(refused.clone()));
        send_invalid(&mut mode, Family::V4, 1);
        assert_dropped(&mut mode, 1, "nobody could look");
        mode.doors().for_each(|door| door.save_fault = None);
        assert_dropped(&mut mode, 2, "nothing was lost");
        let door = mode.doors().next().unwrap();
        door.restore("*filter\n-I KUBE-FORWARD -s 10.0.0.0/8 -j RETURN\nCOMMIT\n").unwrap();
        send_invalid(&mut mode, Family::V4, 1);
        assert_dropped(&mut mode, 2, "another rule is in front");
        // The comparison writes the chain anew. More come than before, so that the number alone would not tell it.
        everything(&mut mode, &table);
        send_invalid(&mut mode, Family::V4, 7);
        assert_dropped(&mut mode, 9, "all of the new rule's");
    }
}

#[test]
fn connections_to_node_ports_on_loopback_addresses_are_counted_once_each() {
    for variant in Variant::ALL {
        let (mut mode, _) = written(variant, true);
        assert_eq!(mode.counted().localhost_accepted, Some(0));
        let made_here = |from: &str, to: &str, port| tcp(Path::Output, from, to, port);
        for (packet, is_counted) in [
            (made_here("127.0.0.1", "127.0.0.1", NODE_PORT), true),
            (made_here("127.0.0.1", "127.9.9.9", NODE_PORT), true),
            (made_here("127.0.0.1", "127.0.0.1", 80), false),
            (made_here(NODE, NODE, NODE_PORT), false),
            (made_here(NODE, "10.96.0.1", 80), false),
            (arriving("203.0.113.1", NODE, NODE_PORT), false),
            (arriving("203.0.113.1", "127.0.0.1", NODE_PORT), false),
        ] {
            let before = mode.counted().localhost_accepted.unwrap();
            send_through(&mut mode, &packet, State::New);
            let expected = before + u64::from(is_counted);
            assert_eq!(mode.counted().localhost_accepted, Some(expected), "{variant}: {packet:?}");
        }
        assert_eq!(rules(mode.doors().nth(1).unwrap()), 1, "IPv4 alone has it");
    }
}

/// A legacy table is given whole, so a scrape reads a large one no more; a full sync does.
#[test]
fn a_scrape_reads_no_large_legacy_table() {
    let ports: Vec<String> = (0..1001).map(|n| format!("p{n}:{}", 1000 + n)).collect();
    let table = table_of(&format!("svc empty 10.96.0.9 {}", ports.join(",")));
    for variant in Variant::ALL {
        let mut mode = mode(variant, Options::default());
        everything(&mut mode, &table);
        send_invalid(&mut mode, Family::V4, 1);
        let at_once = u64::from(variant == Variant::Nft);
        assert_dropped(&mut mode, at_once, "");
        everything(&mut mode, &table);
        assert_dropped(&mut mode, 1, "");
    }
}

#[test]
fn without_rules_for_localhost_nothing_is_added_to_the_chains() {
    let (mut mode, _) = written(Variant::Nft, false);
    assert_eq!(mode.counted().localhost_accepted, Some(0), "what listeners take is added to this");
    assert!(mode.doors().all(|door| rules(door) == 1));
}

/// The rules of the chain that hides sources.
fn rules(door: &mut Simulated) -> usize {
    door.packets(Table::Nat, "KUBE-MARK-MASQ").unwrap().unwrap().len()
}
