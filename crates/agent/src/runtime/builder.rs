//! Puts a run together, part by part.
//!
//! In: the settings. Out: the loop with all that it acts upon, and the threads that feed it.
//!
//! The order of the parts matters. Signals are blocked before any thread starts, since threads inherit that. Everything that can be refused
//! is opened before the locks are taken, so that no running portway gives way to one that cannot start. Nothing is written before the
//! locks are ours.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use apiserver::NodeLookup;
use config::{Origin, Settings};
use dataplane::leftovers::{Restored, restore_settings};
use dataplane::programs::families_of_host;
use dataplane::relay::Handed;
use dataplane::{DriftSource, ModeSettings, OpenError, OpenRequest, Opened, registry};
use kernel::signal::{Hangup, Termination};
use kernel::xtables::Variant;
use observe::doctor::{Doctor, Sample};
use observe::http::Board;
use observe::socket::Server;
use standalone::host::HostFacts;

use super::beside::Beside;
use super::carrier::Carrier;
use super::clock::Clock;
use super::crier::Crier;
use super::http::{self, Shown};
use super::obey::Shell;
use super::origin::{Opening, picture_of};
use super::outside::{Outside, watch_host};
use super::{feeds, system};
use crate::error::RunError;
use crate::reconciler::{Event, Loop, Now, Start};
use crate::takeover::{Door, Inheritance, Locks};

/// Events that may wait. A feed that is quicker than the loop waits itself.
const EVENTS_MAX: usize = 64;

/// What is opened before the locks are taken.
pub(super) struct Builder<'a> {
    settings: &'a Settings,
    clock: Clock,
    termination: Termination,
    hangup: Hangup,
    carrier: Carrier,
    kernel: Opened,
    source: Opening,
    server_address: Option<String>,
}

/// A run of which all parts are there.
pub(super) struct Running {
    pub(super) shell: Shell,
    pub(super) events: Receiver<Event>,
    pub(super) carrier: Carrier,
}

impl<'a> Builder<'a> {
    /// Opens what can be refused. Nothing is written yet.
    pub(super) fn open(settings: &'a Settings) -> Result<Self, RunError> {
        let clock = Clock::start();
        let termination = Termination::block().map_err(system("hear signals"))?;
        let hangup = Hangup::block().map_err(system("hear signals"))?;
        let carrier = Carrier::start(&settings.relay)?;
        let kernel = open_dataplane(settings, &carrier)?;
        let (source, server_address) = Opening::of(&settings.origin)?;
        Ok(Self { settings, clock, termination, hangup, carrier, kernel, source, server_address })
    }

    /// Takes the locks, in the way that was chosen. `None` if the process was told to end while it waited.
    pub(super) fn take_locks(&self) -> Result<Option<(Locks, Inheritance)>, RunError> {
        Locks::take(self.settings.arrival, &self.settings.run_dir, &self.termination)
    }

    /// Starts everything, with the locks taken.
    pub(super) fn start(self, locks: &Locks, inheritance: Inheritance) -> Result<Running, RunError> {
        self.adopt(locks, inheritance.sockets)?;
        let (watch, host) = watch_host(&self.settings.config.node_name);
        let state = self.new_loop(host.clone())?;
        let (sender, events) = sync_channel(EVENTS_MAX);
        let board = self.new_board(&state);
        let shown = Shown::default();
        let (servers, remote) = http::open(self.settings, &board, &shown, &self.carrier, &sender)?;
        let server = bind(locks.run_dir.path())?;
        let door = Door::new(locks.namespace.listener().map_err(system("hear successors"))?);
        let Self { settings, clock, termination, hangup, carrier, kernel, source, .. } = self;
        let Opened { dataplane, drift, program } = kernel;
        let lookup = start_lookup(&settings.origin, &sender)?;
        let outside = Outside {
            termination,
            hangup,
            source,
            watch,
            node_name: settings.config.node_name.clone(),
            host,
            drift,
            server,
            servers,
            board: board.clone(),
            door,
            reload: settings.reload.clone(),
        };
        outside.listen(&sender)?;
        let examiner = start_doctor(new_doctor(settings, program), sender)?;
        let shell = Shell {
            state,
            dataplane,
            settings: settings.clone(),
            shown,
            beside: Beside::new(settings, program),
            examiner,
            crier: Crier::start(&settings.origin)?,
            carrier: carrier.clone(),
            lookup,
            predecessors: inheritance.lines,
            balancers: settings.mode.semantics().default_node_port_addresses,
            board,
            remote,
            tuning: Some(settings.tuning),
            clock,
            wake_at: None,
        };
        Ok(Running { shell, events, carrier })
    }

