//! The threads that wait for the outside, and turn what they hear into events.
//!
//! Each owns what it listens to and nothing else. They end with the process; a feed whose loop is gone ends too. A feed that
//! ends although the loop is there, by a mistake of ours, is told to the loop: rules that nobody updates are worse than a
//! restart.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{SyncSender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dataplane::Meddled;
use dataplane::nftables::Listener;
use kernel::host::{Link, Watch, links};
use kernel::netlink;
use kernel::nft::Monitor;
use kernel::signal::Termination;

use super::effect::Answer;
use super::event::{Event, Question, Reply};
use super::handover::Door;
use super::touch::{Touch, Touched};
use crate::host::HostFacts;
use crate::kubeproxy::{Reload, Reread};
use crate::manifests::{Follower, Source, SourceError};
use crate::serve::Servers;
use crate::socket::Server;

/// How long a feed waits before it looks whether anybody still listens, and before it tries again what failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Addresses often come in groups: the group is over when it was quiet for so long.
const QUIET: Duration = Duration::from_millis(50);
/// A group without end is taken as it is after so many notifications.
const GROUP_MAX: usize = 100;
/// A question waits at most so long for a loop that is busy writing.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Where events go.
pub(super) type Events = SyncSender<Event>;

fn start(
    name: &'static str,
    events: &Events,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let alarm = Alarm { name, events: events.clone() };
    thread::Builder::new().name(name.into()).spawn(move || {
        let _alarm = alarm;
        work();
    })
}

/// Rings when its thread ends, however it ends.
struct Alarm {
    name: &'static str,
    events: Events,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // A loop that is gone needs no alarm.
        let _ = self.events.send(Event::FeedEnded(self.name));
    }
}

/// Tells of files. The source is followed already, so its first wait returns at once.
pub(super) fn files(mut source: Source, events: Events) -> io::Result<JoinHandle<()>> {
    start("files", &events.clone(), move || {
        loop {
            match source.wait(PATIENCE) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => listen_again(&mut source, &error),
            }
            let (changes, problems) = source.changes();
            let is_complete = source.is_complete();
            if events.send(Event::FilesChanged { changes, problems, is_complete }).is_err() {
                return;
            }
        }
    })
}

/// Tells what an API server tells.
pub(super) fn server(settings: apiserver::Settings, events: Events) -> io::Result<JoinHandle<()>> {
    start("the API server", &events.clone(), move || {
        let mut tell = |news| events.send(Event::Told(news)).is_ok();
        if let Err(error) = apiserver::watch(&settings, &mut tell) {
            tracing::error!(%error, "the Kubernetes client cannot start");
        }
    })
}

/// Tells of a config file. What goes wrong with it is told there, and what was chosen before stays.
pub(super) fn config(mut reload: Reload, events: Events) -> io::Result<JoinHandle<()>> {
    start("the config file", &events.clone(), move || {
        let mut follower = Follower::of(reload.path());
        loop {
            follower.wait(PATIENCE);
            let Some(Reread { live, standing }) = reload.look() else { continue };
            let told = live.map(Event::Rechosen).into_iter().chain([Event::ConfigRead(standing)]);
            let mut is_over = false;
            for event in told {
                is_over |= events.send(event).is_err();
            }
            if is_over {
                return;
            }
        }
    })
}

/// A watch that ended is started anew. Until that works, files are read at the pace of our patience.
fn listen_again(source: &mut Source, error: &SourceError) {
    tracing::warn!(%error, "files are no longer followed: trying again");
    if let Err(error) = source.follow() {
        tracing::warn!(%error, seconds = PATIENCE.as_secs(), "files cannot be followed: reading them again later");
        thread::sleep(PATIENCE);
    }
}

