//! The loop itself: one owner of all state, and one function, [`Loop::step`], by which it changes.
//!
//! Four rules. Nothing is written before the source was read once: what the kernel holds of an earlier life stays in force
//! until we know what should be there. What nobody asks for goes only when all of the source could be read. What changed is
//! remembered until a sync of it went well. And one thing is done at a time: while a sync, a settling or an errand is under
//! way, everything else is only remembered.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | what comes in: files, addresses, notifications |
//! | `server` | what comes in from an API server |
//! | `timers` | when each task is due |
//! | `next` | what is begun now, or when to come back |
//! | `outcome` | what became of it |
//! | `health` | since when the kernel is behind |
//! | `doubt` | what the files leave in doubt at the start, and what stays in the kernel for it |
//! | `complaints` | objects that have something wrong, as lines of the log |
//! | `gauges` | what is counted of the table, kept up as it changes |
//! | `tell` | answers and the status |

pub(crate) mod announce;
mod complaints;
mod doubt;
mod drift;
mod effect;
mod errands;
mod event;
mod examine;
pub(crate) mod figures;
mod gauges;
mod health;
mod next;
mod outcome;
mod pace;
mod server;
mod tell;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use apiserver::Announcement;
use config::{ConfigStatus, Live, PaceOptions, VanishedTcp};
use dataplane::Meddled;
use dataplane::Mode;
use kernel::xtables::Variant;
use model::{ByFamily, Delta, Family, ForwardingTable};
use observe::listeners::Listener;
use observe::metrics::Recorder;
use observe::picture::Picture;
use standalone::control_plane::Waiting;
use standalone::host::HostFacts;
use standalone::manifests::Doubts;
use standalone::objects::{Change, Problem};

pub use effect::{Effect, Line};
pub use errands::{Done, Errand, ErrandKind};
pub use event::{Event, Now, Reply};

use complaints::Complaints;
use drift::Drift;
use errands::Errands;
use examine::Examinations;
use figures::Figures;
use gauges::TableGauges;
use pace::{Due, Pace};
use server::Server;
use timers::{Task, Timers};

/// At most so many Nodes are asked for at a time. After a long interruption of a watch, endpoints of all nodes may have left.
const ASKED_NODES_MAX: usize = 32;

/// All state of `portway run`.
#[derive(Debug)]
pub struct Loop {
    mode: Mode,
    program: Option<Variant>,
    picture: Picture,
    host: HostFacts,
    /// The primary addresses of this node when they were last compared.
    primary: ByFamily<Option<IpAddr>>,
    source: Source,
    /// How it stands with the API server, where one is the source.
    server: Option<Server>,
    /// What was in the kernel was compared with all of it, and what nobody asks for went.
    is_adopted: bool,
    has_told: bool,
    /// When the picture last changed.
    changed_at: Option<Now>,
    /// What is different from what the last good sync wrote.
    pending: Delta,
    under_way: UnderWay,
    timers: Timers,
    /// When the last sync succeeded.
    in_force_at: Duration,
    /// How often to look for a flush.
    glance_every: Option<Duration>,
    /// When the last glance was.
    glanced_at: Duration,
    /// Who waited for the state folder when that was last looked at.
    waiting: Option<Waiting>,
    pace: Pace,
    drift: Drift,
    errands: Errands,
    vanished_tcp: VanishedTcp,
    /// Nodes whose endpoints left without terminating, and of which the API server is to be asked.
    nodes_to_ask: BTreeSet<Box<str>>,
    /// Those that it was asked about.
    asked_nodes: BTreeSet<Box<str>>,
    figures: Figures,
    recorder: Recorder,
    table_gauges: TableGauges,
    examinations: Examinations,
    complaints: Complaints,
    /// The families that are served.
    families: Vec<Family>,
    /// Since when the kernel is behind, and how long it may be before that is told as ill health.
    behind_since: Option<Duration>,
    patience: Duration,
    /// Whether the kernel held no rules when patience with a silent source ended; `None` before anybody looked.
    is_bare: Option<bool>,
    /// Our listeners that cannot be opened, and why.
    not_listening: BTreeMap<Listener, String>,
    /// How it stands with the config file.
    config: ConfigStatus,
    /// What is said to the cluster with the first step.
    greetings: Vec<Announcement>,
}

/// How much of the source is known.
#[derive(Debug, Default)]
struct Source {
    /// It was read, and what it asks for was given.
    is_loaded: bool,
    /// All of it can be read now.
    can_read_all: bool,
    /// All of it could be read, now or earlier.
    is_complete: bool,
    /// What it leaves in doubt, until it was complete.
    doubts: Doubts,
}

