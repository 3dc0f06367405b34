//! The thin shell around the loop: starts the feeds, hands events to the step function, carries out what it wants.
//!
//! Everything that needs a clock, a kernel or a thread is here or in `feeds`; everything that decides is in `state`.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dataplane::{Dataplane, Synced};
use kernel::host::Watch;
use kernel::nft::Monitor;
use kernel::signal::Termination;
use model::time::Timestamp;
use model::{Config, NodePortAddress};

use super::announce::Crier;
use super::beside::Beside;
use super::carrier::{Carrier, RelaySettings};
use super::effect::{Answer, Effect, Work};
use super::errands::Errand;
use super::event::{Event, Now};
use super::handover::{Arrival, Door, Locks, Successor};
use super::http::Shown;
use super::ipvs::IpvsStatus;
use super::live::Live;
use super::localnet::Localnet;
use super::log::log;
use super::open::{LocalhostNodePorts, Opened, Wish, open};
use super::origin::{Opening, Origin};
use super::pace::PaceOptions;
use super::state::{Loop, Start};
use super::tuning::Tuning;
use super::{RunError, families, feeds, http};
use crate::host::HostFacts;
use crate::kubeproxy::Reload;
use crate::modes::Mode;
use crate::serve::{self, Balancers, Board, Remote, Servers};
use crate::socket::Server;
use crate::traffic::Traffic;

/// Events that may wait. A feed that is quicker than the loop waits itself.
const EVENTS_MAX: usize = 64;

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The mode.
    pub wish: Wish,
    /// The relay of modes that carry connections themselves, and of node ports on localhost.
    pub relay: RelaySettings,
    /// Where objects come from.
    pub origin: Origin,
    /// The choices that decide packets.
    pub config: Config,
    /// The folder of the lock and of the socket.
    pub run_dir: PathBuf,
    /// The pace.
    pub pace: PaceOptions,
    /// Where to answer by HTTP.
    pub serve: serve::Options,
    /// Settings of the kernel.
    pub tuning: Tuning,
    /// The options with their values, to be shown.
    pub flags: Vec<(String, String)>,
    /// What to do where another portway is there already.
    pub arrival: Arrival,
    /// The file whose changes count while we run.
    pub reload: Option<Reload>,
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// The process was asked to end.
    Stopped,
    /// Another portway goes on, once this is dropped.
    HandedOver(Successor),
}

