//! A client stays with its endpoint, at every frontend of a service port, until it has rested for the timeout.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use model::Protocol;
use playground::Family;

use crate::check::Target;
use crate::manifest::Service;
use crate::stage::{Setting, Stage};
use crate::talk::PATIENCE;

use super::ALL;

const TIMEOUT: Duration = Duration::from_secs(2);
/// A machine that is busy for so long between two questions has let the affinity end: nothing is proven then.
const PAUSE_MAX: Duration = Duration::from_millis(1_500);
/// Four endpoints: so often in a row the same one by chance is once in 10⁷ times.
const RESTS_MAX: usize = 12;

pub(crate) fn root_a_client_stays_with_its_endpoint_at_every_frontend(setting: &Setting) {
    let web = sticky_web();
    let Some(stage) = setting.stage(&[&web]) else { return };
    let frontends = [
        stage.cluster_ip(&web),
        stage.node_port("a", &web),
        stage.load_balancer_ip(&web),
        stage.external_ip(&web),
    ];
    for (family, protocol) in stage.way().every_kind() {
        for client in ["client-a", "outside"] {
            stays(&stage, client, protocol, &frontends, family);
        }
    }
}

pub(crate) fn root_affinity_ends_when_the_client_rests(setting: &Setting) {
    let web = sticky_web();
    let Some(stage) = setting.stage(&[&web]) else { return };
    let target = stage.cluster_ip(&web);
    thread::scope(|scope| {
        for (family, protocol) in stage.way().every_kind() {
            let (stage, target) = (&stage, &target);
            scope.spawn(move || {
                is_refreshed_by_use(stage, protocol, target, family);
                if !stage.way().behaviour().affinity_waits_for_connections {
                    ends_after_a_rest(stage, protocol, target, family);
                }
            });
        }
    });
}

fn sticky_web() -> Service {
    let seconds = u32::try_from(TIMEOUT.as_secs()).unwrap();
    Service::new("web", 1).on(&ALL).sticky(seconds).load_balanced().externally()
}

/// Whichever frontend it dials, and however often.
fn stays(stage: &Stage, client: &str, protocol: Protocol, frontends: &[Target], family: Family) {
    let in_time = |rounds| {
        let (mut servers, mut last, mut longest) = (BTreeSet::new(), Instant::now(), Duration::ZERO);
        for target in frontends.iter().cycle().take(rounds * frontends.len()) {
            servers.insert(who_answers(stage, client, protocol, target, family));
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        (longest < PAUSE_MAX).then_some(servers)
    };
    let servers = std::iter::from_fn(|| Some(in_time(4))).flatten().next().unwrap();
    assert_eq!(servers.len(), 1, "{client} {protocol} {family:?}: {servers:?}");
}

/// A client that goes on asking stays for longer than the timeout.
fn is_refreshed_by_use(stage: &Stage, protocol: Protocol, target: &Target, family: Family) {
    let ask = || who_answers(stage, "client-a", protocol, target, family);
    let (mut server, mut begun, mut last) = (ask(), Instant::now(), Instant::now());
    while begun.elapsed() < TIMEOUT * 3 / 2 {
        thread::sleep(Duration::from_millis(100));
        let again = ask();
        if last.elapsed() > PAUSE_MAX {
            (server, begun) = (again.clone(), Instant::now());
        }
        last = Instant::now();
        assert_eq!(again, server, "{protocol} {family:?}");
    }
}

/// After the timeout any endpoint may answer, so before long another one does.
fn ends_after_a_rest(stage: &Stage, protocol: Protocol, target: &Target, family: Family) {
    let ask = || who_answers(stage, "client-a", protocol, target, family);
    let before = ask();
    let another_answers = (0..RESTS_MAX).any(|_| {
        thread::sleep(TIMEOUT + Duration::from_millis(100));
        ask() != before
    });
    assert!(another_answers, "{protocol} {family:?}: always {before}");
}

fn who_answers(stage: &Stage, client: &str, protocol: Protocol, target: &Target, family: Family) -> String {
    let to = target.address(family);
    let outcome = stage.talk.ask(stage.place(client), protocol, to, PATIENCE);
    outcome.server().unwrap_or_else(|| panic!("{client} -> {to} {protocol}: {outcome}")).to_owned()
}
