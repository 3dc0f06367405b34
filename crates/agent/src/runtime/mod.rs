//! The thin shell around the loop: opens everything, starts the feeds, hands events to the step function, carries out what it wants.
//!
//! Everything that needs a clock, a kernel or a thread is here or in `feeds`; everything that decides is in `state`.
//! `settings` are what comes in, `outside` is what is listened to, `obey` carries out.

mod beside;
mod carrier;
mod clock;
mod crier;
mod feeds;
mod http;
mod log;
mod obey;
mod origin;
mod outside;
mod passing;
mod tuning;

pub use tuning::{Prepared, prepare};

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use config::{Origin, Settings};
use dataplane::leftovers::{Restored, restore_settings};
use dataplane::programs::families_of_host;
use dataplane::{DriftSource, ModeSettings, OpenError, OpenRequest, Opened, registry};
use kernel::signal::{Hangup, Termination};
use observe::doctor::Doctor;
use observe::http::Board;
use observe::socket::Server;

use crate::error::RunError;
use crate::reconciler::{Event, Now};
use crate::reconciler::{Loop, Start};
use crate::takeover::{Door, Locks, Successor};
use beside::Beside;
use carrier::Carrier;
use clock::Clock;
use crier::Crier;
use http::Shown;
use obey::Shell;
use origin::{Opening, picture_of};
use outside::{Outside, watch_host};

/// Events that may wait. A feed that is quicker than the loop waits itself.
const EVENTS_MAX: usize = 64;

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// The process was asked to end.
    Stopped,
    /// Another portway goes on, once this is dropped.
    HandedOver(Successor),
}

/// Settings of the kernel that previous processes made are as they were before, but for those that this mode needs.
fn restore_settings_but_for(mode: &ModeSettings, run_dir: &Path) -> Result<(), OpenError> {
    let Restored { done, failed } = restore_settings(registry::MODES, Some(mode), run_dir);
    for line in done {
        tracing::info!("{line}");
    }
    failed.into_iter().try_for_each(Err)
}

/// Makes this kernel follow the source until the process is asked to end. The rules stay in place. `tell` says a line to
/// whoever started us.
///
/// The calling thread must be the only one: signals are blocked in it and in those that it starts.
pub fn run(settings: &Settings, tell: &mut dyn FnMut(&str)) -> Result<End, RunError> {
    let clock = Clock::start();
    let termination = Termination::block().map_err(system("hear signals"))?;
    let hangup = Hangup::block().map_err(system("hear signals"))?;
    let carrier = Carrier::start(&settings.relay)?;
    let request = OpenRequest {
        settings: &settings.mode,
        relay: carrier.relay(),
        run_dir: &settings.run_dir,
        known_chains: registry::known_chains(),
    };
    let Opened { mut dataplane, drift, program } = settings.mode.mode.open(&request)?;
    dataplane.try_to_write().map_err(RunError::Kernel)?;
    let (source, server_address) = Opening::of(&settings.origin)?;
    let Some((locks, inheritance)) = Locks::take(settings.arrival, &settings.run_dir, &termination)? else {
        return Ok(End::Stopped);
    };
    if let Some(program) = program {
        tracing::info!("writing with {program}");
    }
    restore_settings_but_for(&settings.mode, locks.run_dir.path())?;
    carrier.adopt(inheritance.sockets);
    let (watch, host) = watch_host(&settings.config.node_name);
    let poll =
        |source: &DriftSource| if let DriftSource::Poll(interval) = source { Some(*interval) } else { None };
    let glance = drift.iter().find_map(poll);
    let picture = picture_of(settings, clock.now())?;
    let now = Now { elapsed: Duration::ZERO, ..clock.now() };
    let (mode, pace) = (settings.mode.mode, settings.pace);
    let start = Start {
        mode,
        is_default_mode: settings.is_default_mode,
        program,
        families: families_of_host(),
        picture,
        server: server_address,
        host: host.clone(),
        pace,
        glance,
        vanished_tcp: settings.vanished_tcp,
        now,
    };
    let state = Loop::new(start);
    let (sender, events) = sync_channel(EVENTS_MAX);
    let board = Board::new(clock.started);
    board.publish(state.health(), state.gauges());
    let shown = Shown::default();
    let (servers, remote) = http::open(settings, &board, &shown, &carrier, &sender)?;
    let server = bind(locks.run_dir.path())?;
    let door = Door::new(locks.namespace.listener().map_err(system("hear successors"))?);
    let node_name = settings.config.node_name.clone();
    let reload = settings.reload.clone();
    let outside = Outside {
        termination,
        hangup,
        source,
        watch,
        node_name,
        host,
        drift,
        server,
        servers,
        board: board.clone(),
        door,
        reload,
    };
    let lookup = match &settings.origin {
        Origin::Server(server) => {
            Some(feeds::nodes(server, sender.clone()).map_err(system("start a thread"))?)
        }
        Origin::Files { .. } => None,
    };
    outside.listen(&sender)?;
    let (examiner, samples) = channel();
    let (masquerade_bit, promises) = (settings.mode.masquerade_bit, settings.mode.semantics());
    let doctor = Doctor { mode, program, masquerade_bit, promises };
    feeds::examinations(doctor, samples, sender.clone()).map_err(system("start a thread"))?;
    let beside = Beside::new(settings, program);
    let shell = Shell {
        state,
        dataplane,
        settings: settings.clone(),
        shown,
        beside,
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
    let (end, remote) = shell.serve(&events, tell);
    // A successor listens where we did.
    remote.close();
    let end = end?;
    // Who asks now hears that nobody is there, either way; without the file it looks so too.
    let _ = std::fs::remove_file(observe::socket::path(locks.run_dir.path()));
    finish(end, locks, &carrier, &events).map_err(system("hear signals"))
}

fn bind(run_dir: &Path) -> Result<Server, RunError> {
    let place = observe::socket::path(run_dir);
    Server::bind(run_dir).map_err(|source| RunError::RunDir { action: "listen at", path: place, source })
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

fn system(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::System { action, source }
}
