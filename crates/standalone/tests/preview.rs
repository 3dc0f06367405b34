//! What commands that only read show of addresses: what is remembered, and what a later run would give; the store stays as it is.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use common::*;
use serde_json::Value;
use standalone::objects::Change;

const PORT: &str = "/spec/ports/0/nodePort";
const IP: &str = "/spec/clusterIP";

/// Every file of a folder with its content and the time of its last change.
fn listing(dir: &Path) -> BTreeSet<(String, SystemTime, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let files = entries.map(|entry| {
        let (name, found) = (entry.file_name().into_string().unwrap(), entry.metadata().unwrap());
        (name, found.modified().unwrap(), fs::read(entry.path()).unwrap())
    });
    files.chain([(".".to_owned(), fs::metadata(dir).unwrap().modified().unwrap(), Vec::new())]).collect()
}

fn previewed(folder: &Folder, changes: &[Change]) -> Cluster {
    let mut cluster = folder.open_dry();
    cluster.apply(changes);
    cluster
}

fn real() -> [Change; 2] {
    [
        service("web", "type: NodePort, clusterIP: 10.96.0.42, ports: [{port: 80, nodePort: 30080}]"),
        service("dns", "type: NodePort, ports: [{port: 53}]"),
    ]
}

/// Others that wish for what the real ones have, and others that wish for nothing.
fn of_other_files() -> [Change; 3] {
    [
        service("thief", "type: NodePort, clusterIP: 10.96.0.42, ports: [{port: 80, nodePort: 30080}]"),
        service("other", "type: NodePort, ports: [{port: 80}]"),
        service("third", "type: NodePort, ports: [{port: 81}]"),
    ]
}

#[test]
fn a_query_of_other_files_frees_no_node_port_and_no_address_of_the_real_ones() {
    let folder = Folder::new();
    let cluster = folder.with(&real());
    let held =
        |cluster: &Cluster| ["web", "dns"].map(|name| (cluster.field(name, IP), cluster.field(name, PORT)));
    let (before, files) = (held(&cluster), listing(&folder.path()));
    // While the daemon runs, and after its end.
    let running = previewed(&folder, &of_other_files());
    drop(cluster);
    let stopped = previewed(&folder, &of_other_files());
    assert_eq!(listing(&folder.path()), files);
    for cluster in [running, stopped] {
        for name in ["thief", "other", "third"] {
            let (ip, port) = (cluster.field(name, IP), cluster.field(name, PORT));
            assert!(
                before.iter().all(|held| held.0 != ip && held.1 != port),
                "{name} is shown with {ip} and {port}"
            );
        }
        assert_reported(
            &cluster,
            &["default/thief", "`10.96.0.42`", "default/web, which is not in these manifests"],
        );
        assert_reported(&cluster, &["default/thief", "`30080`", "`portway run`"]);
    }
    assert_eq!(held(&folder.with(&real())), before);
}

#[test]
fn what_a_deleted_service_left_behind_is_shown_as_given_to_the_one_that_names_it() {
    let folder = Folder::new();
    let mut cluster = folder.with(&real());
    cluster.apply(&[gone("web")]);
    drop(cluster);
    let [_, dns] = real();
    let [thief, ..] = of_other_files();
    let shown = previewed(&folder, &[dns, thief]);
    assert_eq!((shown.field("thief", IP), shown.field("thief", PORT)), ("10.96.0.42".into(), "30080".into()));
    assert_eq!(shown.reports(), [""; 0]);
}

