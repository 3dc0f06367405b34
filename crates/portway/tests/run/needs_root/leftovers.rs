//! What a portway of another mode left on a node, and a start from the image of the nftables mode, which has no iptables program: it is known
//! as ours, and goes once our rules are in force.

use super::userspace::{is_served, node, until};
use crate::common::{Place, has_program, skipped};

const NODE: &str = "--node-ip 192.0.2.1";
/// A rule and a chain of another program.
const OTHERS: [&str; 2] = ["-t nat -N MINE", "-t nat -A PREROUTING -p tcp --dport 2222 -j MINE"];
/// The tables of iptables-nft.
const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// A node on which a portway of this mode has been, with this program, and was killed.
fn left_by(mode: &str, program: &str) -> Option<Place> {
    if !has_program(&format!("iptables-{program}")) || !has_program("unshare") || !has_program("mount") {
        return skipped("the programs of iptables, `unshare` or `mount` are not installed");
    }
    let place = node()?;
    for rule in OTHERS {
        place.tool(&format!("iptables-{program}"), rule);
    }
    let mut running = place.start_with(&format!("--mode {mode} --iptables-program {program} {NODE}"));
    running.wait_for("portway is in sync");
    assert!(is_served(&place, "10.96.0.80:80"));
    running.kill();
    assert!(saved(&place, program).contains("KUBE-"));
    Some(place)
}

/// What both programs of a kind print.
fn saved(place: &Place, program: &str) -> String {
    let save = |family: &str| place.tool(&format!("{family}-{program}-save"), "");
    save("iptables") + &save("ip6tables")
}

/// The rules among them.
fn rules(place: &Place, program: &str) -> Vec<String> {
    saved(place, program).lines().filter(|line| line.starts_with("-A ")).map(str::to_owned).collect()
}

