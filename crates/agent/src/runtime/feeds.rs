//! The threads that wait for the outside, and turn what they hear into events.
//!
//! Each owns what it listens to and nothing else. They end with the process; a feed whose loop is gone ends too. A feed that
//! ends although the loop is there, by a mistake of ours, is told to the loop: rules that nobody updates are worse than a
//! restart.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use apiserver::{NodeAnswers, NodeLookup};
use config::kubeproxy::{Reload, Reread};
use dataplane::host_changes::{Touch, Touched};
use dataplane::{ForeignWrites, Meddled, registry};
use kernel::host::{Link, Watch, links};
use kernel::netlink;
use kernel::signal::{Hangup, Termination};
use observe::doctor::{Doctor, Sample};
use observe::http::{Board, Servers};
use observe::question::{Answer, Question};
use observe::socket::Server;
use standalone::host::HostFacts;
use standalone::manifests::{Doubts, Follower, RereadRequest, Source, SourceError};

use crate::reconciler::{Event, Reply};
use crate::takeover::Door;

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

/// Tells of files. The source is followed already, so its first wait returns at once; it reads everything again on this request.
pub(super) fn files(mut source: Source, reread: RereadRequest, events: Events) -> io::Result<JoinHandle<()>> {
    start("files", &events.clone(), move || {
        let mut told = Doubts::default();
        loop {
            match source.wait(PATIENCE) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => listen_again(&mut source, &reread, &error),
            }
            let is_requested = reread.is_pending();
            let (changes, problems) = source.changes();
            if is_requested {
                tracing::info!(
                    changes = changes.len(),
                    problems = problems.len(),
                    "read the manifests again"
                );
            }
            let (is_complete, doubts) = (source.is_complete(), source.doubts());
            let files = Event::FilesChanged { changes, problems, is_complete };
            if in_order(&mut told, doubts, files).into_iter().any(|event| events.send(event).is_err()) {
                return;
            }
        }
    })
}

