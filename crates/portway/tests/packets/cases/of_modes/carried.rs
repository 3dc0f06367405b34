//! What holds only where portway itself carries connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use playground::plan::NODES;
use playground::{Ask, Family, Load, Protocol, Work, patient};

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::{PATIENCE, none_failed};
use crate::way::Way;

use crate::cases::ALL;
use crate::cases::live::Traffic;

/// So often is asked while a pod is dead.
const ASKED: usize = 200;
/// Ports of clients do not repeat while their flows are remembered.
const BETWEEN_DATAGRAMS: Duration = Duration::from_millis(5);
/// So often a node loses its portway.
const KILLS: u32 = 5;
/// A start takes less, on a machine that is not busy.
const GAP: Duration = Duration::from_secs(2);
/// The first dial has 250 ms; a pod that says nothing costs no more, and then is left alone.
const FIRST_DIAL: Duration = Duration::from_millis(250);

/// A pod whose port is closed refuses; one that is unplugged says nothing. The client notices neither.
pub(crate) fn root_a_dead_pod_costs_the_client_no_error(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    stage.playground.stop_serving("web-a-0");
    let slowest = all_answer(&stage, &web, &ALL[1..]);
    assert!(slowest < patient(FIRST_DIAL), "a refused dial took {slowest:?}");
    // All pods of node b are behind a wire that is cut.
    stage.playground.node("b").unplug().unwrap();
    let slowest = all_answer(&stage, &web, &ALL[1..2]);
    let limit = patient(FIRST_DIAL * 8);
    assert!(slowest < limit, "three of four pods are dead, and a connection took {slowest:?}");
    stage.playground.node("b").plug().unwrap();
    let status = stage.status("a");
    let carried = status.relay.unwrap().carried;
    assert!(carried.failed_dials > 0 && carried.retries > 0, "{carried}");
    assert_eq!(carried.failed, 0, "{carried}");
}

/// Everybody is answered, by these; how long the slowest took.
fn all_answer(stage: &Stage, web: &Service, pods: &[&str]) -> Duration {
    let dial = |number: usize| {
        let family = Family::ALL[number % 2];
        let begun = Instant::now();
        let to = web.cluster_ip(family);
        let outcome = stage.talk.ask(stage.place("client-a"), model::Protocol::Tcp, to, PATIENCE);
        let reply = outcome.reply().unwrap_or_else(|| panic!("connection {number}: {outcome}"));
        assert!(pods.contains(&&*reply.server), "{reply}");
        begun.elapsed()
    };
    (0..ASKED).map(dial).max().unwrap()
}

/// A crash closes what it carried. The next process binds the same ports, so that no rule changes; the gap is told.
#[expect(clippy::print_stderr, reason = "the test's own output")]
pub(crate) fn root_after_a_crash_the_same_ports_are_bound_and_the_gap_is_short(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let rules = stage.rules("a");
    let mut gaps = Vec::new();
    for _ in 0..KILLS {
        let begun = Instant::now();
        stage.kill("a");
        let outcome = stage.talk.ask(
            stage.place("client-a"),
            model::Protocol::Tcp,
            web.cluster_ip(Family::V4),
            PATIENCE,
        );
        assert!(outcome.is_refused(), "nobody listens: {outcome}");
        stage.start("a");
        until("it answers again", || {
            let ask = Ask::within(PATIENCE);
            playground::client::ask(stage.place("client-a"), Protocol::Tcp, web.cluster_ip(Family::V4), &ask)
                .is_answered()
        });
        gaps.push(begun.elapsed());
        stage.wait_for_sync("a");
        assert_eq!(stage.rules("a"), rules, "the rules lead to the same ports");
    }
    gaps.sort();
    assert!(gaps[gaps.len() - 1] < patient(GAP), "{gaps:?}");
    eprintln!("counted: {KILLS} crashes, the longest gap {} ms", gaps[gaps.len() - 1].as_millis());
}

/// What a client does not dial through the Service's own address is not served: it would go around source ranges.
pub(crate) fn root_a_port_of_ours_that_is_dialled_directly_refuses(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    let ports = stage.listening("a");
    assert!(!ports.is_empty());
    for port in ports {
        for (family, protocol) in stage.way().every_kind() {
            for from in ["outside", "client-a", "client-b", "a"] {
                let to = SocketAddr::new(stage.place("a").address(family), port);
                let outcome = stage.talk.ask(stage.place(from), protocol, to, PATIENCE);
                assert!(!outcome.is_answered(), "{from} -> {to} {protocol}: {outcome}");
            }
        }
    }
}

/// From each mode to userspace and back, one node after the other, each time by `--take-over`: no new connection fails.
/// Listeners of an earlier turn are gone, and connection tracking may still know a client's port that led there: clients are slow.
pub(crate) fn root_switching_to_and_from_userspace_fails_no_new_connection(setting: &Setting) {
    if !Way::by_kernel().all(Way::is_available) {
        return;
    }
    tour(setting, &Way::by_kernel().flat_map(|way| [way, userspace()]).collect::<Vec<_>>());
}

/// The same with IPVS, which takes packets in another place than all others.
pub(crate) fn root_switching_from_ipvs_to_userspace_and_back_fails_no_new_connection(setting: &Setting) {
    tour(setting, &[userspace(), setting.way()]);
}

/// To and from the nftables mode of an image that has no iptables program: each time what the userspace mode wrote goes.
pub(crate) fn root_switching_from_userspace_to_an_image_without_programs_fails_no_new_connection(
    setting: &Setting,
) {
    let bare = Way::without_program();
    tour(&setting.hiding_programs(), &[bare, userspace(), bare]);
}

fn userspace() -> Way {
    Way::named("userspace")
}

fn tour(setting: &Setting, ways: &[Way]) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let traffic = Traffic::start_slowly(&stage, &web);
    let datagrams = datagrams(&stage, &web);
    for way in ways {
        stage.go(*way);
        for node in NODES {
            stage.hand_over(node);
            traffic.go_on();
            if way.program().is_none() {
                until("nothing of the userspace mode is left", || {
                    !stage.rules(node).iter().any(|rule| rule.contains("KUBE-"))
                });
                traffic.go_on();
            }
        }
    }
    traffic.until_enough();
    traffic.end(&stage);
    let stats = datagrams.stop();
    none_failed(&stats);
    stage.talk.count_stats(Family::V4, Protocol::Udp, &stats);
    stage.end_old();
}

fn datagrams(stage: &Stage, web: &Service) -> Load {
    let work =
        Work { protocol: Protocol::Udp, parallel: 1, ask: Ask::within(PATIENCE), pause: BETWEEN_DATAGRAMS };
    Load::start(stage.place("client-b"), web.cluster_ip(Family::V4), &work).unwrap()
}
