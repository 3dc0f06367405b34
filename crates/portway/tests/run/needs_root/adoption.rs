//! A fresh process on a kernel that is not empty: leftovers, other layouts, other programs.

use std::io::Write as _;

use super::{WEB, place};
use crate::common::{has_program, skipped};

fn api() -> String {
    WEB.replace("web", "api").replace("10.96.0.80", "10.96.0.90").replace("10.244.0.", "10.244.9.")
}

#[test]
fn root_a_file_that_is_broken_at_the_start_takes_no_service_away() {
    let Some(place) = place() else { return };
    place.write("api.yaml", &api());
    let mut running = place.start();
    running.wait_for("portway is in sync: 2 service ports");
    running.terminate();
    place.write("api.yaml", "kind: [");
    let again = place.start();
    again.wait_for("portway is in sync: 1 service ports");
    let rules = place.nft("list table ip kube-proxy");
    assert!(rules.contains("10.96.0.90") && rules.contains("10.244.9.1"), "{rules}");
    place.portway("status").ends_with(0).says(&["Picture:", "not all files can be read", "api.yaml"]);
    // Nobody knows which addresses are allocated, so none is dropped for not being so: another proxy may serve it.
    assert!(!place.nft("list set ip kube-proxy service-networks").contains("elements"));
    // What is changed in the meantime is followed.
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("it is written", || place.nft("list table ip kube-proxy").contains("10.244.0.77"));
    assert!(place.nft("list table ip kube-proxy").contains("10.96.0.90"));
    // Mended: what it says counts, and what nobody asks for goes.
    place.write("api.yaml", &api().replace("10.96.0.90", "10.96.0.91"));
    place.until("the leftover is gone", || {
        let rules = place.nft("list table ip kube-proxy");
        rules.contains("10.96.0.91") && !rules.contains("10.96.0.90")
    });
    assert!(place.nft("list set ip kube-proxy service-networks").contains("10.96.0.0/12"));
}

#[test]
fn root_a_quoted_port_a_slow_write_and_a_folder_moved_away_take_no_service_away() {
    for mode in ["nftables", "iptables"] {
        if mode == "iptables" && !has_program(mode) {
            return skipped("the program `iptables` is not installed").unwrap_or_default();
        }
        let Some(place) = place() else { return };
        let start = |more: &str| place.start_with(&format!("--mode {mode} {more}"));
        let rules = || match mode {
            "nftables" => place.nft("list table ip kube-proxy"),
            _ => place.tool("iptables-save", "-t nat"),
        };
        let is_served = |ip: &str| rules().contains(ip);
        let mut running = start("");
        running.wait_for("portway is in sync: 1 service ports");
        // What is written to the second file shows that the first was looked at.
        let mark = |number: u8| {
            let ip = format!("10.96.1.{number}");
            place.write("mark.yaml", &WEB.replace("web", "mark").replace("10.96.0.80", &ip));
            place.until("the mark is written", || is_served(&ip));
        };

        place.write("web.yaml", &WEB.replace("port: 80 ", "port: \"80\" "));
        let said = running.wait_for_log("is a quoted number: write 80");
        assert!(said.contains("web.yaml:1: Service default/web: spec.ports[0].port"), "{said}");
        mark(1);
        assert!(is_served("10.96.0.80"), "{mode}: a quoted port");
        let words = ["web.yaml", "is a quoted number: write 80", "its last good version stays in force"];
        place.portway("status").ends_with(0).says(&words);
        place.portway("check").ends_with(1).says(&words);

        running.terminate();
        let mut running = start("");
        running.wait_for("portway is in sync");
        mark(2);
        assert!(is_served("10.96.0.80"), "{mode}: after a restart");
        place.portway("status").ends_with(0).says(&["Service default/web: has a wrong value"]);

        place.write("web.yaml", WEB);
        place.until("all is known", || !place.portway("status").fine().contains("in doubt"));
        let mut writer = std::fs::File::create(place.path("manifests/web.yaml")).unwrap();
        mark(3);
        assert!(is_served("10.96.0.80"), "{mode}: a slow write");
        writer.write_all(WEB.as_bytes()).unwrap();
        drop(writer);

        std::fs::rename(place.path("manifests"), place.path("away")).unwrap();
        running.wait_for_log("manifests: does not exist any more");
        assert!(is_served("10.96.0.80"), "{mode}: the folder was moved away");
        running.terminate();

        std::fs::create_dir(place.path("manifests")).unwrap();
        let mut running = start("");
        running.wait_for("portway is in sync");
        running.wait_for_log("--allow-empty");
        assert!(is_served("10.96.0.80"), "{mode}: an empty folder at the start");
        running.terminate();
        let _running = start("--allow-empty");
        place.until("what is not asked for is gone", || !is_served("10.96.0.80"));
    }
}