/// A start in nftables mode without any program removes all of it, says whose it was, and leaves what is not ours.
#[track_caller]
fn goes(mode: &str, program: &str, words: &str) {
    let Some(place) = left_by(mode, program) else { return };
    let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
    let line = running.wait_for_log("removed what another mode left");
    assert!(line.contains(words) && line.contains(&format!("(iptables-{program}, IPv4)")), "{line}");
    let (_, log) = running.said();
    let wrong: Vec<&String> = log
        .iter()
        .filter(|line| line.contains("upstream's iptables mode") || line.contains("stay"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let left = saved(&place, program);
    assert!(!left.contains("KUBE-") && left.contains("--dport 2222 -j MINE"), "{left}");
    place.portway("status").ends_with(0).says(&["Took over:", words]);
    assert!(is_served(&place, "10.96.0.80:80"));
}

#[test]
fn root_without_programs_what_our_userspace_mode_left_in_iptables_nft_goes() {
    goes("userspace", "nft", "chains of our userspace mode");
}

#[test]
fn root_without_programs_what_our_userspace_mode_left_in_iptables_legacy_goes() {
    goes("userspace", "legacy", "chains of our userspace mode");
}

#[test]
fn root_without_programs_what_our_iptables_mode_left_in_iptables_nft_goes() {
    goes("iptables", "nft", "chains of the iptables mode (upstream's or ours)");
}

#[test]
fn root_without_programs_what_our_iptables_mode_left_in_iptables_legacy_goes() {
    goes("iptables", "legacy", "chains of the iptables mode (upstream's or ours)");
}

/// The legacy program is there, and needs a capability that most of our manifests do not give.
#[test]
fn root_without_net_raw_what_our_userspace_mode_left_in_iptables_legacy_goes() {
    if !has_program("setpriv") {
        return skipped("the program `setpriv` is not installed").unwrap_or_default();
    }
    let Some(place) = left_by("userspace", "legacy") else { return };
    let without = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--"];
    let running = place.start_after(&without);
    let line = running.wait_for_log("removed what another mode left");
    assert!(
        line.contains("chains of our userspace mode") && line.contains("(iptables-legacy, IPv4)"),
        "{line}"
    );
    let left = saved(&place, "legacy");
    assert!(!left.contains("KUBE-") && left.contains("--dport 2222 -j MINE"), "{left}");
}

/// What the user saw: connections were refused, since the rules of a userspace mode that was long gone came first. Of two translations
/// at one priority the kernel asks the newer one.
#[test]
fn root_without_programs_connections_that_old_rules_led_to_a_port_that_is_closed_are_served_again() {
    let Some(place) = left_by("userspace", "nft") else { return };
    std::fs::write(place.path("left.v4"), place.tool("iptables-nft-save", "")).unwrap();
    for (family, table) in ["ip", "ip6"].into_iter().flat_map(|family| TABLES.map(|table| (family, table))) {
        place.nft(&format!("delete table {family} {table}"));
    }
    let mut running = place.start_with(&format!("--mode nftables {NODE}"));
    running.wait_for("portway is in sync");
    assert!(is_served(&place, "10.96.0.80:80"));
    running.terminate();
    place.tool("iptables-nft-restore", "left.v4");
    assert!(!is_served(&place, "10.96.0.80:80"), "the rules that came later win, and nobody listens there");
    let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
    running.wait_for("portway is in sync: 1 service ports, 0 operations");
    running.wait_for_log("chains of our userspace mode");
    assert!(is_served(&place, "10.96.0.80:80"));
}

/// A file that is broken at the start may hold what only the old rules serve.
#[test]
fn root_without_programs_old_rules_stay_until_all_files_are_read() {
    let Some(place) = left_by("iptables", "nft") else { return };
    place.write("broken.yaml", "kind: [");
    let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
    running.wait_for("portway is in sync");
    assert!(saved(&place, "nft").contains("KUBE-SVC-"), "what another file asks for may be served by them");
    place.remove("broken.yaml");
    running.wait_for_log("removed what another mode left");
    assert!(!saved(&place, "nft").contains("KUBE-"));
}

/// What the user saw: a second proxy, for some Services only, took the rules of kube-proxy away, which serves all others.
#[test]
fn root_rules_of_the_other_proxy_stay_where_this_one_serves_some_services_only() {
    for (mode, program) in [("iptables", "nft"), ("iptables", "legacy")] {
        let Some(place) = left_by(mode, program) else { return };
        let before = rules(&place, program);
        let running = place.start_with(&format!("--mode nftables {NODE} --service-proxy-name other"));
        let line = running.wait_for_log("with --service-proxy-name another proxy serves the other Services");
        assert!(line.contains(&format!("iptables-{program}")), "{line}");
        assert!(before.len() > 10, "{before:?}");
        assert_eq!(rules(&place, program), before);
    }
}

#[test]
fn root_without_programs_chains_that_other_rules_lead_to_are_emptied_and_named() {
    for program in ["nft", "legacy"] {
        let Some(place) = left_by("userspace", program) else { return };
        place.tool(&format!("iptables-{program}"), "-t nat -A MINE -j KUBE-PORTALS-CONTAINER");
        let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
        running.wait_for_log("chain KUBE-PORTALS-CONTAINER of table nat is empty now but stays, because rules of other programs");
        place.portway("status").says(&["Stays:", "KUBE-PORTALS-CONTAINER"]);
        let left = place.tool(&format!("iptables-{program}-save"), "-t nat");
        assert!(left.contains("-A MINE -j KUBE-PORTALS-CONTAINER"), "{left}");
        assert_eq!(left.matches("KUBE-").count(), 2, "the chain and the rule that leads to it: {left}");
    }
}

/// The lock of the legacy programs is held too long: that is told, with whose chains stay, and tried again.
#[test]
fn root_without_programs_legacy_chains_wait_for_the_lock_of_all_programs() {
    let Some(place) = left_by("userspace", "legacy") else { return };
    let lock = std::fs::File::open(place.path("xtables.lock")).unwrap();
    lock.lock().unwrap();
    let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
    running.wait_for("portway is in sync");
    let told = "chains of our userspace mode stay in table nat (iptables-legacy, IPv4)";
    until("it is told", || running.logged(told) > 0);
    assert_eq!(running.logged("another program holds the lock"), 1);
    assert!(saved(&place, "legacy").contains("KUBE-"), "nothing is half removed");
    drop(lock);
    until("it is tried again", || running.logged("removed what another mode left") > 0);
    assert!(!saved(&place, "legacy").contains("KUBE-"));
}

/// A lock of our own would keep nobody out, so none is made.
#[test]
fn root_without_programs_legacy_chains_stay_where_the_lock_is_not_to_be_seen() {
    let Some(place) = left_by("userspace", "legacy") else { return };
    std::fs::remove_file(place.path("xtables.lock")).unwrap();
    let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
    let line = running.wait_for_log("mount the host's");
    assert!(
        line.contains("chains of our userspace mode stay in table nat (iptables-legacy, IPv4)"),
        "{line}"
    );
    assert!(!line.contains("run as root"), "{line}");
    place.portway("status").says(&["Stays:", "mount the host's"]);
    assert!(!place.path("xtables.lock").exists());
    assert!(saved(&place, "legacy").contains("KUBE-"), "nothing is half removed");
}

/// The kernel looks the path up anew for whoever sends the table, and in a container it is another one.
#[test]
fn root_without_programs_a_legacy_table_whose_rules_name_a_path_is_left_as_it_is() {
    let Some(place) = left_by("userspace", "legacy") else { return };
    place.tool("iptables-legacy", "-t nat -A OUTPUT -m cgroup --path / -j MINE");
    let before =
        place.tool("iptables-legacy-save", "-t nat").lines().filter(|line| line.starts_with("-A")).count();
    let running = place.start_without_programs(&format!("--mode nftables {NODE}"));
    let line = running.wait_for_log("table nat has a rule with `-m cgroup --path`");
    assert!(
        line.contains("portway cleanup --mode iptables --force") && !line.contains("meanwhile"),
        "{line}"
    );
    place.portway("status").says(&["Stays:", "-m cgroup --path"]);
    let after = place.tool("iptables-legacy-save", "-t nat");
    assert_eq!(after.lines().filter(|line| line.starts_with("-A")).count(), before, "{after}");
    assert!(after.contains("-m cgroup --path"), "{after}");
}

#[test]
fn root_without_programs_cleanup_removes_chains_of_both_kinds() {
    for (mode, program) in [("userspace", "nft"), ("iptables", "legacy")] {
        let Some(place) = left_by(mode, program) else { return };
        let said = place.portway_without_programs("cleanup --mode iptables").fine();
        assert!(said.contains(&format!("(iptables-{program}, IPv4)")), "{said}");
        let left = saved(&place, program);
        assert!(!left.contains("KUBE-") && left.contains("-j MINE"), "{left}");
    }
}

/// And the other way: the table of the nftables mode goes when another mode serves, and is known as ours.
#[test]
fn root_what_our_nftables_mode_left_goes_and_is_told_as_ours() {
    for mode in ["iptables", "userspace"] {
        let Some(place) = node() else { return };
        let mut running = place.start_with(&format!("--mode nftables {NODE}"));
        running.wait_for("portway is in sync");
        running.kill();
        place.nft("add table ip kube-proxy-beside { comment \"portway layout 0\"; }");
        let running = place.start_with(&format!("--mode {mode} --iptables-program nft {NODE}"));
        let line = running.wait_for_log("removed what another mode left");
        for table in ["ip kube-proxy", "ip kube-proxy-beside", "ip6 kube-proxy"] {
            assert!(line.contains(&format!("table {table} of our nftables mode")), "{line}");
        }
        assert!(!place.nft("list tables").contains("kube-proxy"));
        assert!(is_served(&place, "10.96.0.80:80"));
    }
}
