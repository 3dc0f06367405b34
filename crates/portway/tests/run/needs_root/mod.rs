//! The tests that need root: others leave them out by this name.

mod adoption;
mod drift;
mod handover;
mod iptables;
mod ipvs;
mod kube_proxy;
mod leftovers;
mod null_mode;
mod primary;
mod read_only_settings;
mod ready;
mod reload;
mod serve;
mod server;
mod state_folder;
mod userspace;

use std::time::Duration;

use crate::common::{Outcome, Place, has_program, skipped};

pub(crate) const WEB: &str = "\
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  clusterIP: 10.96.0.80
  ports: [{ port: 80 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: { name: web-1, labels: { kubernetes.io/service-name: web } }
ports: [{ port: 8080 }]
endpoints: [{ addresses: [10.244.0.1] }, { addresses: [10.244.0.2] }]
";

/// A place with one manifest, and `nft` to look at its kernel; `None`, with the reason, where that cannot be.
pub(crate) fn place() -> Option<Place> {
    if !has_program("nft") {
        return skipped("the program `nft` is not installed");
    }
    let place = Place::new()?;
    place.write("web.yaml", WEB);
    Some(place)
}

#[test]
fn root_run_writes_the_rules_and_says_when_it_is_in_sync() {
    let Some(place) = place() else { return };
    let running = place.start();
    let line = running.wait_for("portway is in sync");
    assert!(line.contains("1 service ports"), "{line}");
    let rules = place.nft("list ruleset");
    for words in ["table ip kube-proxy", "table ip6 kube-proxy", "portway layout", "10.96.0.80", "10.244.0.2"]
    {
        assert!(rules.contains(words), "no {words} in {rules}");
    }
}

/// What is odd about the choices on this very host is said before anything is written.
#[test]
fn root_networks_of_pods_that_this_host_cannot_have_are_refused_and_odd_ones_told() {
    let Some(place) = place() else { return };
    if !has_program("ip") {
        return skipped("the program `ip` is not installed").unwrap_or_default();
    }
    let odd = "--node-ip 192.0.2.1 --cluster-cidr fd00:10::/48";
    let mut told = place.start_with(odd);
    told.wait_for_log("`clusterCIDR` (--cluster-cidr) has no network of IPv4");
    told.wait_for("portway is in sync");
    assert_eq!(told.terminate(), Some(0));
    place.portway("cleanup").fine();
    place.inside(|| std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")).unwrap();
    let words = ["`clusterCIDR` (--cluster-cidr) has no network of IPv4", "this host has no other family"];
    place.portway(&format!("run --from manifests {odd}")).refused(1, &words);
    assert_eq!(place.nft("list tables"), "", "nothing was written");
}

#[test]
fn root_a_changed_file_appears_in_the_kernel() {
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("the new endpoint is there and the old one is gone", || {
        let rules = place.nft("list table ip kube-proxy");
        rules.contains("10.244.0.77") && !rules.contains("10.244.0.2 ")
    });
    place.write("more.yaml", &WEB.replace("web", "more").replace("10.96.0.80", "10.96.0.81"));
    place.until("the new Service is there", || place.nft("list table ip kube-proxy").contains("10.96.0.81"));
    place.remove("more.yaml");
    place.until("it is gone again", || !place.nft("list table ip kube-proxy").contains("10.96.0.81"));
}

#[test]
fn root_a_half_saved_file_takes_nothing_away() {
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    place.write("web.yaml", "kind: [");
    running.wait_for_log("its last good content stays in force");
    assert!(place.nft("list table ip kube-proxy").contains("10.96.0.80"));
    assert!(place.portway("status").fine().contains("web.yaml"));
}

#[test]
fn root_ending_leaves_the_rules_and_a_restart_changes_nothing() {
    let Some(place) = place() else { return };
    let mut running = place.start();
    running.wait_for("portway is in sync");
    let (rules, generation) = (place.nft("list ruleset"), place.generation());
    assert_eq!(running.terminate(), Some(0));
    assert_eq!(place.nft("list ruleset"), rules);
    let mut again = place.start();
    again.wait_for("portway is in sync: 1 service ports, 0 operations");
    assert_eq!((place.nft("list ruleset"), place.generation()), (rules, generation));
    place.portway("diff").fine();
    assert_eq!(again.interrupt(), Some(0));
    place.portway_from("diff").fine();
}

#[test]
fn root_cleanup_removes_ours_and_leaves_the_others() {
    let Some(place) = place() else { return };
    place.nft("add table ip foreign");
    let mut running = place.start();
    running.wait_for("portway is in sync");
    place.portway("cleanup").refused(1, &["a portway runs", "portway.pid", "`--force`", &running.pid()]);
    running.terminate();
    let said = place.portway("cleanup").fine();
    assert_eq!(said, "Removed table ip kube-proxy.\nRemoved table ip6 kube-proxy.\n");
    assert_eq!(place.nft("list tables").trim(), "table ip foreign");
    assert_eq!(place.portway("cleanup").fine(), "No table of portway is in this kernel.\n");
}

#[test]
fn root_cleanup_by_force_is_repaired_by_the_running_portway() {
    let Some(place) = place() else { return };
    let running = place.start_with("--sync-period 1s");
    running.wait_for("portway is in sync");
    place.portway("cleanup --force").fine();
    place.until("the rules are back", || place.nft("list tables").contains("ip kube-proxy"));
}

#[test]
fn root_cleanup_leaves_a_table_of_the_same_name_that_is_not_ours() {
    let Some(place) = place() else { return };
    place.nft("add table ip kube-proxy");
    assert_eq!(place.portway("cleanup").fine(), "No table of portway is in this kernel.\n");
    assert_eq!(place.nft("list tables").trim(), "table ip kube-proxy");
}

#[test]
fn root_diff_tells_by_its_exit_code() {
    let Some(place) = place() else { return };
    let before = place.portway_from("diff").ends_with(1);
    before.says(&["10.96.0.80", "kube-proxy"]);
    let mut running = place.start();
    running.wait_for("portway is in sync");
    assert!(place.portway_from("diff").fine().starts_with("No difference"));
    running.terminate();
    place.write("web.yaml", "");
    let stale = place.portway_from("diff").ends_with(1);
    stale.says(&["delete element", "10.96.0.80"]);
    place.write("web.yaml", WEB);
    place.nft("flush map ip kube-proxy frontends");
    place.portway_from("diff").ends_with(1).says(&["frontends", "10.96.0.80"]);
}

#[test]
fn root_a_second_portway_is_refused() {
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    place.portway_from("run").refused(1, &["another portway runs", &running.pid(), "portway.pid"]);
}

#[test]
fn root_a_second_portway_with_another_folder_is_refused_too() {
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    let elsewhere = place.portway_from("run --run-dir other-run --state-dir other-state");
    elsewhere.refused(1, &["another portway", "network namespace", "other-run"]);
}

#[test]
fn root_the_running_portway_answers_as_the_files_do() {
    let Some(place) = place() else { return };
    for example in ["mysql.yaml", "sticky.yaml", "nodes.yaml", "shop.yaml", "dns.yaml"] {
        place.write_example(example);
    }
    let running = place.start();
    running.wait_for("portway is in sync");
    for question in [
        "get services -A -o wide",
        "get services -A -o yaml",
        "get endpoints -A",
        "get endpointslices -A",
        "get pods -A",
        "get nodes",
        "get routes -A -o json",
        "describe service -A",
        "explain outside 10.0.0.5:30080",
        "explain 10.244.1.5 10.96.0.80:80",
        "explain 10.244.1.5 web:80",
    ] {
        let both = || (place.portway(question).fine(), place.portway_from(question).fine());
        let (mut asked, mut read) = both();
        // Both tell ages, and a second may have passed between them.
        for _ in 0..4 {
            if asked != read {
                (asked, read) = both();
            }
        }
        assert_eq!(asked, read, "{question}");
    }
    assert_eq!(place.portway("render").fine(), place.portway_from("render").fine());
}

#[test]
fn root_only_root_may_ask() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    let mode = std::fs::metadata(place.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[test]
fn root_a_bad_client_disturbs_nobody() {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    let Some(place) = place() else { return };
    let running = place.start();
    running.wait_for("portway is in sync");
    let silent: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(place.socket()).unwrap()).collect();
    for bad in [&b"\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"portway/9 status\n", &[0xff; 4096], &[b'x'; 4096]] {
        let mut client = UnixStream::connect(place.socket()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // It may be sent away before it has said all.
        let _ = client.write_all(bad);
        let _ = client.read_to_end(&mut Vec::new());
    }
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place.until("the loop goes on", || place.nft("list table ip kube-proxy").contains("10.244.0.77"));
    place.portway("status").fine();
    drop(silent);
}

#[test]
fn root_status_tells_how_it_goes() {
    let Some(place) = place() else { return };
    place.portway("status").refused(1, &["no portway answers", "`portway run`", "`--run-dir`"]);
    let running = place.start();
    running.wait_for("portway is in sync");
    place.portway("status").ends_with(0).says(&["Mode:", "nftables", "In sync:", "yes", &running.pid()]);
    let status = place.portway("status -o json").ends_with(0).json();
    assert_eq!(
        (&status["mode"], &status["servicePorts"], &status["isInSync"], &status["reports"]),
        (&"nftables".into(), &1.into(), &true.into(), &0.into()),
        "{status:#}"
    );
}

#[test]
fn root_rendered_text_is_accepted_by_nft() {
    let Some(place) = place() else { return };
    // No sticky IPv6 Service among them: nft 1.0.6 aborts when it *reads* an update of a map with an IPv6 key,
    // although it lists what we write by netlink.
    for example in
        ["mysql.yaml", "nodes.yaml", "shop.yaml", "dns.yaml", "weighted.yaml", "load-balancer.yaml"]
    {
        place.write_example(example);
    }
    let text = place.portway_from("render").fine();
    assert!(text.contains("table ip kube-proxy") && text.contains("table ip6 kube-proxy"), "{text}");
    place.write("../rendered.nft", &text);
    place.nft("-c -f rendered.nft");
    assert_eq!(place.nft("list tables"), "", "nothing was written");
}

#[test]
fn root_without_privilege_it_is_refused_in_one_sentence() {
    let Some(place) = place() else { return };
    if !has_program("setpriv") {
        return skipped("the program `setpriv` is not installed").unwrap_or_default();
    }
    for command in ["run", "diff", "cleanup"] {
        let refused: Outcome = place.without_privilege(command);
        assert_eq!(refused.err.lines().count(), 1, "{refused}");
        refused.refused(1, &["CAP_NET_ADMIN", "run as root"]);
    }
    assert!(!place.socket().exists());
    assert_eq!(place.nft("list tables"), "");
}

#[test]
fn root_addresses_of_the_host_are_followed() {
    let Some(place) = place() else { return };
    if !has_program("ip") {
        return skipped("the program `ip` is not installed").unwrap_or_default();
    }
    let running = place.start_with("--nodeport-addresses primary");
    running.wait_for("portway is in sync");
    place.ip("address add 192.0.2.10/24 dev lo");
    place.until("node ports answer at the new address", || {
        place.nft("list set ip kube-proxy node-addresses").contains("192.0.2.10")
    });
}