#[test]
fn root_another_layout_is_replaced() {
    for layout in ["portway layout 0", "portway layout 2"] {
        let Some(place) = place() else { return };
        place.write(
            "../old.nft",
            &format!("table ip kube-proxy {{ comment \"{layout}\"; chain old {{ }}; }}\n"),
        );
        place.nft("-f old.nft");
        let running = place.start();
        running.wait_for("portway is in sync");
        let line = running.wait_for_log("our rules took the place of");
        assert!(line.contains(layout), "{line}");
        let rules = place.nft("list ruleset");
        assert!(rules.contains("portway layout 1") && !rules.contains(layout), "{rules}");
        assert!(!rules.contains("chain old") && !rules.contains("beside"), "{rules}");
        place.portway("status").ends_with(0).says(&["Took over:", layout]);
    }
}

#[test]
fn root_the_table_of_another_program_stays_while_a_file_is_broken() {
    let Some(place) = place() else { return };
    place.write(
        "../theirs.nft",
        "table ip kube-proxy { comment \"rules for kube-proxy\"; chain services { }; }\n",
    );
    place.nft("-f theirs.nft");
    place.write("api.yaml", "kind: [");
    let running = place.start();
    running.wait_for_log("stays until all sources are read");
    assert!(place.nft("list table ip kube-proxy").contains("chain services"));
    place.write("api.yaml", &api());
    place.until("ours is in place", || place.nft("list table ip kube-proxy").contains("10.96.0.90"));
}

#[test]
fn root_old_leftovers_of_a_crash_go() {
    let Some(place) = place() else { return };
    place.write("../beside.nft", "table ip kube-proxy-beside { comment \"portway layout 1\"; }\n");
    place.nft("-f beside.nft");
    let running = place.start();
    running.wait_for("portway is in sync");
    assert!(!place.nft("list tables").contains("beside"));
}

/// What upstream's kube-proxy does at its start to a table that it finds: its base chains are made anew, the rest stays.
const UPSTREAMS_START: &str = "\
add table ip kube-proxy { comment \"rules for kube-proxy\"; }
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100; }
delete chain ip kube-proxy nat-prerouting
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100; }
add chain ip kube-proxy nat-output { type nat hook output priority -100; }
delete chain ip kube-proxy nat-output
add chain ip kube-proxy nat-output { type nat hook output priority -100; }
add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100; }
delete chain ip kube-proxy nat-postrouting
add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100; }
add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
add chain ip kube-proxy services
add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips
add rule ip kube-proxy nat-prerouting jump services
add rule ip kube-proxy nat-output jump services
";

#[test]
fn root_upstream_takes_our_table_back_and_cleanup_leaves_it() {
    let Some(place) = place() else { return };
    let mut running = place.start();
    running.wait_for("portway is in sync");
    running.terminate();
    place.write("../upstream.nft", UPSTREAMS_START);
    place.nft("-f upstream.nft");
    for chain in ["nat-prerouting", "nat-output", "nat-postrouting"] {
        let rules = place.nft(&format!("list chain ip kube-proxy {chain}"));
        assert!(!rules.contains("route") && !rules.contains("masquerade"), "ours is still in force: {rules}");
    }
    // The table still carries our mark, and is not ours any more.
    place.portway("cleanup").fine();
    assert!(place.nft("list table ip kube-proxy").contains("jump services"));
    // And there again.
    let again = place.start();
    again.wait_for("portway is in sync");
    let rules = place.nft("list table ip kube-proxy");
    assert!(rules.contains("10.96.0.80") && !rules.contains("service-ips"), "{rules}");
}
