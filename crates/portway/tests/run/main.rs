//! `portway run` and what belongs to it, as people run it: the real binary on the real kernel, in a network namespace of
//! each test's own. The machine's own namespace is never written to.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

#[path = "../run_common/mod.rs"]
mod common;

mod needs_root;
mod needs_vm;

#[test]
fn every_mode_goes_as_far_as_its_files() {
    for mode in dataplane::registry::product_modes() {
        let said = common::portway_plain(&format!("run --mode {mode}"));
        said.refused(2, &["no source of Services", "`--from FILE|DIR`"]);
    }
}

#[test]
fn options_of_the_ipvs_mode_are_checked_before_anything_is_done() {
    for (arguments, words) in [
        ("--mode ipvs --ipvs-scheduler wlq", ["unknown IPVS scheduler `wlq`", "rr, wrr, lc, wlc"]),
        ("--mode ipvs --ipvs-interface a/b", ["`a/b` is no name of an interface", "1 to 15 letters"]),
        ("--mode ipvs --ipvs-exclude-cidrs ten", ["`ten` is no network", "`10.96.0.0/12`"]),
        ("--mode ipvs --ipvs-tcp-timeout long", ["`long` is no time", "`30s`"]),
        (
            "--mode ipvs --proxy-port-range 40000",
            ["`--proxy-port-range` means nothing in mode `ipvs`", "userspace"],
        ),
        ("--ipvs-scheduler lc", ["`--ipvs-scheduler` means nothing in mode `nftables`", "`--mode ipvs`"]),
        (
            "--mode iptables --ipvs-udp-timeout 1m",
            ["`--ipvs-udp-timeout` means nothing in mode `iptables`", "ipvs"],
        ),
        (
            "--mode ipvs --iptables-localhost-nodeports",
            ["`--iptables-localhost-nodeports`", "`--mode iptables`"],
        ),
    ] {
        common::portway_plain(&format!("run --from nowhere {arguments}")).refused(2, &words);
    }
    common::portway_plain("cleanup --ipvs-exclude-cidrs 10.0.0.0/8")
        .refused(2, &["`--ipvs-exclude-cidrs`", "`--mode ipvs`"]);
}

#[test]
fn without_a_running_portway_both_ways_out_are_told() {
    let said = common::portway_plain("get services --run-dir /nonexistent/portway");
    said.refused(
        2,
        &["no portway answers at /nonexistent/portway/portway.sock", "`--from FILE|DIR`", "`portway run`"],
    );
}

#[test]
fn run_needs_a_source_and_one_alone() {
    let ways = ["`--kubeconfig FILE`", "`--master URL`", "`--from FILE|DIR`", "PORTWAY_FROM"];
    common::portway_plain("run").refused(2, &ways);
    let two = common::portway_plain("run --from nowhere --kubeconfig somewhere");
    two.refused(2, &["two sources of Services", "leave one out"]);
    let malformed = common::portway_plain("run --from nowhere --sync-period soon");
    malformed.refused(2, &["`soon` is no time", "`30s`"]);
}
