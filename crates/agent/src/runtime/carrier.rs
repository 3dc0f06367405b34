//! The relay of a running portway: what it inherits, what it tells, and how it ends.
//!
//! Connections that the relay carries live in this process. So a successor gets the listening sockets, and both serve until its
//! own rules are in force; then we finish what we carry. A process that is told to end does so when nobody is left, or when
//! the limit is reached.
//!
//! ```text
//!   old: sockets ──────────────► new: takes the locks, opens its listeners on them, writes its rules
//!   old: serves, and so does new
//!        ◄───────── line ends ── new: in force, what other modes left is gone
//!   old: accepts nothing more, carries what it has to its end, stands by
//! ```

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::RelaySettings;
use dataplane::flows::Ended;
use dataplane::relay::{self, Handed, Relay, Relays as _, Trouble};
use kernel::signal::{self, Termination};
use model::flows::VanishedFlows;
use observe::question::Answer;
use observe::status::RelayStatus;
use observe::traffic::{Carried, Traffic};

use crate::error::RunError;
use crate::reconciler::Event;
use crate::takeover::Successor;

/// How often a portway that waits for connections to end looks.
const LOOK: Duration = Duration::from_millis(20);
/// A successor that does not read for so long goes without our sockets.
const HANDING: Duration = Duration::from_secs(10);
/// A successor is in force by then, however large the cluster.
const TIME_ENOUGH: Duration = Duration::from_secs(120);

/// The relay, shared with the mode that opens its listeners.
#[derive(Clone, Debug)]
pub(super) struct Carrier {
    relay: Arc<Mutex<Relay>>,
    drain_timeout: Duration,
}

impl Carrier {
    pub(super) fn start(settings: &RelaySettings) -> Result<Self, RunError> {
        let options = relay::Options {
            ports: settings.ports.clone(),
            udp_idle: settings.udp_timeout,
            drain: settings.drain_timeout,
            tell: Arc::new(|trouble: &Trouble| tracing::warn!("{trouble}")),
            ..relay::Options::default()
        };
        let relay =
            Relay::start(options).map_err(|source| RunError::System { action: "start the relay", source })?;
        Ok(Self { relay: Arc::new(Mutex::new(relay)), drain_timeout: settings.drain_timeout })
    }

    /// The relay, for a mode.
    pub(super) fn relay(&self) -> Arc<Mutex<Relay>> {
        Arc::clone(&self.relay)
    }

    fn lock(&self) -> MutexGuard<'_, Relay> {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with the sockets of a predecessor.
    pub(super) fn adopt(&self, handed: Vec<Handed>) {
        if !handed.is_empty() {
            tracing::info!("going on with {} sockets of the portway that was here before", handed.len());
            self.lock().adopt(handed);
        }
    }

    /// Resets connections to endpoints that have vanished, and adds them to those that were ended.
    pub(super) fn end_connections(&self, vanished: &BTreeSet<VanishedFlows>, ended: &mut Ended) {
        let endpoints = vanished.iter().map(|flows| flows.endpoint.into()).collect();
        let mut cut = self.lock().cut_to(endpoints);
        // The relay knows endpoints; where several service ports had one, the first is named.
        for flows in vanished {
            if let Some(count) = cut.remove(&flows.endpoint.into()) {
                *ended.entry((flows.port.clone(), flows.endpoint)).or_default() += count;
            }
        }
    }

    /// Our rules are in force, and those of others are gone: what was handed on and not asked for by then is not needed.
    pub(super) fn disinherit(&self) {
        self.lock().disinherit();
    }

