//! A pod comes and goes while connections are made without a pause: none of them may fail.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use playground::{Load, Stats, Work};

use crate::Show;
use crate::folder::{SPARE_FILE, SPARE_IN_SERVICE};
use crate::play::no_failure;
use crate::screen::{Screen, thousands};

/// The Service, its pods and the one that comes and goes.
const SERVICE: &str = "mysql-service";
const PODS: [&str; 3] = ["mysql-0", "mysql-1", SPARE];
const SPARE: &str = "mysql-2";
/// So many connections are looked at in each part.
const PART: u64 = 3000;
/// A pod with a third of the connections that answers none of so many, for so long, is out of service. A connection
/// that was made before may be answered later: on a busy machine its client waits for a processor.
const SILENCE: u64 = 100;
const SILENCE_TIME: Duration = Duration::from_millis(300);
/// Neither traffic nor a change takes as long.
const LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);

pub(crate) fn play(screen: &Screen, show: &Show<'_>) -> Result<()> {
    screen.heading("A pod comes and goes while traffic runs", "Moving a file is all it takes.");
    let client = show.stage.place("client-a");
    let question = format!("{} {SERVICE}", client.address(playground::Family::V4));
    let destination = show.portway.explain("a", &question)?.destination;
    let load = Load::start(client, destination, &Work::default())?;
    let outcome = come_and_go(screen, show, &load);
    let stats = load.stop();
    outcome?;
    let verdict = no_failure(&stats).map(|()| format!("{} connections, 0 failed.", thousands(stats.ok)));
    screen.verdict(verdict);
    Ok(())
}

fn come_and_go(screen: &Screen, show: &Show<'_>, load: &Load) -> Result<()> {
    screen.block(&format!("{:38}{}", "", PODS.map(|pod| format!("{pod:>9}")).concat()));
    row(screen, load, "two pods");
    let came = rename(show, SPARE_FILE, SPARE_IN_SERVICE, || wait_for_spare(load))?;
    row(screen, load, &in_words("mv spare/mysql-2.yaml manifests/", came));
    let left = rename(show, SPARE_IN_SERVICE, SPARE_FILE, || wait_for_silence(load))?;
    let last = row(screen, load, &in_words("mv manifests/mysql-2.yaml spare/", left));
    match (came, left, last) {
        (Some(came), Some(left), 0) => screen.plain(&format!(
            "{SPARE} got its first connection {} ms after the file came, its last one {} ms after it left.",
            came.as_millis(),
            left.as_millis()
        )),
        (None, ..) => screen.wrong("mysql-2 came, but got no connection"),
        _ => screen.wrong("mysql-2 left, but still got connections"),
    }
    Ok(())
}

/// Moves a file, and tells what came of it and when.
fn rename(
    show: &Show<'_>,
    from: &str,
    to: &str,
    wait: impl FnOnce() -> Option<Instant>,
) -> Result<Option<Duration>> {
    let folder = show.portway.folder();
    let began = Instant::now();
    fs::rename(folder.join(from), folder.join(to)).with_context(|| format!("cannot move {from} to {to}"))?;
    Ok(wait().map(|at| at.saturating_duration_since(began)))
}

fn in_words(command: &str, took: Option<Duration>) -> String {
    let mark = if took.is_some() { "$" } else { "✗" };
    format!("{mark} {command}")
}

/// Prints who answered the next connections; returns how many the spare pod answered.
fn row(screen: &Screen, load: &Load, what: &str) -> u64 {
    let before = load.so_far();
    load.wait_for(PART, LIMIT);
    let after = load.so_far();
    let answered = PODS.map(|pod| count(&after, pod) - count(&before, pod));
    screen.block(&format!("{what:38}{}", answered.map(|count| format!("{count:>9}")).concat()));
    answered[2]
}

/// When the spare pod answered first.
fn wait_for_spare(load: &Load) -> Option<Instant> {
    let (before, deadline) = (count(&load.so_far(), SPARE), Instant::now() + LIMIT);
    while Instant::now() < deadline {
        if count(&load.so_far(), SPARE) > before {
            return Some(Instant::now());
        }
        thread::sleep(POLL);
    }
    None
}

/// When the spare pod answered last: it is silent while many others are answered.
fn wait_for_silence(load: &Load) -> Option<Instant> {
    let mut last = (load.so_far(), Instant::now());
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let now = load.so_far();
        if count(&now, SPARE) > count(&last.0, SPARE) {
            last = (now, Instant::now());
        } else if now.ok > last.0.ok + SILENCE && last.1.elapsed() > SILENCE_TIME {
            return Some(last.1);
        }
        thread::sleep(POLL);
    }
    None
}

fn count(stats: &Stats, pod: &str) -> u64 {
    stats.servers.get(pod).copied().unwrap_or(0)
}