#[test]
fn a_preview_waits_for_nobody_who_has_the_lock() {
    let folder = Folder::new();
    let kept = folder.with(&real()).field("dns", PORT);
    let lock = File::open(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let in_use = File::open(folder.path().join("in-use")).unwrap();
    in_use.lock().unwrap();
    // Whoever waited here would wait for this very test, and then give up with an error.
    assert_eq!(previewed(&folder, &real()).field("dns", PORT), kept);
}

#[test]
fn a_preview_works_where_the_folder_cannot_be_read() {
    let folder = Folder::new();
    fs::write(folder.path(), "a file stands here").unwrap();
    let cluster = previewed(&folder, &real());
    assert_eq!(cluster.field("web", IP), "10.96.0.42");
    assert_ne!(cluster.field("dns", PORT), "");
    assert_eq!(fs::read(folder.path()).unwrap(), b"a file stands here");
}

/// Services change at random on a small range, so that wishes collide and values run out.
#[test]
fn what_is_previewed_is_what_is_then_given() {
    const ROUNDS: u64 = 120;
    let (mut compared, mut refused) = (0, 0);
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed * 104_729 + 3);
        let folder = Folder::with_ranges(&["10.96.0.0/28", "fd00:96::/124"], &["192.0.2.0/29"]);
        let present = history(&folder, &mut dice);
        let mut next: Vec<Change> =
            present.iter().map(|name| service(name, &random_spec(&mut dice))).collect();
        next.extend((0..dice.below(4)).map(|n| service(&format!("new{n}"), &random_spec(&mut dice))));
        let mut shown = folder.open_dry();
        shown.apply(&next);
        let mut given = folder.open_at(NOON);
        given.apply(&next);
        assert_eq!(objects(&shown), objects(&given), "seed {seed}");
        assert_eq!(shown.reports(), given.reports(), "seed {seed}");
        compared += next.len();
        refused += given.reports().len();
    }
    assert!(refused > 0, "no wish collided");
    eprintln!("counted: {compared} Services in {ROUNDS} stores, {refused} reports");
}

/// Some Services come, some of them go. Returns those that are still there.
fn history(folder: &Folder, dice: &mut Dice) -> BTreeSet<String> {
    let mut cluster = folder.open_at(NOON);
    let mut present = BTreeSet::new();
    for step in 0..12 {
        cluster.set_now(NOON + step);
        let name = format!("s{}", dice.below(8));
        if dice.below(3) == 0 && present.remove(&name) {
            cluster.apply(&[gone(&name)]);
        } else {
            cluster.apply(&[service(&name, &random_spec(dice))]);
            present.insert(name);
        }
    }
    present
}

fn objects(cluster: &Cluster) -> Vec<Value> {
    cluster.0.objects().values().map(|object| (*object.value).clone()).collect()
}

#[test]
fn a_preview_of_other_files_shows_nothing_that_a_service_of_the_store_has() {
    const ROUNDS: u64 = 80;
    let mut checked = 0;
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed * 7907 + 5);
        let folder = Folder::with_ranges(&["10.96.0.0/28"], &["192.0.2.0/29"]);
        let all: Vec<Change> = (0..5).map(|n| service(&format!("s{n}"), &random_spec(&mut dice))).collect();
        let held = holdings(&folder.with(&all));
        let others: Vec<Change> =
            (0..5).map(|n| service(&format!("t{n}"), &random_spec(&mut dice))).collect();
        let shown = holdings(&previewed(&folder, &others));
        assert_eq!(held.intersection(&shown).count(), 0, "seed {seed}: {held:?} and {shown:?}");
        checked += shown.len();
    }
    eprintln!("counted: {checked} values shown over {ROUNDS} stores");
}

/// All addresses and node ports of Services.
fn holdings(cluster: &Cluster) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    for object in objects(cluster).iter().filter(|object| object["kind"] == "Service") {
        let ips = object["spec"]["clusterIPs"].as_array().into_iter().flatten();
        held.extend(ips.filter_map(Value::as_str).map(str::to_owned));
        let ingress = object["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
        held.extend(ingress.filter_map(|one| one["ip"].as_str()).map(str::to_owned));
        for port in object["spec"]["ports"].as_array().into_iter().flatten() {
            let number = port["nodePort"].as_u64();
            held.extend(
                number.map(|number| format!("{number}/{}", port["protocol"].as_str().unwrap_or("TCP"))),
            );
        }
    }
    held
}
