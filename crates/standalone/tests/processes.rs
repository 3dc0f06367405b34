//! Many processes on one store, and processes that die in the middle.
//!
//! A child is this very test program, told by its environment to play a part. It says on its output what it was given,
//! and stays until its input ends, since what a living process serves may not be taken from it.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a child speaks to its parent")]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::*;
use model::net::parse_cidr;
use model::time::Timestamp;
use standalone::control_plane::ControlPlane;
use standalone::ipam::HostNetwork;

const PART: &str = "PORTWAY_TEST_PART";
const STATE: &str = "PORTWAY_TEST_STATE";
const RANGE: &str = "PORTWAY_TEST_RANGE";
const NUMBER: &str = "PORTWAY_TEST_NUMBER";
const PROCESSES: usize = 20;

/// Not a test by itself: the body of each child. Without its environment there is nothing to do.
#[test]
fn child() {
    let (Ok(part), Ok(number)) = (std::env::var(PART), std::env::var(NUMBER)) else { return };
    let range = parse_cidr(&std::env::var(RANGE).unwrap()).unwrap();
    let options = options(Path::new(&std::env::var(STATE).unwrap()), &[range], &[]);
    let mut cluster =
        Cluster(ControlPlane::open_on(&HostNetwork::default(), options, Timestamp(NOON)).unwrap());
    match part.as_str() {
        "batch" => batch(&mut cluster, &number),
        "hurried" => hurried(&mut cluster, &number),
        other => panic!("no part is called {other}"),
    }
}

/// Five batches of Services of its own, and one Service that all children have.
fn batch(cluster: &mut Cluster, number: &str) {
    cluster.apply(&[service("shared", "type: NodePort, ports: [{port: 80}]")]);
    let names: Vec<String> = (0..5).map(|n| format!("p{number}-{n}")).collect();
    for name in &names {
        cluster.apply(&[service(name, "type: NodePort, ports: [{port: 80}]")]);
    }
    for name in names.iter().map(String::as_str).chain(["shared"]) {
        say(cluster, name);
    }
    println!("done");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // The parent has closed our output: the test harness would fail to write its summary.
    std::process::exit(0);
}

/// One Service after the other, each said as soon as it was given, while the parent makes up its mind to kill us.
fn hurried(cluster: &mut Cluster, number: &str) {
    for n in 0..256 {
        let name = format!("r{number}-{n}");
        // Addresses by wish: a store that forgot them could not find them again by searching.
        let wish = format!("clusterIP: 10.96.{}.{n}", 100 + number.parse::<u8>().unwrap());
        cluster.apply(&[service(&name, &format!("{wish}, type: NodePort, ports: [{{port: 80}}]"))]);
        say(cluster, &name);
    }
}

fn say(cluster: &Cluster, name: &str) {
    let (ip, port) = (cluster.field(name, "/spec/clusterIP"), cluster.field(name, "/spec/ports/0/nodePort"));
    let mut out = std::io::stdout();
    writeln!(out, "given {name} ip={ip} port={port}").unwrap();
    out.flush().unwrap();
}

#[test]
fn twenty_processes_at_once_give_nothing_twice() {
    let said = run_twenty("10.96.0.0/16");
    assert_eq!(said.len(), PROCESSES * 6);
    let mut ips = holders(&said, "ip=");
    assert_eq!(ips.remove(""), None, "everybody got an address");
    assert_eq!(ips.len(), PROCESSES * 5 + 1);
    eprintln!("counted: {} addresses given by {PROCESSES} processes", ips.len());
}

#[test]
fn twenty_processes_at_once_on_a_range_that_is_too_small_give_nothing_twice() {
    let said = run_twenty("10.96.0.0/26");
    let mut ips = holders(&said, "ip=");
    ips.remove("");
    assert_eq!(ips.len(), 62, "all of the range is given, once");
}

#[test]
fn what_was_given_survives_kill_9() {
    let folder = Folder::new();
    let mut said: Vec<String> = Vec::new();
    for round in 0..10 {
        let mut child = spawn("hurried", &folder.path(), "10.96.0.0/16", round);
        let mut lines = given_lines(&mut child);
        said.extend(lines.by_ref().take(5 + round));
        child.kill().unwrap();
        child.wait().unwrap();
        said.extend(lines);
    }
    let ips = holders(&said, "ip=");
    assert_eq!(ips.len(), said.len(), "nothing was given twice");
    let services: Vec<_> =
        ips.values().map(|name| service(name, "type: NodePort, ports: [{port: 80}]")).collect();
    let cluster = folder.with(&services);
    for (ip, name) in ips {
        assert_eq!(
            cluster.field(name, "/spec/clusterIP"),
            ip,
            "{name} was promised its address before the kill"
        );
    }
    eprintln!("counted: {} promises kept over 10 kills", said.len());
}

/// Starts twenty children behind a closed door, opens it, and collects what each was given while all are alive.
fn run_twenty(range: &str) -> Vec<String> {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    let door = File::create(folder.path().join("lock")).unwrap();
    door.lock().unwrap();
    let mut children: Vec<Child> = (0..PROCESSES).map(|n| spawn("batch", &folder.path(), range, n)).collect();
    drop(door);
    let said = children.iter_mut().flat_map(given_lines).collect();
    for mut child in children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    said
}

fn spawn(part: &str, state: &Path, range: &str, number: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .envs([(PART, part), (RANGE, range), (NUMBER, &number.to_string())])
        .env(STATE, state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a child says it was given, up to `done` or its end. A line that its death cut short is no promise.
fn given_lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let mut out: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let lines = std::iter::from_fn(move || {
        let mut line = String::new();
        out.read_line(&mut line).ok()?;
        line.strip_suffix('\n').filter(|line| *line != "done").map(str::to_owned)
    });
    // The test harness writes the test's name in front of the first line.
    lines.filter_map(|line| line.find("given ").map(|at| line[at..].to_owned()))
}

/// Who says to hold what. Panics when two say so.
fn holders<'a>(said: &'a [String], field: &str) -> BTreeMap<&'a str, &'a str> {
    let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
    for line in said {
        let mut words = line.split(' ').skip(1);
        let name = words.next().unwrap();
        let what = words.find_map(|word| word.strip_prefix(field)).unwrap();
        if let Some(other) = holders.insert(what, name) {
            assert!(other == name || what.is_empty(), "{what} was given to {name} and to {other}");
        }
    }
    holders
}
