//! What the iptables mode says where it cannot: one sentence and exit code 1 at the start, another try later on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{Node, one_sentence};
use crate::common::{Outcome, has_program, skipped};

/// Where the programs are on most systems, whatever `PATH` says.
const SYSTEM: &str = "/usr/sbin";

/// Runs portway where [`SYSTEM`] holds these scripts and nothing else; only its own view of the files is changed.
fn with_programs(node: &Node, scripts: &[(&str, &str)], arguments: &str) -> Option<Outcome> {
    if !has_program("unshare") || !has_program("mount") {
        return skipped("the programs `unshare` and `mount` are not installed");
    }
    let folder = node.place.path("programs");
    fs::create_dir_all(&folder).unwrap();
    for (name, script) in scripts {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let wrapped = format!("mount --bind programs {SYSTEM} && exec \"$0\" \"$@\"");
    let before = ["unshare", "--mount", "sh", "-c", &wrapped];
    Some(node.place.portway_after(&before, arguments))
}

#[test]
fn root_iptables_without_a_program_it_is_refused_in_one_sentence() {
    for node in Node::all() {
        let cases = [
            (node.mode(), format!("`iptables-{}` is not installed", node.variant)),
            ("--mode iptables".to_owned(), "install the package iptables".to_owned()),
        ];
        for (mode, words) in cases {
            for command in ["run", "diff"] {
                let arguments = format!("{command} --from manifests {mode}");
                let Some(said) = with_programs(&node, &[], &arguments) else { return };
                one_sentence(&said);
                said.refused(1, &[&words]);
            }
        }
    }
}

#[test]
fn root_iptables_a_program_that_is_too_old_is_refused_in_one_sentence() {
    let Some(node) = Node::all().pop() else { return };
    let version = "echo 'iptables v1.4.21'";
    let scripts = [("iptables", version), ("iptables-save", "exit 1"), ("iptables-restore", "exit 1")];
    for mode in ["--mode iptables", "--mode iptables --iptables-program legacy"] {
        let arguments = format!("run --from manifests {mode}");
        let Some(said) = with_programs(&node, &scripts, &arguments) else { return };
        one_sentence(&said);
        said.refused(1, &["1.4.21", "1.6.2", "install a newer one"]);
    }
}

#[test]
fn root_iptables_a_kernel_without_the_modules_is_told_in_one_sentence() {
    let Some(node) = Node::all().pop() else { return };
    let fails =
        "echo \"iptables: can't initialize: Table does not exist (do you need to insmod?)\" >&2; exit 3";
    let scripts = [
        "iptables-legacy-save",
        "iptables-legacy-restore",
        "ip6tables-legacy-save",
        "ip6tables-legacy-restore",
    ];
    let arguments = "run --from manifests --mode iptables --iptables-program legacy";
    let Some(said) = with_programs(&node, &scripts.map(|name| (name, fails)), arguments) else { return };
    one_sentence(&said);
    said.refused(1, &["this kernel lacks", "load the modules"]);
}

#[test]
fn root_iptables_without_privilege_it_is_refused_in_one_sentence() {
    for node in Node::all() {
        if !has_program("setpriv") {
            return skipped("the program `setpriv` is not installed").unwrap_or_default();
        }
        let said = node.place.without_privilege(&format!("run {}", node.mode()));
        one_sentence(&said);
        said.refused(1, &["CAP_NET_ADMIN", "run as root"]);
        assert!(!node.place.socket().exists());
        assert!(!node.has("KUBE"));
    }
}

/// What the user saw: stale rules of upstream's served yesterday's endpoints, while everything was green.
#[test]
fn root_iptables_beside_legacy_rules_of_upstreams_that_it_may_not_touch_it_does_not_start() {
    let Some(node) = Node::all().into_iter().find(|node| node.variant == "legacy") else { return };
    if !has_program("setpriv") {
        return skipped("the program `setpriv` is not installed").unwrap_or_default();
    }
    let without = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--"];
    node.iptables("-t nat -N KUBE-SERVICES");
    let said = node.place.portway_after(&without, "run --from manifests --mode iptables");
    one_sentence(&said);
    said.refused(1, &["tables of iptables-legacy", "CAP_NET_RAW", "--iptables-program"]);
    assert_eq!(node.place.nft("list tables"), "", "nothing was written");
}

/// The lock is a file of this test's own: the one of the machine is left alone.
#[test]
fn root_iptables_a_lock_that_is_held_for_long_is_told_and_waited_for() {
    let Some(node) = Node::all().into_iter().find(|node| node.variant == "legacy") else { return };
    let lock = fs::File::create(node.place.path("xtables.lock")).unwrap();
    lock.lock().unwrap();
    let running = node.start("");
    node.until("it is told", || running.logged("another program holds the lock") > 0);
    let file = node.place.path("xtables.lock").display().to_string();
    assert!(running.logged(&format!("`fuser -v {file}` tells who")) > 0, "it names the file that is locked");
    assert_eq!(running.logged("last good rules"), 0, "there are none");
    assert_eq!(node.status()["isInSync"], false);
    assert!(!node.has("KUBE"), "nothing is half written: {}", node.saved());
    drop(lock);
    node.until("it goes on", || node.has("10.244.0.2:8080"));
    node.until("it says so", || node.status()["isInSync"] == true);
    // The same while it runs.
    let lock = fs::File::open(node.place.path("xtables.lock")).unwrap();
    lock.lock().unwrap();
    let saved = node.saved();
    node.place.write("web.yaml", &super::WEB.replace("10.244.0.2", "10.244.0.77"));
    node.until("it is told again", || node.status()["failures"]["inARow"] != 0);
    assert_eq!(node.saved(), saved);
    drop(lock);
    node.until("it is written", || node.has("10.244.0.77:8080") && !node.has("10.244.0.2:8080"));
}