/// Doubts begin before the files that bring them, and end after the files that settle them: else the rules of a Service would be stale for
/// a moment, and removed, before its corrected object comes.
fn in_order(told: &mut Doubts, doubts: Doubts, files: Event) -> Vec<Event> {
    let both = told.with(&doubts);
    let begin = (both != *told).then(|| Event::SourceInDoubt(both.clone()));
    let end = (doubts != both).then(|| Event::SourceInDoubt(doubts.clone()));
    *told = doubts;
    begin.into_iter().chain([files]).chain(end).collect()
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

/// Answers questions for single Nodes.
pub(super) fn nodes(settings: &apiserver::Settings, events: Events) -> io::Result<NodeLookup> {
    let (lookup, answers) = NodeAnswers::from(settings);
    start("questions for Nodes", &events.clone(), move || {
        let mut tell = |name, exists| events.send(Event::NodeAnswered { name, exists }).is_ok();
        if let Err(error) = answers.serve(&mut tell) {
            tracing::error!(%error, "the API server cannot be asked for Nodes");
        }
    })?;
    Ok(lookup)
}

/// Tells of a config file. What goes wrong with it is told there, and what was chosen before stays.
pub(super) fn config(
    mut reload: Reload,
    reread: RereadRequest,
    events: Events,
) -> io::Result<JoinHandle<()>> {
    start("the config file", &events.clone(), move || {
        let mut follower = Follower::of(reload.path(), reread);
        loop {
            let is_requested = follower.wait(PATIENCE);
            let Some(Reread { live, standing }) = reload.look() else {
                if is_requested {
                    reload.log_unchanged();
                }
                continue;
            };
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
fn listen_again(source: &mut Source, reread: &RereadRequest, error: &SourceError) {
    tracing::warn!(%error, "files are no longer followed: trying again");
    if let Err(error) = source.follow() {
        tracing::warn!(%error, seconds = PATIENCE.as_secs(), "files cannot be followed: reading them again later");
        reread.wait(PATIENCE);
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
        let mut touch =
            Touch::new(registry::service_interfaces(), || links().unwrap_or_default().into_iter().collect());
        let mut looks_left = STOPGAP_LOOKS;
        loop {
            let waits_for_route = looks_left > 0 && known.has_stopgap();
            let limit = if waits_for_route { STOPGAP_WAIT } else { PATIENCE };
            let touched = match next_group(&mut watch, &mut touch, limit) {
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
            if touched.is_host {
                looks_left = STOPGAP_LOOKS;
            } else if waits_for_route {
                looks_left -= 1;
            } else {
                continue;
            }
            let now = known.read_again(&node_name);
            if now.addresses.is_some() && now != known {
                known = now.clone();
                if events.send(Event::AddressesChanged(now)).is_err() {
                    return;
                }
            }
        }
    })
}

/// Routes are not watched, and the default route comes a moment after its address. While the primary address is a stopgap, the routes are read
/// this often, for a minute after each change.
const STOPGAP_WAIT: Duration = Duration::from_millis(500);
const STOPGAP_LOOKS: u32 = 120;

/// Changes until it was quiet for a while, as one.
fn next_group(
    watch: &mut Watch,
    touch: &mut Touch<impl FnMut() -> Vec<Link>>,
    limit: Duration,
) -> netlink::Result<Touched> {
    let mut group = Touched::default();
    let mut next = watch.next(limit)?;
    for _ in 0..GROUP_MAX {
        let Some(change) = next else { break };
        touch.take(change, &mut group);
        // An error is met again by the next group.
        next = watch.next(QUIET).unwrap_or_default();
    }
    Ok(group)
}

/// Tells of others who write to our tables.
pub(super) fn meddling(mut writes: Box<dyn ForeignWrites>, events: Events) -> io::Result<JoinHandle<()>> {
    start("other writers", &events.clone(), move || {
        loop {
            let heard = match writes.next(PATIENCE) {
                Ok(heard) => heard,
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

/// Checks the preconditions of this host, one sample after the other, and tells what was found. In a thread of its own, since
/// reading other programs' rules may take long.
pub(super) fn examinations(
    doctor: Doctor,
    samples: Receiver<Box<Sample>>,
    events: Events,
) -> io::Result<JoinHandle<()>> {
    start("preconditions", &events.clone(), move || {
        while let Ok(sample) = samples.recv() {
            let examined = doctor.examine(&sample);
            examined
                .unread
                .iter()
                .for_each(|what| tracing::debug!("a check of this host cannot read {what}"));
            if events.send(Event::Examined(examined.findings)).is_err() {
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

/// What SIGHUP has read again.
#[derive(Debug, Default)]
pub(super) struct Rereads {
    pub(super) manifests: Option<RereadRequest>,
    pub(super) config: Option<RereadRequest>,
}

impl Rereads {
    /// What there is to tell of a reload: objects of an API server are watched, and there is no list to read again.
    fn about(&self) -> &'static str {
        match (&self.manifests, &self.config) {
            (Some(_), Some(_)) => "reading the manifests and the config file again",
            (Some(_), None) => "reading the manifests again",
            (None, Some(_)) => {
                "reading the config file again; the API server is watched, and needs no reload"
            }
            (None, None) => "there is no file to read again; the API server is watched, and needs no reload",
        }
    }
}

/// Has files read again when the operator asks for it.
pub(super) fn reloads(hangup: Hangup, rereads: Rereads, events: &Events) -> io::Result<JoinHandle<()>> {
    start("reload requests", events, move || {
        loop {
            if let Err(error) = hangup.wait() {
                tracing::error!(%error, "SIGHUP cannot be received any more");
                return;
            }
            tracing::info!("SIGHUP: {}", rereads.about());
            rereads.manifests.iter().chain(&rereads.config).for_each(RereadRequest::make);
        }
    })
}

/// Tells of questions. A probe is answered from the board, so that it does not fail while the loop writes.
pub(super) fn questions(server: Server, board: Board, events: Events) -> io::Result<JoinHandle<()>> {
    start("questions", &events.clone(), move || {
        server.serve(move |question| match question {
            Question::Readiness => Some(Answer::Readiness(board.readiness())),
            question => ask(&events, question),
        });
    })
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Else its rules would be stale between the two, and clients refused until it comes.
    #[test]
    fn a_corrected_file_comes_before_the_end_of_its_doubt() {
        let empty =
            |paths: &[&str]| Doubts { empty: paths.iter().map(PathBuf::from).collect(), ..Doubts::default() };
        let files = || Event::FilesChanged { changes: Vec::new(), problems: Vec::new(), is_complete: true };
        let mut told = Doubts::default();
        let mut order = |now: &[&str]| -> Vec<String> {
            let events = in_order(&mut told, empty(now), files());
            let shown = events.into_iter().map(|event| match event {
                Event::SourceInDoubt(doubts) => format!("{:?}", doubts.empty),
                _ => "files".to_owned(),
            });
            shown.collect()
        };
        assert_eq!(order(&["a"]), [r#"["a"]"#, "files"], "begun before");
        assert_eq!(order(&["a"]), ["files"], "known already");
        assert_eq!(order(&["b"]), [r#"["a", "b"]"#, "files", r#"["b"]"#], "one for another");
        assert_eq!(order(&[]), ["files", "[]"], "ended after");
    }
}
