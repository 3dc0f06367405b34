//! The loop with a clock of its own, on a dataplane of the test's choice.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use agent::{Done, Effect, Errand, Event, Line, Loop, Now, Reply, Start};
use apiserver::Announcement;
use config::{PaceOptions, VanishedTcp};
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Mode, Scope, SyncError};
use kernel::nft::{Family, Kernel as _, Listed};
use kernel_sim::nft::Simulated;
use model::Config;
use model::facts::Node;
use model::time::Timestamp;
use observe::picture::Picture;
use observe::question::{Answer, Question};
use observe::status::Status;
use serde_json::{Value, json};
use standalone::control_plane::ControlPlane;
use standalone::host::HostFacts;
use standalone::ipam::{self, HostNetwork};
use standalone::objects::{Change, Kind, Object, ObjectKey};

/// A sync takes so long on the clock of the tests.
pub(crate) const SYNC: Duration = Duration::from_millis(1);

/// The loop, a dataplane and a clock.
pub(crate) struct Sim<D> {
    pub(crate) state: Loop,
    pub(crate) dataplane: D,
    pub(crate) now: Duration,
    pub(crate) wake_at: Option<Duration>,
    /// What was synced, and when.
    pub(crate) syncs: Vec<(Duration, Scope)>,
    pub(crate) settled: usize,
    pub(crate) told: Vec<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) announced: Vec<Announcement>,
    pub(crate) answered_balancers: usize,
    /// Nodes that the server was asked for.
    pub(crate) asked_nodes: Vec<Box<str>>,
    pub(crate) errands: Vec<(Duration, Errand)>,
    pub(crate) errand_result: Result<Done, String>,
    pub(crate) has_exited: bool,
    pub(crate) glances: Vec<Duration>,
    pub(crate) is_flushed: bool,
    /// What a look for rules says, and when one was taken.
    pub(crate) look_result: Result<bool, SyncError>,
    pub(crate) looks: Vec<Duration>,
    /// When the checks of the host were asked for. The test answers.
    pub(crate) examined: Vec<Duration>,
}

pub(crate) fn sim() -> Sim<Nftables<Simulated>> {
    sim_on(Nftables::new(Simulated::default(), Options::default()))
}

pub(crate) fn sim_on<D: Dataplane>(dataplane: D) -> Sim<D> {
    sim_with(Path::new("/nonexistent/portway-run-loop"), true, dataplane)
}

/// In a mode that is glanced at.
pub(crate) fn sim_glancing(every: Duration) -> Sim<Nftables<Simulated>> {
    let picture = picture(Path::new("/nonexistent/portway-run-loop"), true);
    sim_of(
        picture,
        None,
        Nftables::new(Simulated::default(), Options::default()),
        Some(every),
        VanishedTcp::Reset,
    )
}

/// With `--vanished-tcp leave`.
pub(crate) fn sim_leaving_vanished() -> Sim<Nftables<Simulated>> {
    let picture = picture(Path::new("/nonexistent/portway-run-loop"), true);
    let dataplane = Nftables::new(Simulated::default(), Options::default());
    sim_of(picture, None, dataplane, None, VanishedTcp::Leave)
}

pub(crate) fn sim_with<D: Dataplane>(state_dir: &Path, dry_run: bool, dataplane: D) -> Sim<D> {
    sim_of(picture(state_dir, dry_run), None, dataplane, None, VanishedTcp::Reset)
}

fn picture(state_dir: &Path, dry_run: bool) -> Picture {
    let options = ipam::Options {
        service_cidrs: vec!["10.96.0.0/12".parse().unwrap()],
        load_balancer_cidrs: Vec::new(),
        node_port_range: 30_000..=32_767,
        state_dir: state_dir.into(),
        dry_run,
    };
    let control_plane = ControlPlane::open_on(&HostNetwork::default(), options, Timestamp(0)).unwrap();
    let config = Config { node_name: "a".into(), ..Config::default() };
    Picture::new(config, control_plane, None)
}

/// On a node of a cluster with an API server.
pub(crate) fn sim_of_server(config: Config) -> Sim<Nftables<Simulated>> {
    let dataplane = Nftables::new(Simulated::default(), Options::default());
    sim_of(
        Picture::of_server(config),
        Some("https://192.0.2.100:6443/".into()),
        dataplane,
        None,
        VanishedTcp::Reset,
    )
}

fn sim_of<D: Dataplane>(
    picture: Picture,
    server: Option<String>,
    dataplane: D,
    glance: Option<Duration>,
    vanished_tcp: VanishedTcp,
) -> Sim<D> {
    Sim::new(start(picture, server, glance, vanished_tcp), dataplane)
}

/// In a mode.
pub(crate) fn sim_in<D: Dataplane>(mode: Mode, dataplane: D) -> Sim<D> {
    let picture = picture(Path::new("/nonexistent/portway-run-loop"), true);
    Sim::new(Start { mode, ..start(picture, None, None, VanishedTcp::Reset) }, dataplane)
}

/// As `kube-proxy`, with no mode named.
pub(crate) fn sim_by_default() -> Sim<Nftables<Simulated>> {
    let picture = picture(Path::new("/nonexistent/portway-run-loop"), true);
    let start = start(picture, None, None, VanishedTcp::Reset);
    let start = Start { mode: dataplane::iptables::MODE, is_default_mode: true, ..start };
    Sim::new(start, Nftables::new(Simulated::default(), Options::default()))
}

fn start(
    picture: Picture,
    server: Option<String>,
    glance: Option<Duration>,
    vanished_tcp: VanishedTcp,
) -> Start {
    Start {
        mode: dataplane::nftables::MODE,
        is_default_mode: false,
        program: None,
        families: model::Family::ALL.to_vec(),
        picture,
        server,
        host: host("192.0.2.1"),
        pace: PaceOptions::default(),
        glance,
        vanished_tcp,
        now: Now { elapsed: Duration::ZERO, wall: jiff::Timestamp::UNIX_EPOCH },
    }
}