    /// Goes on with what the portway before us has left.
    fn adopt(&self, locks: &Locks, sockets: Vec<Handed>) -> Result<(), RunError> {
        if let Some(program) = self.kernel.program {
            tracing::info!("writing with {program}");
        }
        restore_settings_but_for(&self.settings.mode, locks.run_dir.path())?;
        self.carrier.adopt(sockets);
        Ok(())
    }

    /// The loop, to which nothing happened yet.
    fn new_loop(&self, host: HostFacts) -> Result<Loop, RunError> {
        let settings = self.settings;
        Ok(Loop::new(Start {
            mode: settings.mode.mode,
            is_default_mode: settings.is_default_mode,
            program: self.kernel.program,
            families: families_of_host(),
            picture: picture_of(settings, self.clock.now())?,
            server: self.server_address.clone(),
            host,
            pace: settings.pace,
            glance: poll_interval(&self.kernel.drift),
            vanished_tcp: settings.vanished_tcp,
            now: Now { elapsed: Duration::ZERO, ..self.clock.now() },
        }))
    }

    /// What the HTTP servers answer from, with what is known at the start.
    fn new_board(&self, state: &Loop) -> Board {
        let clock = self.clock;
        let board = Board::new(move || {
            let now = clock.now();
            (now.elapsed, now.wall)
        });
        board.publish(state.health(), state.metrics());
        board
    }
}

/// Opens the mode, and tries whether this process may write.
fn open_dataplane(settings: &Settings, carrier: &Carrier) -> Result<Opened, RunError> {
    let request = OpenRequest {
        settings: &settings.mode,
        relay: carrier.relay(),
        run_dir: &settings.run_dir,
        known_chains: registry::known_chains(),
    };
    let mut opened = settings.mode.mode.open(&request)?;
    opened.dataplane.try_to_write().map_err(RunError::Kernel)?;
    Ok(opened)
}

/// Settings of the kernel that previous processes made are as they were before, but for those that this mode needs. Every failure is told:
/// the first ends the run, the others are in the log.
fn restore_settings_but_for(mode: &ModeSettings, run_dir: &Path) -> Result<(), OpenError> {
    let Restored { done, failed } = restore_settings(registry::MODES, Some(mode), run_dir);
    for line in done {
        tracing::info!("{line}");
    }
    let mut failed = failed.into_iter();
    let Some(first) = failed.next() else { return Ok(()) };
    for error in failed {
        tracing::error!("{error}");
    }
    Err(first)
}

/// How often to look whether our rules were flushed, where the kernel does not tell.
fn poll_interval(drift: &[DriftSource]) -> Option<Duration> {
    let poll =
        |source: &DriftSource| if let DriftSource::Poll(interval) = source { Some(*interval) } else { None };
    drift.iter().find_map(poll)
}

/// Asks the API server for single Nodes, where there is one.
fn start_lookup(origin: &Origin, events: &SyncSender<Event>) -> Result<Option<NodeLookup>, RunError> {
    match origin {
        Origin::Server(server) => {
            feeds::nodes(server, events.clone()).map(Some).map_err(system("start a thread"))
        }
        Origin::Files { .. } => Ok(None),
    }
}

fn new_doctor(settings: &Settings, program: Option<Variant>) -> Doctor {
    let (masquerade_bit, promises) = (settings.mode.masquerade_bit, settings.mode.semantics());
    Doctor { mode: settings.mode.mode, program, masquerade_bit, promises }
}

/// Checks the preconditions of this host in a thread of its own. Returns where samples go.
fn start_doctor(doctor: Doctor, events: SyncSender<Event>) -> Result<Sender<Box<Sample>>, RunError> {
    let (examiner, samples) = channel();
    feeds::examinations(doctor, samples, events).map_err(system("start a thread"))?;
    Ok(examiner)
}

fn bind(run_dir: &Path) -> Result<Server, RunError> {
    let place = observe::socket::path(run_dir);
    Server::bind(run_dir).map_err(|source| RunError::RunDir { action: "listen at", path: place, source })
}
