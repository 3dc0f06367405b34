//! The playground itself: is everybody reachable, do servers tell the truth, does nothing stay behind?

#![expect(clippy::unwrap_used, reason = "in the helpers of tests a panic is the report")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use playground::client::ask;
use playground::namespace::socket::RawSocket;
use playground::{
    Ask, Balancer, Family, Held, Load, Options, Ping, Place, Playground, PodNetwork, Ports, Protocol,
    Refusal, Stats, Work, available, connect_latencies, many, ping, sctp_init, tcp, udp,
};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(5);

/// A playground, or `None` where it cannot be made.
fn playground(test: &str, options: &Options) -> Option<Playground> {
    available(test).then(|| Playground::new(options).unwrap())
}

fn few_servers() -> Options {
    Options { servers_per_node: 1, ..Options::default() }
}

/// Asks every server pod from a place, both families, both protocols; returns how many questions that were.
fn ask_all(playground: &Playground, from: &Place) -> usize {
    let mut asked = 0;
    for (web, family) in playground.webs().flat_map(|web| Family::ALL.map(|family| (web, family))) {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let destination = web.at(family, 8080);
            let outcome = ask(from, protocol, destination, &Ask::default());
            let reply = outcome.reply().unwrap_or_else(|| panic!("{protocol:?} {destination}: {outcome}"));
            assert_eq!(reply.server, web.name());
            assert_eq!(reply.to, destination);
            assert_eq!(reply.address, web.address(family));
            assert_eq!(reply.saw.ip(), from.address(family), "{} to {destination}", from.name());
            asked += 1;
        }
    }
    asked
}

fn everyone_reaches_every_pod(test: &str, pod_network: PodNetwork) {
    let options = Options { pod_network, ..Options::default() };
    let Some(playground) = playground(test, &options) else { return };
    let clients = playground.clients().chain(playground.webs()).chain([playground.outside()]);
    let asked: usize = clients.map(|client| ask_all(&playground, client)).sum();
    assert_eq!(asked, 9 * 6 * 4);
    // From a node the source is the address nearest to the pod, so only the answer is looked at.
    for (node, web) in playground.nodes().iter().zip(playground.webs()) {
        assert!(tcp(node.place(), web.at(Family::V6, 8080)).is_answered());
    }
}

#[test]
fn root_everyone_reaches_every_routed_pod() {
    everyone_reaches_every_pod("root_everyone_reaches_every_routed_pod", PodNetwork::Routed);
}

#[test]
fn root_everyone_reaches_every_bridged_pod() {
    everyone_reaches_every_pod("root_everyone_reaches_every_bridged_pod", PodNetwork::Bridged);
}

#[test]
fn root_the_standard_topology_is_there_within_a_second() {
    if !available("root_the_standard_topology") {
        return;
    }
    let mut took: Vec<_> = (0..5)
        .map(|_| {
            let start = Instant::now();
            Playground::new(&Options::default()).unwrap();
            start.elapsed()
        })
        .collect();
    took.sort_unstable();
    println!("12 namespaces built (and gone) in {took:.0?}");
    // The best of five: the others may have met a busy machine.
    assert!(took[0] < Duration::from_secs(1), "{took:?}");
}

#[test]
fn too_many_pods_are_refused_in_words() {
    let options = Options { servers_per_node: 91, ..Options::default() };
    let error = Playground::new(&options).unwrap_err().to_string();
    assert_eq!(error, "91 server pods per node, but the plan has room for 90");
}

#[test]
fn root_refused_unreachable_and_silent_are_told_apart() {
    let Some(playground) = playground("root_refused_unreachable_and_silent", &few_servers()) else { return };
    let client = playground.place("client-a");
    // A blackhole answers a local caller at once; on the way it is silent.
    playground
        .node("a")
        .place()
        .ip(["route add blackhole 10.99.0.0/16", "route add blackhole fd00:99::/64"])
        .unwrap();
    for (closed, silent, nowhere) in [
        ("10.244.2.10:9", "10.99.0.1:80", "10.96.0.1:80"),
        ("[fd00:10:244:2::10]:9", "[fd00:99::1]:80", "[fd00:96::1]:80"),
    ] {
        let dial =
            |to: &str, protocol, limit| ask(client, protocol, to.parse().unwrap(), &Ask::within(limit));
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let refused = dial(closed, protocol, SHORT);
            assert!(refused.is_refused(), "{closed} {protocol:?}: {refused}");
            let start = Instant::now();
            let timed_out = dial(silent, protocol, SHORT);
            assert!(timed_out.is_timed_out(), "{silent} {protocol:?}: {timed_out}");
            assert!(start.elapsed() >= SHORT && start.elapsed() < 3 * SHORT, "{:?}", start.elapsed());
            let lost = dial(nowhere, protocol, LONG);
            let unreachable =
                matches!(lost, playground::Outcome::Refused { refusal: Refusal::Unreachable, .. });
            assert!(unreachable, "{nowhere} {protocol:?}: {lost}");
        }
    }
}

