//! What `cleanup` says where chains of the iptables mode stay: what is true, and the way out.

use std::fs;

use super::Node;
use crate::common::{Outcome, has_program, skipped};

/// Rules are there, and no portway runs.
fn written() -> Vec<Node> {
    let nodes = Node::all();
    for node in &nodes {
        let mut running = node.start("");
        running.wait_for("portway is in sync");
        running.terminate();
    }
    nodes
}

/// It ended with 1, removed nothing, and said so with these words and none that are true of a take-over only.
#[track_caller]
fn removed_nothing(node: &Node, saved: &str, said: Outcome, words: &[&str]) {
    let said = said.ends_with(1);
    said.says(&["Nothing was removed."]);
    for word in words {
        assert!(said.err.contains(word), "no {word:?} in {said}");
    }
    for word in ["chains of upstream's", "in force", "restart portway"] {
        assert!(!said.err.contains(word), "{word:?} is not true in {said}");
    }
    assert_eq!(node.saved(), saved);
}

#[test]
fn root_iptables_cleanup_without_a_mode_tells_of_chains_that_stay() {
    for node in written() {
        let saved = node.saved();
        let said = node.place.portway("cleanup").ends_with(1);
        said.says(&["No table of portway is in this kernel."]);
        for word in
            [&*format!("iptables-{}, IPv4", node.variant), "`portway cleanup --mode iptables` removes them"]
        {
            assert!(said.err.contains(word), "no {word:?} in {said}");
        }
        assert_eq!(node.saved(), saved);
        node.place.portway("cleanup --mode nftables").fine();
        node.place.portway("cleanup --mode iptables").fine();
        assert_eq!(node.place.portway("cleanup").fine(), "No table of portway is in this kernel.\n");
    }
}

#[test]
fn root_iptables_cleanup_while_the_lock_is_held_does_not_say_that_nothing_is_there() {
    let Some(node) = written().into_iter().find(|node| node.variant == "legacy") else { return };
    let (saved, lock) = (node.saved(), fs::File::open(node.place.path("xtables.lock")).unwrap());
    lock.lock().unwrap();
    let said = node.place.portway("cleanup --mode iptables");
    drop(lock);
    removed_nothing(&node, &saved, said, &["another program holds the lock"]);
}

#[test]
fn root_iptables_cleanup_without_privilege_does_not_say_that_nothing_is_there() {
    if !has_program("setpriv") {
        return skipped("the program `setpriv` is not installed").unwrap_or_default();
    }
    for node in written() {
        let without = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", "--"];
        let said = node.place.portway_after(&without, "cleanup --mode iptables");
        removed_nothing(&node, &node.saved(), said, &["run as root"]);
    }
}