/// Makes this kernel follow the source until the process is asked to end. The rules stay in place. `tell` says a line to
/// whoever started us.
///
/// The calling thread must be the only one: signals are blocked in it and in those that it starts.
pub fn run(settings: &Settings, tell: &mut dyn FnMut(&str)) -> Result<End, RunError> {
    let clock = Clock::start();
    let termination = Termination::block().map_err(system("hear signals"))?;
    let carrier = Carrier::start(&settings.relay)?;
    let mut opened = open(&settings.wish, carrier.relay())?;
    opened.try_to_write()?;
    let (source, server_address) = Opening::of(&settings.origin)?;
    let Some((locks, inheritance)) = Locks::take(settings.arrival, &settings.run_dir, &termination)? else {
        return Ok(End::Stopped);
    };
    if let Some(program) = opened.program {
        tracing::info!("writing with {program}");
    }
    let localnet = Localnet::new(locks.run_dir.path());
    let has_localnet = settings.wish.localhost_node_ports == LocalhostNodePorts::ByRules;
    if !has_localnet && let Some(said) = localnet.close()? {
        tracing::info!("{said}");
    }
    carrier.adopt(inheritance.sockets);
    let (watch, host) = watch_host(&settings.config.node_name);
    let Opened { dataplane, monitor, glance, program, .. } = opened;
    let picture = settings.origin.picture(settings.config.clone(), clock.now())?;
    let now = Now { elapsed: Duration::ZERO, ..clock.now() };
    let (mode, pace) = (settings.wish.mode, settings.pace);
    let start = Start {
        mode,
        program,
        families: families::served(),
        picture,
        server: server_address,
        host: host.clone(),
        pace,
        glance,
        now,
    };
    let state = Loop::new(start);
    let (sender, events) = sync_channel(EVENTS_MAX);
    let board = Board::new(clock.started);
    board.publish(state.health(), state.gauges());
    let shown = Shown::default();
    let (servers, remote) = http::open(settings, &board, &shown, &carrier, &sender)?;
    let server = Server::bind(locks.run_dir.path())?;
    let door = Door::new(locks.namespace.listener().map_err(system("hear successors"))?);
    let node_name = settings.config.node_name.clone();
    let reload = settings.reload.clone();
    let outside =
        Outside { termination, source, watch, node_name, mode, host, monitor, server, servers, door, reload };
    outside.listen(&sender)?;
    let beside = Beside::new(mode, program);
    let localnet = has_localnet.then_some(localnet);
    let shell = Shell {
        state,
        dataplane,
        localnet,
        settings: settings.clone(),
        shown,
        beside,
        crier: Crier::start(&settings.origin)?,
        carrier: carrier.clone(),
        predecessors: inheritance.lines,
        balancers: settings.wish.promises().default_node_port_addresses,
        board,
        remote,
        tuning: Some(settings.tuning),
        clock,
        wake_at: None,
    };
    let (end, remote) = shell.serve(&events, tell);
    // A successor listens where we did.
    remote.close();
    let end = end?;
    // Who asks now hears that nobody is there, either way; without the file it looks so too.
    let _ = std::fs::remove_file(crate::socket::path(locks.run_dir.path()));
    finish(end, locks, &carrier, &events).map_err(system("hear signals"))
}

/// Connections that this process carries come to their end; a successor does not have to wait for that.
fn finish(end: End, locks: Locks, carrier: &Carrier, events: &Receiver<Event>) -> io::Result<End> {
    match end {
        End::Stopped => {
            if let Some(successor) = carrier.end(events)? {
                hand_over(successor, locks, carrier)?;
            }
            Ok(End::Stopped)
        }
        End::HandedOver(successor) if carrier.is_idle() => Ok(End::HandedOver(successor)),
        End::HandedOver(successor) => hand_over(successor, locks, carrier).map(End::HandedOver),
    }
}

fn hand_over(mut successor: Successor, locks: Locks, carrier: &Carrier) -> io::Result<Successor> {
    if let Some(line) = successor.take_line() {
        carrier.hand_over(&line);
        locks.let_go();
        carrier.serve_until_relieved(&line);
    }
    carrier.finish()?;
    Ok(successor)
}

/// Everything that is listened to.
struct Outside {
    termination: Termination,
    source: Opening,
    watch: Option<Watch>,
    node_name: String,
    mode: Mode,
    host: HostFacts,
    monitor: Option<Monitor>,
    server: Server,
    servers: Servers,
    door: Door,
    reload: Option<Reload>,
}

impl Outside {
    /// Starts the threads that listen.
    fn listen(mut self, sender: &SyncSender<Event>) -> Result<(), RunError> {
        if let Opening::Files(source) = &mut self.source {
            source.follow()?;
        }
        let start = || -> io::Result<()> {
            feeds::signals(self.termination, sender.clone())?;
            match self.source {
                Opening::Files(source) => feeds::files(source, sender.clone())?,
                Opening::Server(settings) => feeds::server(settings, sender.clone())?,
            };
            if let Some(watch) = self.watch {
                let keeps_addresses = self.mode == Mode::Ipvs;
                feeds::addresses(watch, self.node_name, self.host, keeps_addresses, sender.clone())?;
            }
            if let Some(monitor) = self.monitor {
                feeds::meddling(monitor, sender.clone())?;
            }
            if let Some(reload) = self.reload {
                feeds::config(reload, sender.clone())?;
            }
            feeds::successors(self.door, sender.clone())?;
            feeds::questions(self.server, sender.clone())?;
            feeds::servers(self.servers, sender.clone())?;
            Ok(())
        };
        start().map_err(system("start a thread"))
    }
}