#[test]
fn root_sctp_init_is_answered_refused_or_met_with_silence() {
    let Some(mut playground) = playground("root_sctp_init", &few_servers()) else { return };
    for family in Family::ALL {
        let (client, web) = (playground.place("client-a"), playground.place("web-b-0"));
        let outcome = sctp_init(client, web.at(family, 8080), LONG);
        let reply = outcome.reply().unwrap_or_else(|| panic!("{outcome}"));
        assert_eq!((reply.server.as_str(), reply.to), ("web-b-0", web.at(family, 8080)));
        assert_eq!(reply.saw.ip(), client.address(family));
        assert!(playground.server("web-b-0").unwrap().inits().contains(reply));
        assert!(sctp_init(client, web.at(family, 9), LONG).is_refused());
    }
    playground.stop_serving("web-b-0");
    let (client, web) = (playground.place("client-a"), playground.place("web-b-0"));
    for family in Family::ALL {
        let outcome = sctp_init(client, web.at(family, 8080), LONG);
        assert!(
            matches!(outcome, playground::Outcome::Refused { refusal: Refusal::Unreachable, .. }),
            "{outcome}"
        );
    }
}

#[test]
fn root_ping_is_answered_unreachable_or_met_with_silence() {
    let Some(playground) = playground("root_ping", &few_servers()) else { return };
    let client = playground.place("client-a");
    playground
        .node("a")
        .place()
        .ip(["route add blackhole 10.99.0.0/16", "route add blackhole fd00:99::/64"])
        .unwrap();
    for (family, silent, nowhere) in
        [(Family::V4, "10.99.0.1", "10.96.0.1"), (Family::V6, "fd00:99::1", "fd00:96::1")]
    {
        let there = playground.place("web-b-0").address(family);
        assert!(matches!(ping(client, there, LONG), Ping::Answered { .. }), "{family:?}");
        assert_eq!(ping(client, silent.parse().unwrap(), SHORT), Ping::TimedOut);
        let lost = ping(client, nowhere.parse().unwrap(), LONG);
        assert!(matches!(lost, Ping::Unreachable { .. }), "{family:?} {lost:?}");
    }
}

#[test]
fn root_a_chosen_source_is_seen() {
    let Some(playground) = playground("root_a_chosen_source_is_seen", &few_servers()) else { return };
    let (client, web) = (playground.place("client-b"), playground.place("web-a-0"));
    for (family, protocol) in Family::ALL.into_iter().flat_map(|f| [(f, Protocol::Tcp), (f, Protocol::Udp)]) {
        let destination = web.at(family, 8080);
        let outcome = ask(client, protocol, destination, &Ask::from_port(client, destination, 4711));
        assert_eq!(outcome.reply().unwrap().saw, client.at(family, 4711), "{outcome}");
    }
    // A second address, as of a client behind another one.
    client.ip(["addr add 10.244.2.77/32 dev lo"]).unwrap();
    playground.node("b").place().ip(["route add 10.244.2.77 dev vethclient-b"]).unwrap();
    let source: SocketAddr = "10.244.2.77:0".parse().unwrap();
    let how = Ask { source: Some(source), ..Ask::default() };
    let outcome = ask(client, Protocol::Tcp, web.at(Family::V4, 8080), &how);
    assert_eq!(outcome.reply().unwrap().saw.ip(), source.ip(), "{outcome}");
}

#[test]
fn root_a_held_connection_lives_until_its_server_stops() {
    let Some(mut playground) = playground("root_a_held_connection", &few_servers()) else { return };
    let web = playground.place("web-b-0");
    let (stream, flow) = (web.at(Family::V6, 8081), web.at(Family::V4, 8080));
    let client = playground.place("client-a");
    let mut tcp = Held::open(client, Protocol::Tcp, stream, &Ask::default()).unwrap();
    let mut udp = Held::open(client, Protocol::Udp, flow, &Ask::default()).unwrap();
    for held in [&mut tcp, &mut udp] {
        let local = held.local().unwrap();
        assert_eq!(held.reply().saw.port(), local.port());
        for _ in 0..20 {
            let outcome = held.ping(LONG);
            assert_eq!(outcome.reply(), Some(held.reply()), "{outcome}");
        }
    }
    assert!(playground.stop_serving("web-b-0"));
    assert!(!tcp.ping(LONG).is_answered());
    assert!(udp.ping(LONG).is_refused());
}