/// What the loop begins with.
#[derive(Debug)]
pub struct Start {
    /// The mode.
    pub mode: Mode,
    /// It is what upstream's command line means where nobody names a mode, which will change.
    pub is_default_mode: bool,
    /// The iptables program that it writes with.
    pub program: Option<Variant>,
    /// The families that are served.
    pub families: Vec<Family>,
    /// A picture into which nothing was read yet.
    pub picture: Picture,
    /// The address of the API server, where one is the source.
    pub server: Option<String>,
    /// The addresses of this host, so that the first sync knows them.
    pub host: HostFacts,
    /// The pace.
    pub pace: PaceOptions,
    /// How often to look for a flush, where the kernel does not tell of it.
    pub glance: Option<Duration>,
    /// What becomes of TCP connections to a Pod that has vanished.
    pub vanished_tcp: VanishedTcp,
    /// The moment at which the process started.
    pub now: Now,
}

/// What is being done.
#[derive(Debug)]
enum UnderWay {
    Nothing,
    /// A sync of these changes.
    Sync(Box<Delta>, Due),
    Settling,
    Glancing,
    Errand {
        begun_at: Duration,
    },
}

/// The times that are known before anything happened.
fn first_timers(start: &Start) -> Timers {
    let mut timers = Timers::default();
    timers.set(Task::Glance, start.glance);
    timers.set(Task::Look, start.pace.sync_period * 2);
    timers.set(Task::Examine, examine::FIRST);
    timers
}

impl Loop {
    /// A loop to which nothing happened yet.
    pub fn new(start: Start) -> Self {
        let timers = first_timers(&start);
        let mut new = Self {
            mode: start.mode,
            program: start.program,
            picture: start.picture,
            host: HostFacts::default(),
            primary: ByFamily::default(),
            source: Source::default(),
            server: start.server.map(Server::at),
            is_adopted: false,
            has_told: false,
            changed_at: None,
            pending: Delta::default(),
            under_way: UnderWay::Nothing,
            timers,
            in_force_at: Duration::ZERO,
            glance_every: start.glance,
            glanced_at: Duration::ZERO,
            waiting: None,
            pace: Pace::new(start.pace),
            drift: Drift::default(),
            errands: Errands::new(start.mode.semantics().default_node_port_addresses),
            vanished_tcp: start.vanished_tcp,
            nodes_to_ask: BTreeSet::new(),
            asked_nodes: BTreeSet::new(),
            figures: Figures::new(start.now),
            recorder: Recorder::new(start.now.wall),
            table_gauges: TableGauges::default(),
            examinations: Examinations::default(),
            complaints: Complaints::default(),
            families: start.families,
            behind_since: None,
            patience: start.pace.sync_period * 2,
            is_bare: None,
            not_listening: BTreeMap::new(),
            config: ConfigStatus::default(),
            greetings: announce::greetings(start.mode, start.is_default_mode),
        };
        new.follow_host(start.host, start.now);
        new
    }

    /// The table that a [`Effect::Sync`] is about.
    pub fn table(&self) -> &ForwardingTable {
        self.picture.table()
    }