/// Addresses count from the moment at which the watch was opened, so it is opened before they are read.
fn watch_host(node_name: &str) -> (Option<Watch>, HostFacts) {
    let watch = Watch::open()
        .inspect_err(|error| tracing::warn!(%error, "changes of this host's addresses will not be heard"))
        .ok();
    (watch, HostFacts::read(node_name))
}

fn system(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::System { action, source }
}

/// A clock that never goes back, and the time of day.
#[derive(Debug)]
struct Clock {
    started: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { started: Instant::now() }
    }

    fn now(&self) -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        Now { elapsed: self.started.elapsed(), wall }
    }
}

/// The loop, and what it acts upon.
struct Shell {
    state: Loop,
    dataplane: Box<dyn Dataplane>,
    /// Where node ports on 127.0.0.0/8 are wanted.
    localnet: Option<Localnet>,
    /// What was chosen, as it is now.
    settings: Settings,
    shown: Shown,
    beside: Beside,
    crier: Crier,
    carrier: Carrier,
    /// The lines to those in whose place we go on. They serve until these end.
    predecessors: Vec<UnixStream>,
    /// Where node ports answer when nothing is configured.
    balancers: NodePortAddress,
    board: Board,
    remote: Remote,
    /// Settings of the kernel that are not made yet.
    tuning: Option<Tuning>,
    clock: Clock,
    wake_at: Option<Duration>,
}

impl Shell {
    fn serve(
        mut self,
        events: &Receiver<Event>,
        tell: &mut dyn FnMut(&str),
    ) -> (Result<End, RunError>, Remote) {
        self.tune();
        while let Some(event) = self.wait(events) {
            match &event {
                Event::Rechosen(live) => self.note(live),
                Event::FilesChanged { changes, .. } => {
                    self.board.measure(|meters| meters.heard(changes, jiff::Timestamp::now()));
                }
                Event::Told(news) => {
                    self.board.measure(|meters| meters.told(news, jiff::Timestamp::now()));
                }
                _ => {}
            }
            if let ControlFlow::Break(end) = self.take(event, tell) {
                return (end, self.remote);
            }
            self.board.publish(self.state.health(), self.state.gauges());
        }
        (Ok(End::Stopped), self.remote)
    }

    /// Adds to an answer what the kernel has carried, where it counts that.
    fn tell_what_the_kernel_carried(&mut self, answer: &mut Answer) {
        let all = match answer {
            Answer::Picture(snapshot) => &mut snapshot.traffic,
            Answer::Traffic(all) => all,
            Answer::Status(_) => return,
        };
        all.extend(self.dataplane.carried().iter().flatten().map(Traffic::of_kernel));
    }

    /// What was chosen anew is told from now on.
    fn note(&mut self, live: &Live) {
        self.settings.pace = live.pace;
        self.settings.config.masquerade_all = live.packets.masquerade_all;
        self.settings.config.node_port_addresses.clone_from(&live.packets.node_port_addresses);
        self.shown.show(&self.settings);
    }

