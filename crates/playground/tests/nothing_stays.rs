//! Nothing of a playground stays behind, and the machine's own network never changes.
//!
//! In a file, and so a process, of its own: what it looks at is the whole machine.

#![expect(clippy::unwrap_used, reason = "in the helpers of tests a panic is the report")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kernel::host;
use playground::{Family, Options, Playground, available, tcp};

/// Tells this program, started by itself, to build a playground and wait to be killed.
const VICTIM: &str = "PORTWAY_PLAYGROUND_VICTIM";

/// The machine's own links, addresses and routes, and its named namespaces.
fn machine() -> String {
    let mut text = String::new();
    for line in host::links().unwrap() {
        writeln!(text, "{line:?}").unwrap();
    }
    for line in host::addresses().unwrap() {
        writeln!(text, "{line:?}").unwrap();
    }
    for line in host::routes().unwrap() {
        writeln!(text, "{line:?}").unwrap();
    }
    let named =
        fs::read_dir("/run/netns").map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    writeln!(text, "{:?}", named.unwrap_or_else(|_| BTreeSet::new())).unwrap();
    text
}

/// Processes whose environment carries the mark of the victim.
fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let marked = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    marked.map(|process| process.display().to_string()).collect()
}

/// Holders of these namespaces: threads inside, open files, mounts.
fn holders(ids: &BTreeSet<String>) -> Vec<String> {
    let links =
        |folder: String| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().display().to_string());
    let paths = processes.flat_map(|process| {
        let threads = links(format!("{process}/task")).map(|thread| thread.join("ns/net"));
        links(format!("{process}/fd")).chain(threads).collect::<Vec<_>>()
    });
    let mut held: Vec<_> = paths
        .filter(|path| fs::read_link(path).is_ok_and(|target| ids.contains(&target.display().to_string())))
        .map(|path| path.display().to_string())
        .collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    held.extend(
        mounts.lines().filter(|line| ids.iter().any(|id| line.contains(id.as_str()))).map(String::from),
    );
    held
}

/// Whether a condition comes true while there is time.
fn soon(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn start_victim(mark: &str) -> (Child, BTreeSet<String>) {
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["victim_waits_to_be_killed", "--exact", "--nocapture"]).env(name, value);
    let mut victim = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ids = lines.skip_while(|line| !line.starts_with("net:")).take_while(|line| line != "ready").collect();
    (victim, ids)
}

/// Not a test: the process that dies, when `root_a_killed_run_leaves_nothing` starts it.
#[test]
fn victim_waits_to_be_killed() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let playground = Playground::new(&Options::default()).unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let _proxy = playground.node("a").spawn(sleep).unwrap();
    println!();
    for place in playground.places() {
        println!("net:[{}]", place.namespace().id().unwrap());
    }
    println!("ready");
    std::thread::sleep(Duration::from_secs(100));
}

#[test]
fn root_a_killed_run_leaves_nothing_and_the_machine_is_untouched() {
    if !available("root_a_killed_run_leaves_nothing") {
        return;
    }
    let before = machine();
    let playground = Playground::new(&Options::default()).unwrap();
    assert!(tcp(playground.outside(), playground.place("web-a-0").at(Family::V4, 8080)).is_answered());
    assert_eq!(machine(), before, "while a playground exists");
    drop(playground);

    let mark = format!("{VICTIM}={}", std::process::id());
    let (mut victim, ids) = start_victim(&mark);
    assert_eq!(ids.len(), 12, "{ids:?}");
    // A program that is just being started has no environment yet.
    assert!(soon(|| marked(&mark).len() == 2), "the victim and its `sleep`: {:?}", marked(&mark));
    assert!(holders(&ids).len() >= ids.len());
    assert_eq!(machine(), before, "while a victim runs");

    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(soon(|| marked(&mark).is_empty()), "{:?}", marked(&mark));
    assert!(soon(|| holders(&ids).is_empty()), "{:?}", holders(&ids));
    assert_eq!(machine(), before, "after a victim was killed");
}