#[test]
fn root_a_host_network_server_and_a_restart_on_the_same_port() {
    let Some(mut playground) = playground("root_a_host_network_server", &few_servers()) else { return };
    for _ in 0..3 {
        playground.serve("b", &Ports::default()).unwrap();
        let (client, node) = (playground.place("client-a"), playground.place("b"));
        for family in Family::ALL {
            assert_eq!(tcp(client, node.at(family, 8080)).server(), Some("b"));
            assert_eq!(udp(client, node.at(family, 8080)).server(), Some("b"));
        }
    }
}

#[test]
fn root_many_and_load_count_every_answer() {
    let Some(playground) = playground("root_many_and_load", &few_servers()) else { return };
    let (client, web) = (playground.place("client-a"), playground.place("web-b-0"));
    let start = Instant::now();
    let stats = many(client, web.at(Family::V4, 8080), 4_000, &Work::default()).unwrap();
    println!("4,000 connections in {:.0?}", start.elapsed());
    assert_eq!((stats.ok, stats.failed), (4_000, 0), "{stats}");
    assert_eq!(stats.servers["web-b-0"], 4_000);
    assert_eq!(stats.sources["10.244.1.5"], 4_000);
    let work = Work { protocol: Protocol::Udp, parallel: 2, ..Work::default() };
    let load = Load::start(client, web.at(Family::V6, 8080), &work).unwrap();
    assert!(load.wait_for(500, LONG));
    assert!(load.so_far().ok >= 500);
    let stats = load.stop();
    assert!(stats.ok >= 500 && stats.failed == 0, "{stats}");
    let failing = many(client, web.at(Family::V4, 9), 50, &Work::default()).unwrap();
    assert_eq!((failing.ok, failing.failed, failing.failures.len()), (0, 50, 20), "{failing}");
}

#[test]
fn root_connect_latencies_are_sampled_side_by_side() {
    let Some(playground) = playground("root_connect_latencies", &few_servers()) else { return };
    let (client, web) = (playground.place("client-a"), playground.place("web-a-0"));
    let destinations = Family::ALL.map(|family| web.at(family, 8080));
    let latencies = connect_latencies(client, &destinations, 500).unwrap();
    for (destination, latencies) in destinations.iter().zip(&latencies) {
        println!("{destination}: p50 {:.1?}, p99 {:.1?}", latencies.p50(), latencies.p99());
        assert_eq!(latencies.sorted().len(), 500);
        assert!(latencies.p50() < Duration::from_millis(10));
    }
    assert!(connect_latencies(client, &[web.at(Family::V4, 9)], 1).is_err());
}

#[test]
fn root_the_balancer_goes_on_when_a_node_dies() {
    let Some(mut playground) = playground("root_the_balancer", &few_servers()) else { return };
    playground.serve("a", &Ports::default()).unwrap();
    playground.serve("b", &Ports::default()).unwrap();
    let outside = playground.outside();
    for family in Family::ALL {
        let targets = ["a", "b"].map(|node| playground.place(node).at(family, 8080));
        let balancer = Balancer::start(outside, family, 80, &targets).unwrap();
        let ask_some = |count| -> Stats {
            let work = Work { parallel: 2, ..Work::default() };
            let stats = many(outside, balancer.address(), count, &work).unwrap();
            assert_eq!(stats.failed, 0, "{family:?} {stats}");
            stats
        };
        let servers = ask_some(100).servers;
        assert!(servers["a"] >= 40 && servers["b"] >= 40, "{family:?} {servers:?}");
        playground.node("a").unplug().unwrap();
        assert_eq!(ask_some(100).servers["b"], 100);
        assert_eq!(balancer.taken(), [servers["a"], servers["b"] + 100]);
        playground.node("a").plug().unwrap();
    }
}