    /// The next event; a tick when its time has come. `None` when nothing can come any more.
    fn wait(&self, events: &Receiver<Event>) -> Option<Event> {
        let Some(at) = self.wake_at else { return events.recv().ok() };
        match events.recv_timeout(at.saturating_sub(self.clock.now().elapsed)) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => Some(Event::Tick),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Takes a step, and those that follow from it.
    fn take(&mut self, event: Event, tell: &mut dyn FnMut(&str)) -> ControlFlow<Result<End, RunError>> {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            self.wake_at = None;
            for effect in self.state.step(event, self.clock.now()) {
                match effect {
                    Effect::Sync(work) => next = Some(self.sync(&work)),
                    Effect::Settle => next = Some(self.settle()),
                    Effect::Glance => next = Some(Event::Glanced(self.dataplane.is_flushed())),
                    Effect::Run(errand) => {
                        let result = self.beside.run(&errand);
                        self.board.measure(|meters| meters.ran(&result));
                        if errand == Errand::TakeOver {
                            // Ours is in force, and what led to our predecessors is gone.
                            self.predecessors.clear();
                            self.carrier.disinherit();
                        }
                        next = Some(Event::Ran { errand: errand.kind(), result });
                    }
                    Effect::WakeAt(at) => self.wake_at = Some(at),
                    Effect::Answer(reply, mut answer) => {
                        self.carrier.tell(&mut answer);
                        self.tell_what_the_kernel_carried(&mut answer);
                        if let Answer::Status(status) = &mut answer {
                            let wish = &self.settings.wish;
                            status.localhost_node_ports = wish.localhost_node_ports;
                            status.masquerade_bit = Some(wish.masquerade_bit);
                            let leaving = self.dataplane.leaving();
                            let is_ipvs = wish.mode == Mode::Ipvs;
                            status.ipvs = is_ipvs.then(|| IpvsStatus::of(&wish.ipvs, leaving));
                        }
                        // Who no longer waits for the answer does not need it.
                        drop(reply.0.send(answer));
                    }
                    Effect::Tell(text) => tell(&text),
                    Effect::Log(line) => log(&line),
                    Effect::Announce(said) => self.crier.say(said),
                    Effect::AnswerBalancers => {
                        self.remote.answer(Balancers::of(self.state.table(), self.balancers));
                    }
                    Effect::Exit => return ControlFlow::Break(Ok(End::Stopped)),
                    Effect::HandOver(successor) => {
                        return ControlFlow::Break(Ok(End::HandedOver(successor)));
                    }
                    Effect::Fail { feed } => return ControlFlow::Break(Err(RunError::FeedEnded { feed })),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Who asks for health meanwhile must know that something is under way: it may hang.
    fn sync(&mut self, work: &Work) -> Event {
        self.board.publish(self.state.health(), self.state.gauges());
        let begun = self.clock.now().elapsed;
        let result = self.dataplane.sync(self.state.table(), work.scope());
        let result = result.map(|synced| self.guarded(synced));
        let (took, was_full) = (self.since(begun), !matches!(work, Work::Changed(_)));
        self.board.measure(|meters| meters.synced(&result, was_full, took, jiff::Timestamp::now()));
        if result.is_ok() {
            self.tune();
        }
        Event::Synced { result, took }
    }

    fn settle(&mut self) -> Event {
        let begun = self.clock.now().elapsed;
        let result = self.dataplane.settle();
        self.board.measure(|meters| meters.settled(&result));
        Event::Settled { result, took: self.since(begun) }
    }

    /// Makes settings of the kernel, once they are there: rules load the connection tracker.
    fn tune(&mut self) {
        let Some(tuning) = self.tuning.take() else { return };
        let tuned = tuning.apply();
        tuned.written.iter().for_each(|what| tracing::info!("set {what}"));
        tuned.failed.iter().for_each(|why| tracing::warn!("{why}. Rules are written all the same"));
        match tuned.is_missing {
            true if self.is_before_the_first_sync() => self.tuning = Some(tuning),
            true => tracing::warn!("this kernel does not have all settings of the connection tracker"),
            false => {}
        }
    }

    fn is_before_the_first_sync(&self) -> bool {
        self.state.health().updated.is_none()
    }

    /// The guard is in force by now, so what it guards against may be.
    fn guarded(&self, mut synced: Synced) -> Synced {
        synced.waits.extend(self.localnet.as_ref().and_then(|localnet| localnet.open().err()));
        synced
    }

    fn since(&self, begun: Duration) -> Duration {
        self.clock.now().elapsed.saturating_sub(begun)
    }
}
