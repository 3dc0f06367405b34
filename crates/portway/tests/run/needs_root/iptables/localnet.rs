//! `--iptables-localhost-nodeports`: `route_localnet` is set while the guard is in force, and not longer than it is asked for.

use std::fs;

use super::{Node, one_sentence};

const OPTION: &str = "--iptables-localhost-nodeports";
const FILE: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";
/// The rule that keeps neighbours out; the programs print it so.
const GUARD: &str = "--comment \"block incoming localnet connections\"";

impl Node {
    fn is_open(&self) -> bool {
        self.place.inside(|| fs::read_to_string(FILE)).unwrap().trim() == "1"
    }

    fn stop_after_sync(&self, arguments: &str) {
        let mut running = self.start(arguments);
        running.wait_for("portway is in sync");
        assert_eq!(running.terminate(), Some(0));
    }
}

#[test]
fn root_iptables_a_start_that_is_refused_does_not_open_loopback_to_neighbours() {
    for node in Node::all() {
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        let mode = node.mode();
        let said = node.place.portway_from(&format!("run {mode} {OPTION}"));
        one_sentence(&said);
        said.refused(1, &["another portway runs"]);
        running.terminate();
        fs::write(node.place.path("file"), "").unwrap();
        let bad = node.place.portway_from(&format!("run {mode} {OPTION} --run-dir file/run"));
        bad.refused(1, &["--run-dir"]);
        assert!(!node.is_open() && !node.has(GUARD), "{}", node.saved());
    }
}

#[test]
fn root_iptables_loopback_stays_closed_while_the_guard_cannot_be_written() {
    let Some(node) = Node::all().into_iter().find(|node| node.variant == "legacy") else { return };
    let lock = fs::File::create(node.place.path("xtables.lock")).unwrap();
    lock.lock().unwrap();
    let mut running = node.start(OPTION);
    node.until("it is told", || running.logged("another program holds the lock") > 0);
    assert!(!node.is_open());
    running.kill();
    drop(lock);
    assert!(!node.is_open() && !node.has("KUBE"));
}

#[test]
fn root_iptables_loopback_that_upstream_opened_is_told_and_left_alone() {
    let Some(node) = Node::all().pop() else { return };
    node.place.inside(|| fs::write(FILE, "1")).unwrap();
    let mut running = node.start("");
    running.wait_for_log("route_localnet is 1, as upstream's iptables mode sets it");
    assert!(node.status()["beside"]["stays"].to_string().contains("sysctl -w"));
    assert_eq!(running.terminate(), Some(0));
    assert!(node.is_open(), "it may be somebody else's");
}

#[test]
fn root_iptables_loopback_is_closed_again_without_the_option_and_by_cleanup() {
    for node in Node::all() {
        node.stop_after_sync(OPTION);
        assert!(node.is_open() && node.has(GUARD), "{}", node.saved());
        node.stop_after_sync(OPTION);
        assert!(node.is_open());
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        running.wait_for_log("is 0 again");
        assert!(!node.is_open());
        running.terminate();
        for mode in ["nftables", "iptables"] {
            node.stop_after_sync(OPTION);
            assert!(node.is_open());
            let said = node.place.portway(&format!("cleanup --mode {mode}"));
            said.says(&["route_localnet", "is 0 again", "KUBE-FIREWALL stays"]);
            assert!(!node.is_open());
            let again = node.place.portway(&format!("cleanup --mode {mode}")).to_string();
            assert!(!again.contains("route_localnet"), "it is told once: {again}");
        }
        // Who set it before us has reasons.
        node.place.inside(|| fs::write(FILE, "1")).unwrap();
        node.stop_after_sync(OPTION);
        node.stop_after_sync("");
        assert!(node.is_open());
    }
}

#[test]
fn root_iptables_rules_of_others_stay_in_kubelets_chain_and_the_guard_comes_before_them() {
    for node in Node::all() {
        for step in ["-N KUBE-FIREWALL", "-A KUBE-FIREWALL -s 192.0.2.0/24 -j ACCEPT"] {
            drop(node.iptables(step));
        }
        let rules = || -> Vec<String> {
            let all = node.iptables("-S KUBE-FIREWALL");
            all.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect()
        };
        let theirs = rules();
        for _ in 0..2 {
            node.stop_after_sync(OPTION);
            let found = rules();
            assert!(found.len() == 2 && found[0].contains(GUARD), "{found:#?}");
            assert_eq!(found[1..], theirs);
        }
        node.place.portway("cleanup --mode iptables");
        assert_eq!(rules()[1..], theirs);
    }
}
