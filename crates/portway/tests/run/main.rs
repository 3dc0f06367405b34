//! `portway run` and what belongs to it, as people run it: the real binary on the real kernel, in a network namespace of
//! each test's own. The machine's own namespace is never written to.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

#[path = "../run_common/mod.rs"]
mod common;

mod needs_root;

#[test]
fn other_modes_say_that_they_are_not_there_yet() {
    let said = common::portway_plain("run --mode ipvs --from nowhere");
    said.refused(1, &["mode `ipvs`", "`--mode nftables`"]);
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
fn run_needs_a_source() {
    common::portway_plain("run").refused(2, &["`--from FILE|DIR`", "PORTWAY_FROM"]);
    let malformed = common::portway_plain("run --from nowhere --sync-period soon");
    malformed.refused(2, &["`soon` is no time", "`30s`"]);
}
