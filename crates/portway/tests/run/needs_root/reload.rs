//! SIGHUP: files are read again, and nothing ends, whenever it comes.
//!
//! Changes of files are followed anyway. To tell a reload from that, a file is changed through a second name of it in a folder which
//! nobody watches.

use std::fs;
use std::io::Write as _;

use super::{WEB, place};
use crate::common::{Place, Running, has_program, skipped};

const DOCUMENT: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
";

/// Gives a file a second name in a folder of its own.
fn second_name(place: &Place, file: &str) -> std::path::PathBuf {
    let folder = place.path("unwatched");
    fs::create_dir_all(&folder).unwrap();
    let second = folder.join("file");
    fs::hard_link(place.path(file), &second).unwrap();
    second
}

fn has_rule(place: &Place, words: &str) -> bool {
    place.nft("list table ip kube-proxy").contains(words)
}

/// What the user saw: `systemctl reload`, or the end of a terminal, ended the process without a word.
#[test]
fn root_sighup_reads_the_manifests_again_and_ends_nothing() {
    let Some(place) = place() else { return };
    let unwatched = second_name(&place, "manifests/web.yaml");
    let mut running = place.start();
    running.wait_for("portway is in sync");
    fs::write(unwatched, WEB.replace("10.244.0.2", "10.244.0.77")).unwrap();
    running.signal("HUP");
    running.wait_for_log("SIGHUP: reading the manifests again");
    running.wait_for_log("read the manifests again changes=1 problems=0");
    place.until("the change is written", || has_rule(&place, "10.244.0.77"));
    // Changes are followed as before.
    place.write("web.yaml", WEB);
    place.until("the next change is written", || !has_rule(&place, "10.244.0.77"));
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn root_sighup_reads_the_config_file_again_and_says_what_became_of_it() {
    let Some(place) = place() else { return };
    fs::write(place.path("config.conf"), DOCUMENT).unwrap();
    let unwatched = second_name(&place, "config.conf");
    let running = place.start_with("--config config.conf");
    running.wait_for("portway is in sync");
    running.signal("HUP");
    running.wait_for_log("SIGHUP: reading the manifests and the config file again");
    running.wait_for_log("info: the config file has not changed");
    fs::write(&unwatched, format!("{DOCUMENT}logging: {{ verbosity: 4 }}\n")).unwrap();
    running.signal("HUP");
    running.wait_for_log("the config file has changed; in force now: `logging.verbosity`");
    fs::write(&unwatched, "mode: [").unwrap();
    running.signal("HUP");
    running.wait_for_log("the config file has changed and cannot be used, so all stays as it was");
    running.signal("HUP");
    running.wait_for_log("the config file still cannot be used, so all stays as it was");
    assert!(place.portway("status").fine().contains("Config:"), "the status tells it, too");
}

/// The file of `--config` is a pipe, which holds the start up for as long as the test wants, before anything else is done.
fn start_slowly(place: &Place, start: impl FnOnce() -> Running) -> Running {
    place.tool("mkfifo", "config.conf");
    let running = start();
    let mut pipe = fs::OpenOptions::new().write(true).open(place.path("config.conf")).unwrap();
    running.signal("HUP");
    fs::write(place.path("regular.conf"), DOCUMENT).unwrap();
    fs::rename(place.path("regular.conf"), place.path("config.conf")).unwrap();
    pipe.write_all(DOCUMENT.as_bytes()).unwrap();
    drop(pipe);
    running
}

#[test]
fn root_a_sighup_during_the_start_ends_nothing() {
    let Some(place) = place() else { return };
    if !has_program("mkfifo") {
        return skipped("the program `mkfifo` is not installed").unwrap_or_default();
    }
    let running = start_slowly(&place, || place.start_with("--config config.conf"));
    running.wait_for("portway is in sync");
    running.wait_for_log("SIGHUP: reading the manifests and the config file again");
    drop(running);
    fs::remove_file(place.path("config.conf")).unwrap();
    let flags = "--config=config.conf --master=http://192.0.2.1:1 --hostname-override=a --take-over";
    let mut kube_proxy = start_slowly(&place, || place.start_kube_proxy(flags));
    kube_proxy.wait_for_log("SIGHUP: reading the config file again; the API server is watched");
    assert!(kube_proxy.is_running());
}

#[test]
fn root_a_sighup_while_it_waits_for_its_turn_ends_nothing() {
    let Some(place) = place() else { return };
    let mut old = place.start();
    old.wait_for("portway is in sync");
    let new = place.start_with("--take-over");
    new.wait_for("portway is in sync");
    old.wait_for_log("standing by");
    old.signal("HUP");
    let mut third = place.start_with("--stand-by");
    third.wait_for_log("standing by");
    third.signal("HUP");
    drop(new);
    // One of them goes on, and finds that it was asked to reload.
    place.until("one of them reads its files again", || {
        old.logged("SIGHUP: reading the manifests again")
            + third.logged("SIGHUP: reading the manifests again")
            > 0
    });
    assert!(old.is_running() && third.is_running());
}

/// After the end of a terminal there is no place for the log either.
#[test]
fn root_the_end_of_its_terminal_ends_nothing() {
    let Some(place) = place() else { return };
    let mut running = place.start_unread();
    place.until("it is in sync", || place.portway("status").has_ended_with(0));
    running.signal("HUP");
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("the change is written", || has_rule(&place, "10.244.0.77"));
    assert!(running.is_running());
}
