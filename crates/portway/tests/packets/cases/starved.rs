//! A machine whose cores belong to others: restarts, crashes, take-overs and switches of mode take seconds there, and still no
//! connection is refused, lost, or led to a pod of another Service.
//!
//! The CPU hogs have a better priority than portway and the clients.
//! A connection that a pod accepted and did not answer in time is the pod's own time-out: it is counted and printed, and it fails
//! no test. A refusal, a SYN that nobody answers, a cut connection and an answer of a wrong pod do.
//!
//! `PORTWAY_STARVED_TURNS` says how often each moment is tried, once when it does not; `PORTWAY_STARVED_HOGS` how many hogs there are
//! for each core. docs/operating.md has the figures of 50 turns.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use playground::plan::NODES;
use playground::{Ask, Family, Load, Process, Protocol, Stats, Work};

use crate::manifest::Service;
use crate::stage::{Setting, Stage};
use crate::way::Way;

/// The endpoints of the Service that the clients dial. The fourth pod serves another one, where an answer would be misdelivered.
const ENDPOINTS: [&str; 3] = ["web-a-0", "web-a-1", "web-b-0"];
const STRANGER: &str = "web-b-1";
/// Long enough for four SYNs: a connect that fails was lost, not late.
const PATIENCE: Duration = Duration::from_secs(10);
/// Client ports do not repeat while the connection tracker remembers them.
const BETWEEN: Duration = Duration::from_millis(4);
/// Connections of each client after each moment.
const LULL: u64 = 10;
const LULL_LIMIT: Duration = Duration::from_secs(60);
const HOGS_PER_CORE: u32 = 4;

/// In a mode whose rules serve without the program.
pub(crate) fn root_on_a_starved_machine_restarts_and_kills_lose_no_connection(setting: &Setting) {
    let Some(mut scene) = Scene::start(setting) else { return };
    for turn in 0..turns() {
        let node = NODES[turn as usize % NODES.len()];
        scene.stage.terminate(node);
        scene.restart(node);
        scene.stage.kill(node);
        scene.restart(node);
    }
    scene.end("restarted and killed");
}

pub(crate) fn root_on_a_starved_machine_take_overs_lose_no_connection(setting: &Setting) {
    let Some(mut scene) = Scene::start(setting) else { return };
    for turn in 0..turns() {
        scene.stage.hand_over(NODES[turn as usize % NODES.len()]);
        scene.go_on();
    }
    scene.end("taken over");
}

/// From this mode to each other one and back, with `--take-over`, since userspace mode relays connections itself.
pub(crate) fn root_on_a_starved_machine_switches_of_mode_lose_no_connection(setting: &Setting) {
    if !Way::here().all(Way::is_available) {
        return;
    }
    let Some(mut scene) = Scene::start(setting) else { return };
    let home = scene.stage.way();
    let others = Way::here().filter(|way| *way != home);
    let tour: Vec<Way> = others.flat_map(|way| [way, home]).collect();
    for turn in 0..turns() {
        let node = NODES[turn as usize % NODES.len()];
        for way in &tour {
            scene.stage.go(*way);
            scene.stage.hand_over(node);
            scene.go_on();
        }
    }
    scene.end("switched modes");
}

/// Both nodes, two clients that dial all the while, and the hogs.
struct Scene {
    clients: Vec<(Family, Load)>,
    hogs: Vec<Process>,
    stage: Stage,
}

impl Scene {
    fn start(setting: &Setting) -> Option<Self> {
        let web = Service::new("web", 1).on(&ENDPOINTS);
        let other = Service::new("other", 2).on(&[STRANGER]);
        let stage = setting.stage(&[&web, &other])?;
        let work = Work { parallel: 2, ask: Ask::within(PATIENCE), pause: BETWEEN, ..Work::default() };
        let client = |family, from, to| (family, Load::start(stage.place(from), to, &work).unwrap());
        let node_port = stage.place("b").at(Family::V6, web.node_port());
        let clients = vec![
            client(Family::V4, "client-a", web.cluster_ip(Family::V4)),
            client(Family::V6, "outside", node_port),
        ];
        let cores =
            std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap());
        let hogs = (0..cores * from_environment("PORTWAY_STARVED_HOGS", HOGS_PER_CORE)).map(|_| hog(&stage));
        let hogs = hogs.collect();
        Some(Self { clients, hogs, stage })
    }

    fn restart(&mut self, node: &'static str) {
        self.go_on();
        self.stage.start(node);
        self.stage.wait_for_sync(node);
        self.go_on();
    }

    /// Lets each client finish a few connections.
    fn go_on(&self) {
        for (_, client) in &self.clients {
            assert!(client.wait_for(LULL, LULL_LIMIT), "no connection ended: {}", client.so_far());
        }
    }

    fn end(mut self, moment: &str) {
        self.hogs.clear();
        let mut late = 0;
        for (family, client) in self.clients.drain(..) {
            let stats = client.stop();
            self.stage.talk.count_stats(family, Protocol::Tcp, &stats);
            late += nothing_is_lost(&stats);
        }
        self.stage.end_old();
        say(&format!("{moment} on a starved machine: {late} connections accepted, but not answered in time"));
    }
}

/// Nothing was refused, lost, cut or misdelivered; how many connections the pods accepted and did not answer in time.
fn nothing_is_lost(stats: &Stats) -> u64 {
    assert!(stats.ok > 0, "nothing was answered: {stats}");
    let mut failed: BTreeMap<_, _> = stats.failed_by_kind.clone();
    let late = failed.remove("unanswered").unwrap_or_default();
    assert!(failed.is_empty(), "{failed:?}: {stats}");
    let is_wrong = |server: &&String| !ENDPOINTS.contains(&server.as_str());
    let wrong: Vec<_> = stats.servers.keys().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?} answered, who is no endpoint of the Service: {stats}");
    late
}

/// Uses a core as long as this test runs, before everybody else.
fn hog(stage: &Stage) -> Process {
    let mut command = Command::new("nice");
    command.args(["-n", "-5", "sh", "-c", "while :; do :; done"]);
    Process::spawn(stage.place("outside"), command).unwrap()
}

fn turns() -> u32 {
    from_environment("PORTWAY_STARVED_TURNS", 1)
}

fn from_environment(name: &str, usually: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

#[expect(clippy::print_stderr, reason = "the test's own output, from which the summary takes the counts")]
fn say(what: &str) {
    eprintln!("counted: {what}");
}