    /// Adds to an answer what was carried, and what was taken on localhost.
    pub(super) fn tell(&self, answer: &mut Answer) {
        let relay = self.lock();
        let traffic = relay.counters().into_iter().map(|(id, counters)| Traffic::of(&id, &counters));
        match answer {
            Answer::Picture(snapshot) => snapshot.traffic = traffic.collect(),
            Answer::Traffic(all) => all.extend(traffic),
            Answer::Status(status) => {
                let carried: Carried = traffic.map(|traffic| traffic.all).sum();
                let carried = [carried, Carried::of(&relay.ended())].into_iter().sum();
                let listeners = relay.ids().len();
                let is_used = listeners > 0 || carried != Carried::default();
                status.relay = is_used.then_some(RelayStatus { listeners, carried });
            }
            Answer::Counted(counted) => {
                // Where the mode leaves everything else to the kernel, all that the relay takes is to node ports on localhost.
                counted.localhost_accepted =
                    counted.localhost_accepted.map(|by_rules| by_rules + relay.taken());
            }
            Answer::Readiness(_) | Answer::NotYet(_) => {}
        }
    }

    /// What was carried, for a page that does not wait: `None` while the relay is busy.
    pub(super) fn traffic(&self) -> Option<Vec<Traffic>> {
        let relay = self.relay.try_lock().ok()?;
        Some(relay.counters().into_iter().map(|(id, counters)| Traffic::of(&id, &counters)).collect())
    }

    /// Whether there is nothing to hand over and nothing to wait for.
    pub(super) fn is_idle(&self) -> bool {
        let relay = self.lock();
        relay.ids().is_empty() && relay.active() == 0
    }

    /// Gives our sockets to a successor. We go on with them, as it does, until it is in force.
    pub(super) fn hand_over(&self, line: &UnixStream) {
        let given = self.lock().listening().and_then(|sockets| {
            line.set_write_timeout(Some(HANDING))?;
            relay::send(line, &sockets)
        });
        if let Err(error) = given {
            tracing::warn!(%error, "the successor goes without our sockets, and opens its own");
        }
    }

    /// Serves until the successor is in force, which it says by ending the line, or has had time enough.
    pub(super) fn serve_until_relieved(&self, line: &UnixStream) {
        let relieved = line.set_read_timeout(Some(TIME_ENOUGH)).and_then(|()| (&*line).read(&mut [0]));
        if let Err(error) = relieved {
            tracing::warn!(%error, "the successor has not said that it serves");
        }
        self.lock().retire();
    }

    /// Waits for the connections that there are, served and followed by others as they may be: until none is left, until the
    /// limit, until the process is told to end a second time, or until a successor asks for our place.
    pub(super) fn end(&self, events: &Receiver<Event>) -> io::Result<Option<Successor>> {
        self.lock().begin_to_end();
        self.wait(2, || self.lock().active_before_the_end(), || successor(events))
    }

    /// Waits likewise for all that there is, after a successor has gone on in our place.
    pub(super) fn finish(&self) -> io::Result<()> {
        self.wait(2, || self.lock().active(), || None).map(drop)
    }

    fn wait(
        &self,
        told_max: u32,
        active: impl Fn() -> usize,
        successor: impl Fn() -> Option<Successor>,
    ) -> io::Result<Option<Successor>> {
        let termination = Termination::block()?;
        let deadline = Instant::now() + self.drain_timeout;
        let (mut told, mut has_said, mut found) = (0, false, None);
        while active() > 0 && told < told_max && found.is_none() && Instant::now() < deadline {
            if !std::mem::replace(&mut has_said, true) {
                let (active, limit) = (active(), self.drain_timeout.as_secs());
                tracing::info!(
                    "{active} connections are carried by this process: it waits for them, {limit} s at most"
                );
            }
            told += u32::from(termination.wait_at_most(LOOK)?.is_some());
            found = successor();
        }
        if found.is_none() {
            self.cut();
        }
        if told > 0 {
            // Whoever goes on in this process must know.
            signal::ask_again();
        }
        Ok(found)
    }

    /// Resets what is left, so that no client takes a part of an answer for the whole.
    fn cut(&self) {
        let relay = self.lock();
        match relay.active_before_the_end() {
            0 => {}
            cut => tracing::warn!("{cut} connections that this process carried are cut"),
        }
        relay.cut();
    }
}

/// A portway that asks for our place.
fn successor(events: &Receiver<Event>) -> Option<Successor> {
    events.try_iter().find_map(|event| match event {
        Event::HandOver(successor) => Some(successor),
        _ => None,
    })
}