    /// Takes in what happened, and says what to do now.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        effects.extend(std::mem::take(&mut self.greetings).into_iter().map(Effect::Announce));
        match event {
            Event::FilesChanged { changes, problems, is_complete } => {
                self.recorder.heard(&changes, now.wall);
                self.source.can_read_all = is_complete;
                self.follow_files(&changes, problems, now, &mut effects);
            }
            Event::SourceInDoubt(doubts) => self.follow_doubts(doubts, now, &mut effects),
            Event::Told(news) => {
                self.recorder.told(&news, now.wall);
                self.follow_server(news, now, &mut effects);
            }
            Event::AddressesChanged(host) => {
                self.follow_host(host, now);
                self.examine_soon(now);
            }
            Event::HostTouched => {
                self.touched(now);
                self.examine_soon(now);
            }
            Event::Examined(findings) => {
                effects.extend(self.examinations.ended(findings).into_iter().map(Effect::Log));
            }
            Event::Meddled(meddled) => self.follow_others(&meddled, now, &mut effects),
            Event::Tick => {
                self.retry_store(now, &mut effects);
                self.load_from_server(now, &mut effects);
            }
            Event::Glanced(result) => self.glanced(&result, now),
            Event::Found(result) => self.found(&result, now, &mut effects),
            Event::Query(question, reply) => effects.push(Effect::Answer(reply, self.answer(question, now))),
            Event::Synced { result, took } => self.synced(result, took, now, &mut effects),
            Event::Settled { result, took } => self.settled(result, took, now, &mut effects),
            Event::NodeAnswered { name, exists } => self.node_answered(name, exists, now),
            Event::Ran { errand, result } => self.ran(errand, result, now, &mut effects),
            Event::Rechosen(live) => self.choose_anew(live, now),
            Event::ConfigRead(standing) => self.config = standing,
            Event::NotListening(failing) => self.follow_listeners(failing, &mut effects),
            Event::HandOver(successor) => {
                let process = successor.process;
                return vec![Effect::Log(Line::HandingOver { process }), Effect::HandOver(successor)];
            }
            Event::Stop(signal) => return vec![Effect::Log(Line::Stopping(signal)), Effect::Exit],
            Event::FeedEnded(feed) => return vec![Effect::Fail { feed }],
        }
        self.tell_primary_address(&mut effects);
        self.ask_for_nodes(&mut effects);
        self.complete(now);
        self.examine(now, &mut effects);
        self.go_on(now, &mut effects);
        self.look_behind(now);
        if !self.is_pending() {
            self.recorder.nothing_pends();
        }
        effects
    }

    /// The checks of this host look at what has just changed.
    fn examine_soon(&mut self, now: Now) {
        self.timers.bring_forward(Task::Examine, self.examinations.earliest(now.elapsed));
    }

    fn choose_anew(&mut self, live: Live, now: Now) {
        self.pace.choose(live.pace);
        self.patience = live.pace.sync_period * 2;
        let delta = self.picture.take([model::Event::Rechosen(live.packets)]);
        self.remember(delta, now);
    }

    fn follow_files(
        &mut self,
        changes: &[Change],
        problems: Vec<Problem>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let is_new = |problem: &&Problem| !self.picture.problems().contains(problem);
        let new =
            problems.iter().filter(is_new).map(|problem| Effect::Log(Line::Problem(problem.to_string())));
        effects.extend(new);
        self.picture.set_problems(problems);
        // What was wrong at the start is told as one number.
        if self.source.is_loaded {
            effects.extend(self.complaints.follow_files(changes, now.elapsed).into_iter().map(Effect::Log));
        }
        self.apply(changes, now, effects);
    }

    fn retry_store(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if [Task::RetryStore, Task::RetryAllocation].iter().any(|task| self.timers.is_due(*task, now.elapsed))
        {
            self.apply(&[], now, effects);
        }
    }

    fn apply(&mut self, changes: &[Change], now: Now, effects: &mut Vec<Effect>) {
        self.picture.set_now(now.seconds());
        match self.picture.apply(changes) {
            Ok(delta) => {
                self.timers.clear(Task::RetryStore);
                self.remember(delta, now);
                self.describe_node(now);
                self.follow_waiting(now, effects);
                self.loaded(effects);
            }
            Err(error) => {
                let retry_at = self.timers.failed(Task::RetryStore, now.elapsed, Duration::ZERO);
                let retry_in = retry_at.saturating_sub(now.elapsed);
                effects.push(Effect::Log(Line::StoreFailed { reason: error.to_string(), retry_in }));
                self.recorder.store_failed();
                self.figures.store_failed(error.to_string());
            }
        }
    }

    /// The state folder cannot be written, or can again. Each change of who waits is told once.
    fn follow_waiting(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let after = self.picture.waiting().cloned();
        let before = std::mem::replace(&mut self.waiting, after);
        let Some(after) = &self.waiting else {
            self.timers.clear(Task::RetryAllocation);
            effects.extend(before.map(|_| Effect::Log(Line::AllocationResumed)));
            return;
        };
        if before.as_ref().is_none_or(|before| before.attempts != after.attempts) {
            self.timers.failed(Task::RetryAllocation, now.elapsed, Duration::ZERO);
        }
        let is_known = |before: &Waiting| before.reason == after.reason && before.services == after.services;
        if !before.as_ref().is_some_and(is_known) {
            let services = after.services.iter().map(ToString::to_string).collect();
            effects.push(Effect::Log(Line::AllocationWaits { services, reason: after.reason.clone() }));
        }
    }

    fn loaded(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.source.is_loaded, true) {
            let reports = self.picture.reports().len();
            effects.extend((reports > 0).then_some(Effect::Log(Line::Reports(reports))));
        }
    }

    /// Once all could be read, what later cannot be read stays in force as it last was, so nothing is missing any more.
    fn complete(&mut self, now: Now) {
        // Who waits for an address may have rules of a previous process.
        let is_given_all = self.waiting.as_ref().is_none_or(|waiting| waiting.services.is_empty());
        if self.source.can_read_all
            && self.source.is_loaded
            && is_given_all
            && self.source.doubts.is_empty()
            && !std::mem::replace(&mut self.source.is_complete, true)
        {
            self.pace.compare_by(now.elapsed);
        }
    }

    fn follow_others(&mut self, meddled: &Meddled, now: Now, effects: &mut Vec<Effect>) {
        let heard = self.drift.hear(meddled, now.elapsed);
        self.pace.compare_by(heard.compare_at);
        effects.extend(heard.war.map(|program| Effect::Log(Line::War { program })));
    }

    fn follow_listeners(&mut self, failing: BTreeMap<Listener, String>, effects: &mut Vec<Effect>) {
        let node = &self.table().node().name;
        let is_new =
            |(listener, reason): &(&Listener, &String)| self.not_listening.get(listener) != Some(reason);
        for (listener, reason) in failing.iter().filter(is_new) {
            let line = Line::NotListening { listener: listener.to_string(), reason: reason.clone() };
            effects.push(Effect::Log(line));
            effects.push(Effect::Announce(announce::not_listening(node, listener, reason)));
        }
        let is_over = |listener: &&Listener| !failing.contains_key(listener) && self.is_wanted(listener);
        let again = self.not_listening.keys().filter(is_over);
        effects.extend(again.map(|listener| Effect::Log(Line::Listening(listener.to_string()))));
        self.not_listening = failing;
    }

    /// A Service that is gone is not answered for again.
    fn is_wanted(&self, listener: &Listener) -> bool {
        let Listener::Balancers(service, at) = listener else { return true };
        self.table().health_checks().get(service).is_some_and(|check| check.port == at.port())
    }

    fn follow_host(&mut self, host: HostFacts, now: Now) {
        if let Some(addresses) = &host.addresses {
            self.picture.set_host_addresses(addresses);
        }
        let addresses = host.addresses.clone().map(model::Event::LocalAddresses);
        self.host = host;
        let delta = self.picture.take(addresses);
        self.remember(delta, now);
        self.describe_node(now);
    }

    /// Before the source was read, a Node object may still come that says otherwise.
    fn tell_primary_address(&mut self, effects: &mut Vec<Effect>) {
        let now = self.table().node().primary;
        let before = std::mem::replace(&mut self.primary, now);
        if !self.has_told {
            return;
        }
        for (family, new) in self.primary.iter() {
            if let Some(old) = before.get(family).filter(|old| Some(*old) != *new) {
                effects.push(Effect::Log(Line::PrimaryAddress { old, new: *new }));
            }
        }
    }

    /// The source may have brought or taken away the Node that describes this host.
    fn describe_node(&mut self, now: Now) {
        let delta = self.picture.describe_node(self.host.node.clone());
        self.remember(delta, now);
    }

    /// The server tells of our own Node alone: a watch of all would be told every heartbeat of every node. So it is asked for one
    /// whose endpoints left without terminating.
    fn ask_for_nodes(&mut self, effects: &mut Vec<Effect>) {
        let new: Vec<Box<str>> = std::mem::take(&mut self.nodes_to_ask).into_iter().collect();
        for name in new {
            if self.asked_nodes.len() < ASKED_NODES_MAX && self.asked_nodes.insert(name.clone()) {
                effects.push(Effect::AskForNode(name));
            }
        }
    }

    fn node_answered(&mut self, name: Box<str>, exists: Option<bool>, now: Now) {
        self.asked_nodes.remove(&name);
        if exists == Some(false) {
            let delta = self.picture.take([model::Event::DeleteNode(name)]);
            self.remember(delta, now);
        }
    }

    fn remember(&mut self, mut delta: Delta, now: Now) {
        let departed = std::mem::take(&mut delta.departed_nodes);
        match self.vanished_tcp {
            VanishedTcp::Reset if self.server.is_some() => self.nodes_to_ask.extend(departed),
            VanishedTcp::Reset => {}
            VanishedTcp::Leave => delta.vanished.clear(),
        }
        if !delta.is_empty() {
            self.changed_at = Some(now);
            self.pace.has_news();
            self.table_gauges.follow(&delta, self.picture.table());
            self.pending.merge(delta);
        }
    }
}