/// Tells of addresses that are not those `known`; and, where the mode `keeps_addresses` of its own, of what may have taken them. The watch
/// was opened before `known` was read, so nothing is missed.
pub(super) fn addresses(
    mut watch: Watch,
    node_name: String,
    mut known: HostFacts,
    keeps_addresses: bool,
    events: Events,
) -> io::Result<JoinHandle<()>> {
    start("addresses", &events.clone(), move || {
        let mut touch = Touch::new(|| links().unwrap_or_default().into_iter().collect());
        loop {
            let touched = match next_group(&mut watch, &mut touch) {
                Ok(touched) => touched,
                Err(error) => {
                    tracing::warn!(%error, "the addresses of this host cannot be followed: reading them again later");
                    thread::sleep(PATIENCE);
                    Touched::ALL
                }
            };
            if touched.is_mode && keeps_addresses && events.send(Event::HostTouched).is_err() {
                return;
            }
            if !touched.is_host {
                continue;
            }
            let now = HostFacts::read(&node_name);
            if now.addresses.is_some() && now != known {
                known = now.clone();
                if events.send(Event::AddressesChanged(now)).is_err() {
                    return;
                }
            }
        }
    })
}

/// Changes until it was quiet for a while, as one.
fn next_group(watch: &mut Watch, touch: &mut Touch<impl FnMut() -> Vec<Link>>) -> netlink::Result<Touched> {
    let mut group = Touched::default();
    let mut next = watch.next(PATIENCE)?;
    for _ in 0..GROUP_MAX {
        let Some(change) = next else { break };
        touch.take(change, &mut group);
        // An error is met again by the next group.
        next = watch.next(QUIET).unwrap_or_default();
    }
    Ok(group)
}

/// Tells of others who write to our tables.
pub(super) fn meddling(mut monitor: Monitor, events: Events) -> io::Result<JoinHandle<()>> {
    start("other writers", &events.clone(), move || {
        let mut listener = Listener::default();
        loop {
            let heard = match monitor.next(PATIENCE) {
                Ok(Some(event)) => listener.hear(event),
                Ok(None) => None,
                Err(error) => {
                    tracing::warn!(%error, "others who write to our tables cannot be heard: comparing instead");
                    thread::sleep(PATIENCE);
                    Some(Meddled::Unknown)
                }
            };
            if heard.is_some_and(|meddled| events.send(Event::Meddled(meddled)).is_err()) {
                return;
            }
        }
    })
}

/// Tells of another portway that wants to go on in our place.
pub(super) fn successors(door: Door, events: Events) -> io::Result<JoinHandle<()>> {
    start("successors", &events.clone(), move || {
        while let Some(successor) = door.wait() {
            if events.send(Event::HandOver(successor)).is_err() {
                return;
            }
        }
    })
}

/// Tells of the wish that the process ends.
///
/// The wish is left where it is: a process that has handed over becomes another program, which must hear it.
pub(super) fn signals(termination: Termination, events: Events) -> io::Result<JoinHandle<()>> {
    start("signals", &events.clone(), move || match termination.wait_and_leave() {
        Ok(signal) => drop(events.send(Event::Stop(signal))),
        Err(error) => {
            tracing::error!(%error, "signals cannot be heard any more: end this process with SIGKILL");
        }
    })
}

/// Tells of questions.
pub(super) fn questions(server: Server, events: Events) -> io::Result<JoinHandle<()>> {
    start("questions", &events.clone(), move || server.serve(move |question| ask(&events, question)))
}

/// Asks the loop, and waits for its answer.
pub(super) fn ask(events: &Events, question: Question) -> Option<Answer> {
    let (reply, answer) = channel();
    events.send(Event::Query(question, Reply(reply))).ok()?;
    answer.recv_timeout(ANSWER_WAIT).ok()
}

/// Answers by HTTP, and tells of ports that cannot be had.
pub(super) fn servers(servers: Servers, events: Events) -> io::Result<JoinHandle<()>> {
    start("HTTP clients", &events.clone(), move || {
        // A loop that has no time for it now is told later.
        let tell = |failing: &BTreeMap<_, _>| events.try_send(Event::NotListening(failing.clone())).is_ok();
        if let Err(error) = servers.serve(tell) {
            tracing::error!(%error, "nobody can be answered by HTTP");
        }
    })
}
