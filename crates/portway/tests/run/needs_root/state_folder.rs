//! A state folder that is full, or read-only: only Services that need a new address wait.

use std::fs;
use std::path::PathBuf;

use super::{WEB, place};
use crate::common::{Place, Running, has_program, skipped};

/// One Service whose allocations need more than what is left of a page: tmpfs counts room in pages.
fn greedy() -> String {
    let ports: Vec<String> = (1..=90).map(|n| format!("{{ name: p{n}, port: {n} }}")).collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: greedy }}\nspec:\n  type: NodePort\n  ports: [{}]\n",
        ports.join(", ")
    )
}

fn furnished() -> Option<Place> {
    if !has_program("unshare") || !has_program("mount") {
        return skipped("the programs `unshare` and `mount` are not installed");
    }
    let place = place()?;
    fs::create_dir_all(place.path("state")).unwrap();
    Some(place)
}

/// Starts `portway run` in a mount namespace of its own, after this command.
fn start_after(place: &Place, mount: &str) -> Running {
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    place.start_after(&["unshare", "--mount", "--propagation", "private", "sh", "-c", &script])
}

fn endpoints_go_on(place: &Place, endpoint: &str) {
    place.write("web.yaml", &WEB.replace("10.244.0.2", endpoint));
    place.until("the new endpoint of another Service is there", || {
        place.nft("list table ip kube-proxy").contains(endpoint)
    });
}

#[test]
fn root_a_full_state_folder_stops_only_the_service_that_wants_an_address() {
    let Some(place) = furnished() else { return };
    let running = start_after(&place, "mount -t tmpfs -o size=64k tmpfs state");
    running.wait_for("portway is in sync");
    let seen = format!("/proc/{}/root", running.pid());
    let filler = PathBuf::from(seen + &place.path("state/filler").display().to_string());
    // It ends with "no space left on device".
    fs::write(&filler, vec![0; 128 << 10]).unwrap_err();
    place.write("greedy.yaml", &greedy());
    let line = running.wait_for_log("wait for a new address or port");
    assert!(line.contains("default/greedy") && line.contains("make room on the disk"), "{line}");
    endpoints_go_on(&place, "10.244.0.77");
    let status = place.portway("status").ends_with(1);
    status.says(&["default/greedy needs a new address or port"]);
    place.portway("check").ends_with(1).says(&["Service default/greedy", "waits until"]);
    fs::remove_file(&filler).unwrap();
    running.wait_for_log("the state folder can be written again");
    place.until("it has its addresses", || {
        let status = place.portway("status");
        status.has_ended_with(0) && status.says_anything_of("with 91 service ports")
    });
}

#[test]
fn root_an_empty_state_folder_that_cannot_be_written_stops_no_start_and_its_services_are_named() {
    let Some(place) = furnished() else { return };
    let mut running = place.start();
    running.wait_for("portway is in sync");
    assert_eq!(running.terminate(), Some(0));
    // What the previous process wrote down is not there, as where the volume is not mounted.
    let running = start_after(&place, "mount -t tmpfs -o ro tmpfs state");
    running.wait_for("portway is in sync");
    let line = running.wait_for_log("wait for a new address or port");
    assert!(line.contains("default/web") && line.contains("Read-only file system"), "{line}");
    place.portway("status").ends_with(1).says(&["default/web needs a new address or port"]);
    assert!(place.nft("list table ip kube-proxy").contains("10.96.0.80"), "its rules stay");
}

#[test]
fn root_a_read_only_state_folder_that_holds_all_allocations_does_not_stop_the_start() {
    let Some(place) = furnished() else { return };
    let mut running = place.start();
    running.wait_for("portway is in sync");
    assert_eq!(running.terminate(), Some(0));
    let rules = place.nft("list ruleset");
    let running = start_after(&place, "mount --bind state state && mount -o remount,bind,ro state");
    running.wait_for("portway is in sync: 1 service ports, 0 operations");
    assert_eq!(place.nft("list ruleset"), rules);
    place.write("more.yaml", &WEB.replace("web", "more").replace("clusterIP: 10.96.0.80", "type: ClusterIP"));
    let line = running.wait_for_log("wait for a new address or port");
    assert!(line.contains("default/more") && line.contains("Read-only file system"), "{line}");
    endpoints_go_on(&place, "10.244.0.77");
}
