//! The loop at work: an event comes, a step is taken, and what it wants is carried out.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use apiserver::NodeLookup;
use config::Live;
use config::Settings;
use config::Tuning;
use dataplane::{Dataplane, Scope};
use model::NodePortAddress;
use observe::doctor::Sample;
use observe::http::{Balancers, Board, Remote};
use observe::question::Answer;
use observe::traffic::Traffic;

use super::End;
use super::beside::Beside;
use super::carrier::Carrier;
use super::clock::Clock;
use super::crier::Crier;
use super::http::Shown;
use super::log::log;
use super::tuning::Tuner;
use crate::error::RunError;
use crate::reconciler::Effect;
use crate::reconciler::Event;
use crate::reconciler::Loop;
use crate::reconciler::{Done, Errand};

/// The loop, and what it acts upon.
pub(super) struct Shell {
    pub(super) state: Loop,
    pub(super) dataplane: Box<dyn Dataplane>,
    /// What was chosen, as it is now.
    pub(super) settings: Settings,
    pub(super) shown: Shown,
    pub(super) beside: Beside,
    /// Where samples go whose preconditions are to be checked.
    pub(super) examiner: Sender<Box<Sample>>,
    pub(super) crier: Crier,
    pub(super) carrier: Carrier,
    /// Asks the API server for single Nodes, where there is a server.
    pub(super) lookup: Option<NodeLookup>,
    /// The lines to those in whose place we go on. They serve until these end.
    pub(super) predecessors: Vec<UnixStream>,
    /// Where node ports answer when nothing is configured.
    pub(super) balancers: NodePortAddress,
    pub(super) board: Board,
    pub(super) remote: Remote,
    /// Settings of the kernel that are not made yet.
    pub(super) tuning: Option<Tuning>,
    pub(super) clock: Clock,
    pub(super) wake_at: Option<Duration>,
}

impl Shell {
    pub(super) fn serve(
        mut self,
        events: &Receiver<Event>,
        tell: &mut dyn FnMut(&str),
    ) -> (Result<End, RunError>, Remote) {
        self.tune();
        while let Some(event) = self.wait(events) {
            if let Event::Rechosen(live) = &event {
                self.note(live);
            }
            if let ControlFlow::Break(end) = self.take(event, tell) {
                return (end, self.remote);
            }
        }
        (Ok(End::Stopped), self.remote)
    }

    /// Adds to an answer what the kernel has counted.
    fn tell_what_the_kernel_counted(&mut self, answer: &mut Answer) {
        let all = match answer {
            Answer::Picture(snapshot) => &mut snapshot.traffic,
            Answer::Traffic(all) => all,
            Answer::Counted(counted) => {
                *counted = self.dataplane.counted();
                return;
            }
            Answer::Status(_) | Answer::Readiness(_) | Answer::NotYet(_) => return,
        };
        all.extend(self.dataplane.carried().iter().flatten().map(Traffic::of_kernel));
    }

    /// What was chosen anew is told from now on.
    fn note(&mut self, live: &Live) {
        self.settings.pace = live.pace;
        self.settings.config.masquerade_all = live.packets.masquerade_all;
        self.settings.config.node_port_addresses.clone_from(&live.packets.node_port_addresses);
        self.settings.document.logging.verbosity = live.verbosity;
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
            let effects = self.state.step(event, self.clock.now());
            // Who asks for health meanwhile must know what is under way: it may hang.
            self.board.publish(self.state.health(), self.state.metrics());
            for effect in effects {
                match effect {
                    Effect::Sync(scope) => next = Some(self.sync(&scope)),
                    Effect::Settle => next = Some(self.settle()),
                    Effect::Glance => next = Some(Event::Glanced(self.dataplane.is_flushed())),
                    Effect::Look => next = Some(Event::Found(Beside::is_served())),
                    // The thread ends with this process alone; its alarm tells of any other end.
                    Effect::Examine(sample) => drop(self.examiner.send(sample)),
                    Effect::Run(errand) => {
                        let result = self.run_errand(&errand);
                        let is_done = result.as_ref().is_ok_and(|done| done.again.is_none());
                        if errand == Errand::TakeOver && is_done {
                            // Ours is in force, and what led to our predecessors is gone. Not before: a predecessor in userspace mode
                            // relays what its rules still lead to it.
                            self.predecessors.clear();
                            self.carrier.disinherit();
                        }
                        next = Some(Event::Ran { errand: errand.kind(), result });
                    }
                    Effect::AskForNode(name) => {
                        if let Some(lookup) = &self.lookup
                            && !lookup.ask(name)
                        {
                            tracing::debug!("too many questions for Nodes wait: one is dropped");
                        }
                    }
                    Effect::WakeAt(at) => self.wake_at = Some(at),
                    Effect::Answer(reply, mut answer) => {
                        self.tell_what_the_kernel_counted(&mut answer);
                        self.carrier.tell(&mut answer);
                        if let Answer::Status(status) = &mut answer {
                            let chosen = &self.settings.mode;
                            status.localhost_node_ports = chosen.localhost_node_ports;
                            status.masquerade_bit = Some(chosen.masquerade_bit);
                            let section = chosen.mode.status(chosen, self.dataplane.leaving());
                            status.tell_of_mode(chosen.mode, section);
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

    fn run_errand(&mut self, errand: &Errand) -> Result<Done, String> {
        let Errand::End(vanished) = errand else { return self.beside.run(errand, &BTreeSet::new()) };
        let mut done = self.beside.run(errand, &self.state.table().node().addresses)?;
        // After the connection tracker was read: IPVS forgets a removed server's connections, and their entries with them.
        self.dataplane.end_connections(vanished).map_err(|error| error.to_string())?;
        self.carrier.end_connections(vanished, &mut done.ended);
        Ok(done)
    }

    fn sync(&mut self, scope: &Scope) -> Event {
        let begun = self.clock.now().elapsed;
        let result = self.dataplane.sync(self.state.table(), scope.as_ref());
        let took = self.since(begun);
        // What was missing before the first sync may decide about rules.
        let result = match result {
            Ok(synced) if self.tune() => {
                self.dataplane.sync(self.state.table(), scope.as_ref()).map(|_| synced)
            }
            result => result,
        };
        Event::Synced { result, took }
    }

    fn settle(&mut self) -> Event {
        let begun = self.clock.now().elapsed;
        let result = self.dataplane.settle();
        Event::Settled { result, took: self.since(begun) }
    }

    /// Makes settings of the kernel, once they are there: rules load the connection tracker. Says whether anything was written.
    fn tune(&mut self) -> bool {
        let Some(tuning) = self.tuning.take() else { return false };
        let tuned = Tuner(tuning).apply();
        tuned.written.iter().for_each(|what| tracing::info!("set {what}"));
        let failed = tuned.failed.iter().chain(&tuned.not_forwarding);
        failed.for_each(|why| tracing::warn!("{why}. Rules are written all the same"));
        match tuned.is_missing {
            true if self.is_before_the_first_sync() => self.tuning = Some(tuning),
            true => tracing::warn!("this kernel does not have all settings of the connection tracker"),
            false => {}
        }
        !tuned.written.is_empty()
    }

    fn is_before_the_first_sync(&self) -> bool {
        self.state.health().updated.is_none()
    }

    fn since(&self, begun: Duration) -> Duration {
        self.clock.now().elapsed.saturating_sub(begun)
    }
}
