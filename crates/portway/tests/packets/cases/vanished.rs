//! A pod that vanishes without a word: its clients are told at their next packet, and nobody else notices.

use std::process::Command;
use std::time::Duration;

use playground::{Ask, Family, Held, Process, Protocol, patient};

use crate::manifest::Service;
use crate::stage::{Setting, Stage, until};
use crate::talk::PATIENCE;

use super::ALL;

/// The pod that vanishes.
const GONE: &str = "web-b-1";
/// Connections for each family from a pod, and from the node itself.
const OF_POD: usize = 40;
const OF_NODE: usize = 10;
/// A connection ends so soon after its next packet.
const LIMIT: Duration = Duration::from_secs(1);

pub(crate) fn root_clients_of_a_vanished_pod_are_reset_and_all_others_go_on(setting: &Setting) {
    let web = Service::new("web", 1).of_pods().on(&ALL);
    let Some(mut stage) = setting.stage(&[&web]) else { return };
    let held = hold_all(&stage, &web);
    // A rolling update: one pod ends gracefully. It serves its connections to their ends, and then goes.
    stage.apply(&web.clone().on(&["web-a-1", "web-b-0", GONE]).terminating("web-a-0", true));
    let (mut finished, mut held): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|held| held.reply().server == "web-a-0");
    finished.iter_mut().chain(&mut held).for_each(goes_on);
    drop(finished);
    stage.apply(&web.clone().on(&["web-a-1", "web-b-0", GONE]));
    held.iter_mut().for_each(goes_on);
    // The other one says nothing more, and then it is gone.
    let (mut lost, mut held): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|held| held.reply().server == GONE);
    assert!(lost.len() >= 4, "only {} connections lead to {GONE}", lost.len());
    mute(&stage, GONE);
    stage.apply(&web.clone().on(&["web-a-1", "web-b-0"]).terminating(GONE, true));
    // This one has sent into the void, and sends again ever more seldom.
    let mut waiting = lost.swap_remove(0);
    assert!(waiting.ping(LIMIT).is_timed_out(), "{GONE} still speaks");
    stage.apply(&web.clone().on(&["web-a-1", "web-b-0"]));
    lost.iter_mut().for_each(ends);
    let outcome = waiting.ping(PATIENCE);
    assert!(!outcome.is_answered(), "{outcome}");
    held.iter_mut().for_each(goes_on);
    // A line may still be on its way.
    until("it is told", || stage.said("a").contains("ended connections to a Pod that has vanished"));
}

/// No endpoint is left that could reset them. And with `nf_conntrack_tcp_loose=0` the kernel takes no packet in the middle of a connection
/// for a first one.
pub(crate) fn root_clients_of_the_last_pod_are_reset_also_where_the_tracker_is_strict(setting: &Setting) {
    let web = Service::new("web", 1).of_pods();
    let Some(mut stage) = setting.stage(&[&web.clone().on(&[GONE])]) else { return };
    vanishes(&mut stage, &web, GONE, &[]);
    for node in ["a", "b"] {
        run(&stage, node, "sysctl", &["-w", "net.netfilter.nf_conntrack_tcp_loose=0"]);
    }
    stage.apply(&web.clone().on(&["web-a-1"]));
    vanishes(&mut stage, &web, "web-a-1", &["web-a-0"]);
    hold(&stage, &web, "client-a", 2).iter_mut().for_each(goes_on);
}

/// The only endpoint vanishes, while others come in its place, or none.
fn vanishes(stage: &mut Stage, web: &Service, pod: &str, others: &[&str]) {
    let mut held = hold(stage, web, "client-a", 2);
    mute(stage, pod);
    stage.apply(&web.clone().on(others).terminating(pod, true));
    stage.apply(&web.clone().on(others));
    held.iter_mut().for_each(ends);
}

fn hold_all(stage: &Stage, web: &Service) -> Vec<Held> {
    let mut held = hold(stage, web, "client-a", OF_POD);
    held.extend(hold(stage, web, "a", OF_NODE));
    held
}

fn hold(stage: &Stage, web: &Service, from: &str, count: usize) -> Vec<Held> {
    let mut held = Vec::new();
    for family in Family::ALL {
        let to = web.held_cluster_ip(family);
        let open = || Held::open(stage.place(from), Protocol::Tcp, to, &Ask::within(PATIENCE));
        held.extend((0..count).map(|_| open().unwrap()));
    }
    held
}

fn goes_on(held: &mut Held) {
    let outcome = held.ping(PATIENCE);
    assert_eq!(outcome.server(), Some(&*held.reply().server), "{outcome}");
}

fn ends(held: &mut Held) {
    let outcome = held.ping(LIMIT);
    assert!(!outcome.is_answered() && !outcome.is_timed_out(), "{outcome}");
}

/// From now on the pod hears and says nothing: no FIN, no reset.
fn mute(stage: &Stage, pod: &str) {
    let drop = |hook: &str| {
        format!("add chain inet mute {hook} {{ type filter hook {hook} priority -300; policy drop; }}")
    };
    let rules = format!("add table inet mute; {}; {}", drop("input"), drop("output"));
    run(stage, pod, "nft", &[&rules]);
}

fn run(stage: &Stage, place: &str, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments);
    let mut process = Process::spawn(stage.place(place), command).unwrap();
    let ended = process.wait(patient(PATIENCE)).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{program}: {}", process.output().join("\n"));
}
