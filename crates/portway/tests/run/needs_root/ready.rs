//! The readiness probe: true only where the rules of the very process that is asked about are in force.

use std::time::{Duration, Instant};
use std::{fs, thread};

use playground::patient;

use super::{WEB, place};
use crate::common::{Place, Running, has_program, skipped};

const PROBE: &str = "status --ready";
/// The program waits 5 s for the lock, in each family.
const LOCK_LIMIT: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(100);

fn is_ready(place: &Place, process: &Running) -> bool {
    place.portway(&format!("{PROBE} --pid {}", process.pid())).has_ended_with(0)
}

/// What the user saw: with `maxSurge: 1` two pods share port 10256, so an HTTP probe of the new pod is answered by the old one.
#[test]
fn root_in_a_rolling_update_a_pod_is_ready_only_while_its_own_rules_are_in_force() {
    if !["unshare", "nsenter"].into_iter().all(has_program) {
        return skipped("the program `unshare` or `nsenter` is not installed").unwrap_or_default();
    }
    let Some(place) = place() else { return };
    let old = place.start_in_container("");
    old.wait_for("portway is in sync");
    place.until("the old one is ready", || place.portway_in_container(&old, PROBE).has_ended_with(0));
    let said = place.portway_in_container(&old, PROBE).fine();
    assert_eq!(said, "portway is ready: its rules are in force\n");
    // It waits for its turn, beside one that serves.
    let waiting = place.start_in_container("--stand-by");
    waiting.wait_for_log("standing by");
    let words = ["not ready: a portway in another container answers", "stands by"];
    place.portway_in_container(&waiting, PROBE).refused(1, &words);
    drop(waiting);
    let mut new = place.start_in_container("--take-over");
    new.wait_for("portway is in sync");
    place.until("the new one is ready", || place.portway_in_container(&new, PROBE).has_ended_with(0));
    place.portway_in_container(&old, PROBE).refused(1, &words);
    new.kill();
    place.until("the old one is ready again", || place.portway_in_container(&old, PROBE).has_ended_with(0));
}

/// What the user saw: a broken image rolled over the whole fleet, since nothing told that it wrote no rules.
#[test]
fn root_a_portway_that_cannot_write_its_rules_never_becomes_ready() {
    let Some(place) = place() else { return };
    if !has_program("iptables-legacy-restore") {
        return skipped("the program `iptables-legacy-restore` is not installed").unwrap_or_default();
    }
    let old = place.start();
    place.until("the old one is ready", || is_ready(&place, &old));
    // It opens everything and takes over, and then none of its writes succeeds.
    let lock = fs::File::create(place.path("xtables.lock")).unwrap();
    lock.lock().unwrap();
    let new = place.start_with("--take-over --mode iptables --iptables-program legacy");
    let words = ["not ready: ", "another program holds the lock"];
    let begun = Instant::now();
    loop {
        let said = place.portway(&format!("{PROBE} --pid {}", new.pid()));
        if said.err.contains(words[1]) {
            said.refused(1, &words);
            break;
        }
        assert!(begun.elapsed() < patient(LOCK_LIMIT), "{said}");
        thread::sleep(POLL);
    }
    let words = [format!("not ready: process {} answers", new.pid()), format!("not process {}", old.pid())];
    let said = place.portway(&format!("{PROBE} --pid {}", old.pid()));
    said.refused(1, &[&words[0], &words[1], "stands by"]);
    drop(lock);
    place.until("it is ready once it has written them", || is_ready(&place, &new));
}

/// An image that cannot even start never takes over, so the old pod goes on and stays ready.
#[test]
fn root_a_portway_without_its_capabilities_leaves_the_old_one_ready() {
    let Some(place) = place() else { return };
    if !has_program("setpriv") {
        return skipped("the program `setpriv` is not installed").unwrap_or_default();
    }
    let old = place.start();
    place.until("the old one is ready", || is_ready(&place, &old));
    place.without_privilege("run --take-over").refused(1, &["CAP_NET_ADMIN"]);
    assert!(is_ready(&place, &old));
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("it still writes", || place.nft("list table ip kube-proxy").contains("10.244.0.77"));
}

#[test]
fn root_without_a_process_the_probe_says_that_none_answers() {
    let Some(place) = place() else { return };
    place.portway(PROBE).refused(1, &["not ready: no portway answers at run/portway.sock"]);
    let mut running = place.start();
    place.until("it is ready", || place.portway(PROBE).has_ended_with(0));
    // The file of its socket stays, as after any crash.
    running.kill();
    place.portway(PROBE).refused(1, &["not ready: no portway answers at run/portway.sock"]);
}