#[test]
fn root_an_unplugged_node_is_silent_and_comes_back() {
    let Some(playground) = playground("root_an_unplugged_node", &few_servers()) else { return };
    let (outside, web) = (playground.outside(), playground.place("web-a-0"));
    for family in Family::ALL {
        let destination = web.at(family, 8080);
        assert!(tcp(outside, destination).is_answered());
        playground.node("a").unplug().unwrap();
        let outcome = ask(outside, Protocol::Tcp, destination, &Ask::within(SHORT));
        assert!(outcome.is_timed_out(), "{family:?}: {outcome}");
        playground.node("a").plug().unwrap();
        let outcome = ask(outside, Protocol::Tcp, destination, &Ask::within(LONG));
        assert!(outcome.is_answered(), "{family:?}: {outcome}");
    }
}

#[test]
fn root_service_ranges_go_to_the_chosen_node() {
    let Some(playground) = playground("root_service_ranges", &few_servers()) else { return };
    // A stand-in for a Service: the address itself, on one node.
    let vips: [SocketAddr; 2] = ["203.0.113.7:8080".parse().unwrap(), "[2001:db8::7]:8080".parse().unwrap()];
    let add = vips.map(|vip| format!("addr add {} dev lo", vip.ip()));
    for node in ["a", "b"] {
        playground.node(node).place().ip(add.clone()).unwrap();
        playground.route_services_via(node).unwrap();
        for vip in vips {
            assert!(tcp(playground.outside(), vip).is_refused());
        }
        playground.node(node).place().ip(vips.map(|vip| format!("addr del {} dev lo", vip.ip()))).unwrap();
        for vip in vips {
            assert!(!tcp(playground.outside(), vip).is_refused());
        }
    }
}

#[test]
fn root_two_playgrounds_do_not_disturb_each_other() {
    if !available("root_two_playgrounds") {
        return;
    }
    let one = Playground::new(&few_servers()).unwrap();
    let mut other = Playground::new(&few_servers()).unwrap();
    other.stop_serving("web-a-0");
    let destination = one.place("web-a-0").at(Family::V4, 8080);
    assert!(tcp(one.place("client-a"), destination).is_answered());
    assert!(tcp(other.place("client-a"), destination).is_refused());
    drop(other);
    assert!(tcp(one.outside(), destination).is_answered());
    let ids: BTreeSet<_> = one.places().map(|place| place.namespace().id().unwrap()).collect();
    assert_eq!(ids.len(), one.places().count());
}

/// What was seen: a server that had been told of an ICMP error waited for ever for a packet, and all its clients with it.
#[test]
fn root_an_icmp_error_that_was_told_does_not_hold_up_who_receives() {
    let test = "root_an_icmp_error_that_was_told_does_not_hold_up_who_receives";
    let Some(playground) = playground(test, &few_servers()) else { return };
    let (client, outside) = (playground.place("client-a"), playground.outside());
    for family in Family::ALL {
        let (local, peer) = (client.address(family), outside.address(family));
        let socket = client.run(|| RawSocket::open(playground::sctp::PROTOCOL, local)).unwrap().unwrap();
        socket.connect(peer).unwrap();
        // Nobody there speaks SCTP, and two errors come back; one is told, and the other is in the queue.
        let _ = (socket.send(&[0; 16], peer), socket.send(&[0; 16], peer));
        assert!(socket.receive(LONG).is_err(), "no error came: {family:?}");
        let mut received = socket.receive(SHORT);
        while received.is_err() {
            received = socket.receive(SHORT);
        }
        assert_eq!(received.unwrap(), None, "{family:?}");
    }
}

#[test]
fn root_a_program_runs_on_its_node_and_is_heard() {
    let Some(playground) = playground("root_a_program_runs_on_its_node", &few_servers()) else { return };
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        playground.node("b").spawn(command).unwrap()
    };
    let addresses = shell("ip -brief addr; echo done >&2");
    assert!(addresses.wait_for_line("done", LONG).is_some());
    assert!(addresses.wait_for_line("192.168.0.2/24", LONG).is_some(), "{:?}", addresses.output());
    assert!(addresses.wait_for_line("no such words", Duration::from_millis(1)).is_none());
    let mut polite = shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    assert!(polite.wait_for_line("ready", LONG).is_some());
    assert_eq!(polite.terminate(LONG).unwrap().and_then(|status| status.code()), Some(3));
    assert!(polite.wait_for_line("bye", LONG).is_some());
    let mut stubborn = shell("echo ready; exec sleep 1000");
    assert!(stubborn.wait(Duration::ZERO).unwrap().is_none());
    assert!(!stubborn.kill9().unwrap().success());
}
