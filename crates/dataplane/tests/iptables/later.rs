//! Rules of the iptables mode that no first packet through an open host needs: for later packets of a connection, for hosts that
//! let nothing through by themselves, for health checks, and the guard that comes with `route_localnet`.
//!
//! Each case sends one packet through the twin, and once more without the rule that it is about.
use super::*;

const CLIENT: &str = "203.0.113.7";
const HEALTH_CHECK_PORT: u16 = 32000;
/// What a host adds that lets nothing in and nothing through.
const STRICT: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\nCOMMIT\n";

const CLUSTER: &str = "
    svc web 10.96.0.1 80@30080
    ep web 8080 10.244.0.1
    svc local 10.96.0.2 80 type=LoadBalancer external=Local health=32000";

/// Where the packet ends on a host with these rules, of which the lines with all of `words` are left out.
fn end(options: &Options, host: &str, packet: &SimPacket, state: State, words: &[&str]) -> Fate {
    let text = iptables::render(&table_of(CLUSTER), model::Family::V4, options);
    let is_left_out = |line: &&str| !words.is_empty() && words.iter().all(|word| line.contains(word));
    let is_found = words.is_empty() || text.lines().any(|line| is_left_out(&line));
    assert!(is_found, "no rule has {words:?}:\n{text}");
    let kept: String = text.lines().filter(|line| !is_left_out(line)).flat_map(|line| [line, "\n"]).collect();
    let mut twin = Simulated::new(Variant::Nft, Family::V4);
    twin.restore(host).unwrap();
    twin.restore(&kept).unwrap();
    send(&mut twin, packet, state).fate
}

/// The packet ends so on such a host, and without any one of these rules otherwise.
fn check(
    options: &Options,
    host: &str,
    (packet, state): (SimPacket, State),
    expected: &Fate,
    rules: &[&[&str]],
) {
    assert_eq!(end(options, host, &packet, state, &[]), *expected, "{packet:?}");
    for words in rules {
        assert_ne!(end(options, host, &packet, state, words), *expected, "nobody misses {words:?}");
    }
}

#[test]
fn a_strict_host_forwards_what_we_translated_and_what_comes_after_it() {
    let options = Options::default();
    let jump: &[&str] = &["-I FORWARD ", "-j KUBE-FORWARD"];
    let marked: &[&str] = &["-A KUBE-FORWARD ", "--mark "];
    let landed = Fate::Dnat("10.244.0.1".parse().unwrap(), Some(8080));
    check(&options, STRICT, (arriving(CLIENT, NODE, NODE_PORT), State::New), &landed, &[jump, marked]);
    // An answer of the endpoint, say: the nat table is not asked again.
    let later: &[&str] = &["-A KUBE-FORWARD ", "RELATED,ESTABLISHED"];
    let packet = (arriving(CLIENT, "10.244.0.1", 8080), State::Established);
    check(&options, STRICT, packet, &Fate::Untouched, &[jump, later]);
}

#[test]
fn what_the_connection_tracker_finds_invalid_is_dropped() {
    let rule: &[&str] = &["-A KUBE-FORWARD ", "--ctstate INVALID"];
    let packet = (arriving(CLIENT, "10.244.0.1", 8080), State::Invalid);
    check(&Options::default(), "", packet, &Fate::Dropped, &[rule]);
}

#[test]
fn a_strict_host_lets_health_checks_in() {
    let rules: [&[&str]; 2] =
        [&["-I INPUT ", "-j KUBE-NODEPORTS"], &["-A KUBE-NODEPORTS ", "health check node port"]];
    let packet = (arriving(CLIENT, NODE, HEALTH_CHECK_PORT), State::New);
    check(&Options::default(), STRICT, packet, &Fate::Untouched, &rules);
}

#[test]
fn a_neighbour_does_not_reach_this_hosts_loopback_addresses() {
    let options = Options { localhost_node_ports: true, ..Options::default() };
    let rules: [&[&str]; 2] = [&["-I INPUT ", "-j KUBE-FIREWALL"], &["-A KUBE-FIREWALL ", "-j DROP"]];
    check(&options, "", (arriving(CLIENT, "127.0.0.1", 8080), State::New), &Fate::Dropped, &rules);
}