impl<D: Dataplane> Sim<D> {
    fn new(start: Start, dataplane: D) -> Self {
        Self {
            state: Loop::new(start),
            dataplane,
            now: Duration::ZERO,
            wake_at: None,
            syncs: Vec::new(),
            settled: 0,
            told: Vec::new(),
            lines: Vec::new(),
            announced: Vec::new(),
            answered_balancers: 0,
            asked_nodes: Vec::new(),
            errands: Vec::new(),
            errand_result: Ok(Done::default()),
            has_exited: false,
            glances: Vec::new(),
            is_flushed: false,
            look_result: Ok(true),
            looks: Vec::new(),
            examined: Vec::new(),
        }
    }

    /// Something happens now.
    pub(crate) fn feed(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            self.wake_at = None;
            let now = self.moment();
            for effect in self.state.step(event, now) {
                match effect {
                    Effect::Sync(work) => {
                        let result = self.dataplane.sync(self.state.table(), work.as_ref());
                        self.syncs.push((self.now, work));
                        self.now += SYNC;
                        next = Some(Event::Synced { result, took: SYNC });
                    }
                    Effect::Settle => {
                        self.settled += 1;
                        next = Some(Event::Settled { result: self.dataplane.settle(), took: SYNC });
                    }
                    Effect::WakeAt(at) => self.wake_at = Some(at),
                    Effect::Answer(reply, answer) => reply.0.send(answer).unwrap(),
                    Effect::Tell(text) => self.told.push(text),
                    Effect::Log(line) => self.lines.push(line),
                    Effect::Announce(said) => self.announced.push(said),
                    Effect::AnswerBalancers => self.answered_balancers += 1,
                    Effect::Glance => {
                        self.glances.push(self.now);
                        next = Some(Event::Glanced(Ok(self.is_flushed)));
                    }
                    Effect::Look => {
                        self.looks.push(self.now);
                        next = Some(Event::Found(self.look_result.clone()));
                    }
                    Effect::Run(errand) => {
                        let result = self.errand_result.clone();
                        self.errands.push((self.now, errand.clone()));
                        next = Some(Event::Ran { errand: errand.kind(), result });
                    }
                    Effect::AskForNode(name) => self.asked_nodes.push(name),
                    Effect::Examine(_) => self.examined.push(self.now),
                    Effect::Exit | Effect::Fail { .. } | Effect::HandOver(_) => self.has_exited = true,
                }
            }
        }
    }

    /// Time passes; the timer rings when it was asked to.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.wake_at.filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.feed(Event::Tick);
        }
        self.now = self.now.max(until);
    }

    pub(crate) fn moment(&self) -> Now {
        Now { elapsed: self.now, wall: jiff::Timestamp::UNIX_EPOCH + self.now }
    }

    pub(crate) fn files(&mut self, changes: Vec<Change>) {
        self.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: true });
    }

    pub(crate) fn status(&self) -> Status {
        self.state.status(self.moment())
    }

    pub(crate) fn ask(&mut self, question: Question) -> Answer {
        let (reply, answer) = channel();
        self.feed(Event::Query(question, Reply(reply)));
        answer.try_recv().unwrap()
    }

    pub(crate) fn last_work(&self) -> &Scope {
        &self.syncs.last().expect("there was a sync").1
    }
}

impl Sim<Nftables<Simulated>> {
    pub(crate) fn listed(&mut self) -> Option<Listed> {
        self.dataplane.kernel().list(Family::V4, "kube-proxy").unwrap()
    }

    pub(crate) fn slots(&mut self) -> usize {
        self.listed().unwrap().sets["endpoints"].elements.len()
    }

    /// Asks a dataplane that knows nothing but the kernel.
    pub(crate) fn differences(&mut self) -> Vec<String> {
        let kernel = self.dataplane.kernel().clone();
        Nftables::new(kernel, Options::default()).differences(self.state.table()).unwrap()
    }
}

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn host(address: &str) -> HostFacts {
    let ip: std::net::IpAddr = address.parse().unwrap();
    let node = Node {
        name: "a".into(),
        zone: None,
        addresses: vec![ip],
        pod_cidrs: Vec::new(),
        is_leaving: false,
        reports: Vec::new(),
    };
    HostFacts { addresses: Some([ip].into()), node: Some(node), ..HostFacts::default() }
}

pub(crate) fn apply(kind: Kind, value: Value) -> Change {
    let key = ObjectKey::of(kind, &value).unwrap();
    Change::Apply(Object { key, origin: None, value: Arc::new(value) })
}

pub(crate) fn service(name: &str) -> Change {
    apply(
        Kind::Service,
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "ports": [{ "port": 80 }] },
        }),
    )
}

/// The slice of a service, with so many endpoints, beginning with `10.244.0.first`.
pub(crate) fn endpoints(name: &str, first: u8, count: u8) -> Change {
    let endpoints: Vec<Value> =
        (first..first + count).map(|n| json!({ "addresses": [format!("10.244.0.{n}")] })).collect();
    apply(
        Kind::EndpointSlice,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": format!("{name}-1"), "namespace": "default",
                "labels": { "kubernetes.io/service-name": name },
            },
            "ports": [{ "port": 8080 }], "endpoints": endpoints,
        }),
    )
}

pub(crate) fn changed(work: &Scope) -> Vec<String> {
    match work {
        Scope::Everything => vec!["everything".to_owned()],
        Scope::AllThatIsKnown => vec!["all that is known".to_owned()],
        Scope::Changed(ids) => ids.iter().map(ToString::to_string).collect(),
    }
}
