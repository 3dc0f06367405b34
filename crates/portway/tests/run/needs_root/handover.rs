//! Two portways on one node: refused, handed over, standing by.

use super::{WEB, place};
use crate::common::{Place, Running};

fn holder(place: &Place) -> Option<String> {
    let status = place.portway("status -o json");
    status.has_ended_with(0).then(|| status.json()["pid"].to_string())
}

fn wait_for_holder(place: &Place, running: &Running) {
    place.until("it holds the node", || holder(place) == Some(running.pid()));
}

#[test]
fn root_taking_over_changes_no_rule_and_the_old_one_stands_by() {
    let Some(place) = place() else { return };
    let mut old = place.start();
    old.wait_for("portway is in sync");
    let (rules, generation) = (place.nft("list ruleset"), place.generation());
    let mut new = place.start_with("--take-over");
    new.wait_for("portway is in sync: 1 service ports, 0 operations");
    assert_eq!((place.nft("list ruleset"), place.generation()), (rules, generation));
    old.wait_for_log("another portway goes on in our place");
    old.wait_for_log("standing by");
    assert!(old.is_running(), "a supervisor would start it again");
    wait_for_holder(&place, &new);
    // The new one is the only one that writes.
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("it is written", || place.nft("list table ip kube-proxy").contains("10.244.0.77"));
    assert_eq!(old.terminate(), Some(0));
    wait_for_holder(&place, &new);
    assert_eq!(new.terminate(), Some(0));
}

#[test]
fn root_the_old_one_goes_on_when_the_new_one_dies() {
    let Some(place) = place() else { return };
    let old = place.start();
    old.wait_for("portway is in sync");
    let mut new = place.start_with("--take-over");
    new.wait_for("portway is in sync");
    old.wait_for_log("standing by");
    new.kill();
    wait_for_holder(&place, &old);
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("it is written", || place.nft("list table ip kube-proxy").contains("10.244.0.77"));
}

#[test]
fn root_taking_over_works_from_another_folder_and_again_and_again() {
    let Some(place) = place() else { return };
    let mut running = vec![place.start()];
    running[0].wait_for("portway is in sync");
    for turn in 1..6 {
        let folders = format!("--take-over --run-dir run-{turn} --state-dir state-{turn}");
        let next = place.start_with(&folders);
        next.wait_for("portway is in sync: 1 service ports, 0 operations");
        running.push(next);
    }
    assert_eq!(running[0].logged("another portway goes on in our place"), 1);
}

#[test]
fn root_taking_over_from_nobody_is_an_ordinary_start() {
    let Some(place) = place() else { return };
    let running = place.start_with("--take-over");
    running.wait_for("portway is in sync");
    wait_for_holder(&place, &running);
}

#[test]
fn root_a_second_one_can_wait_for_the_end_of_the_first() {
    let Some(place) = place() else { return };
    let mut first = place.start();
    first.wait_for("portway is in sync");
    let mut second = place.start_with("--stand-by");
    second.wait_for_log("standing by");
    assert_eq!(first.terminate(), Some(0));
    second.wait_for("portway is in sync");
    wait_for_holder(&place, &second);
    let mut third = place.start_with("--stand-by");
    third.wait_for_log("standing by");
    assert_eq!(third.terminate(), Some(0), "standing by ends when it is told to");
    assert!(second.is_running());
}

#[test]
fn root_whoever_knocks_without_a_wish_changes_nothing() {
    use std::io::{Read as _, Write as _};
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    let answers = place.inside(|| {
        let name = SocketAddr::from_abstract_name("portway/kube-proxy").unwrap();
        [&b"hand it over\n"[..], b"", &[0xff; 300]].map(|said| {
            let mut stream = UnixStream::connect_addr(&name).unwrap();
            // It may be sent away before it has said all.
            let _ = stream.write_all(said);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        })
    });
    assert!(answers.iter().all(|answer| !answer.is_empty()), "{answers:?}");
    wait_for_holder(&place, &running);
}

/// A throttled container: the old one lets go while the new one cannot run. It is given time, and the node ends up with it.
#[test]
fn root_a_hand_over_to_one_that_is_slow_is_not_lost() {
    let Some(place) = place() else { return };
    let old = place.start();
    old.wait_for("portway is in sync");
    old.signal("STOP");
    let new = place.start_with("--take-over");
    new.wait_for_log("asking for its place");
    new.signal("STOP");
    old.signal("CONT");
    old.wait_for_log("another portway goes on in our place");
    place.until("nobody holds the node", || holder(&place).is_none());
    new.signal("CONT");
    new.wait_for("portway is in sync");
    wait_for_holder(&place, &new);
    assert_eq!(old.logged("portway is in sync"), 0, "the old one stands by");
}

#[test]
fn root_taking_over_can_be_told_to_end() {
    let Some(place) = place() else { return };
    let old = place.start();
    old.wait_for("portway is in sync");
    old.signal("STOP");
    let mut new = place.start_with("--take-over");
    new.wait_for_log("asking for its place");
    assert_eq!(new.terminate(), Some(0));
    old.signal("CONT");
    place.until("somebody serves", || holder(&place).is_some());
}
