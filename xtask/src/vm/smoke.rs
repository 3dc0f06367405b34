//! Tests that run on the VM's kernel too: another version, and with sockets and modules that a build machine may lack.
//!
//! In: the list below. Out: each test's outcome, into the summary; where there is no VM, one line that says why.
//!
//! All run in one boot, one after another, each in a process of its own with a limit of its own. The VM is slow, so the
//! list is short, and the tests get more patience. One that fails is asked again, as on this machine (see `again`).

use super::machine::{self, Ended, Order};
use super::script::quoted;
use super::set_up::{self, Kernel};
use crate::again::TIMES;
use crate::cargo::{build_test, root, target_dir};
use crate::libtest;
use crate::step::Step;
use crate::summary::{Summary, TestRun};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Tests of one test program: their names, or with `::` at the end the module that holds them.
struct Smoke {
    package: &'static str,
    program: &'static str,
    tests: &'static [&'static str],
}

/// One test of the list.
#[derive(Debug)]
struct Test {
    package: &'static str,
    program: &'static str,
    /// Where the program lies.
    built: PathBuf,
    name: String,
}

/// Which tests to run there.
#[derive(Clone, Copy)]
pub(crate) enum List {
    /// Those of `cargo xtask test`.
    Short,
    /// The one list of packet tests, whole, for the mode that runs nowhere else: about a quarter of an hour.
    Ipvs,
}

impl List {
    fn tests(self) -> &'static [Smoke] {
        match self {
            Self::Short => SMOKE,
            Self::Ipvs => &[Smoke { package: "portway", program: "packets", tests: &["needs_vm::ipvs::"] }],
        }
    }
}

const SMOKE: &[Smoke] = &[
    Smoke {
        package: "portway",
        program: "packets",
        tests: &[
            "needs_root::nftables::root_a_pod_keeps_its_address_and_others_are_masqueraded",
            "needs_root::nftables::root_node_ports_answer_on_both_nodes_whichever_has_the_pod",
            "needs_root::nftables::root_external_policy_local_keeps_the_client_or_drops_it",
            "needs_root::nftables::root_source_ranges_keep_strangers_from_the_load_balancer",
            "needs_root::nftables::root_a_service_without_endpoints_refuses_at_once",
            "needs_root::nftables::root_a_client_stays_with_its_endpoint_at_every_frontend",
            "needs_root::nftables::root_endpoints_come_and_go_without_a_failed_connection",
            "needs_vm::nftables::root_a_restart_disturbs_nobody",
            "needs_root::nftables::root_a_udp_client_whose_pod_was_replaced_during_a_restart_reaches_the_new_one",
            "needs_vm::ipvs::root_a_pod_keeps_its_address_and_others_are_masqueraded",
            "needs_vm::ipvs::root_node_ports_answer_on_both_nodes_whichever_has_the_pod",
            "needs_vm::ipvs::root_external_policy_local_keeps_the_client_or_drops_it",
            "needs_vm::ipvs::root_source_ranges_keep_strangers_from_the_load_balancer",
            "needs_vm::ipvs::root_a_service_without_endpoints_refuses_at_once",
            "needs_vm::ipvs::root_a_pod_that_reaches_itself_is_masqueraded",
            "needs_vm::ipvs::root_undefined_ports_unallocated_addresses_and_pings",
            "needs_vm::ipvs::root_a_client_stays_with_its_endpoint_at_every_frontend",
            "needs_vm::ipvs::root_weights_shape_the_shares",
            "needs_vm::ipvs::root_endpoints_in_the_host_network_are_reached_from_everywhere",
            "needs_vm::ipvs::root_services_that_change_while_they_are_served_are_served_as_they_say_now",
            "needs_vm::ipvs::root_endpoints_come_and_go_without_a_failed_connection",
            "needs_vm::ipvs::root_a_hand_over_disturbs_nobody",
            "needs_vm::ipvs::root_a_restart_disturbs_nobody",
            "needs_vm::ipvs::root_a_udp_client_whose_pod_was_replaced_during_a_restart_reaches_the_new_one",
            "needs_vm::ipvs::root_a_kept_udp_socket_follows_its_pod_at_every_frontend",
            "needs_vm::ipvs::root_large_payloads_pass_every_frontend_unchanged",
            "needs_vm::ipvs::root_ports_of_the_host_do_not_answer_at_addresses_of_services",
            "needs_vm::ipvs::root_a_cleanup_leaves_nothing_and_gives_settings_back",
            "needs_vm::ipvs::root_neighbours_hear_of_no_address_with_strict_arp",
            "needs_vm::ipvs::root_an_endpoint_that_goes_keeps_its_connections_and_gets_no_new_ones",
            "needs_vm::ipvs::root_endpoints_that_drain_are_found_again_after_a_crash",
            "needs_vm::ipvs::root_clients_of_a_vanished_pod_are_reset_and_all_others_go_on",
            "needs_vm::ipvs::root_a_stray_segment_resets_no_connection",
            "needs_vm::ipvs::root_a_service_gets_every_scheduler_that_the_kernel_has",
            "needs_vm::ipvs::root_what_virtual_servers_carried_is_counted",
            "needs_vm::ipvs::root_it_serves_with_the_capabilities_of_its_manifest_on_a_read_only_root",
            // Last: once the kernel has SCTP of its own, it answers the hand-made packets of the others.
            "needs_vm::sctp::",
        ],
    },
    Smoke {
        package: "portway",
        program: "run",
        tests: &["needs_vm::tuning::root_the_connection_tracker_is_sized_as_upstream_does"],
    },
    Smoke {
        package: "kernel",
        program: "dummy_contract",
        tests: &["needs_vm::root_dummies_and_their_addresses_come_and_go_on_the_real_kernel"],
    },
    Smoke {
        package: "kernel",
        program: "ipvs_contract",
        tests: &[
            "needs_vm::root_real_and_simulated_servers_end_alike",
            "needs_vm::root_packets_reach_whom_the_twin_says",
            "needs_vm::root_ten_thousand_real_servers_are_written_and_read",
            "needs_vm::root_the_ipvsadm_program_sees_the_same",
        ],
    },
    Smoke {
        package: "kernel",
        program: "xtables_traffic",
        tests: &["needs_vm::root_ipvs_stands_between_the_tables_where_the_twin_has_it"],
    },
    Smoke {
        package: "portway",
        program: "run",
        tests: &[
            "needs_vm::root_ipvs_writes_what_the_documents_list_and_neither_restart_nor_kill_takes_it_away",
            "needs_vm::root_ipvs_drift_is_repaired_and_counted",
            "needs_vm::root_ipvs_cleanup_gives_settings_back_and_leaves_what_is_not_ours",
            "needs_vm::root_ipvs_on_another_interface_the_hosts_own_address_stays_its_own",
            "needs_vm::leaving::",
            "needs_vm::drain::root_ipvs_what_drains_is_told_found_again_after_a_restart_and_goes_when_its_time_is_over",
            "needs_vm::upstream::",
        ],
    },
    Smoke {
        package: "dataplane",
        program: "ipvs_real",
        tests: &[
            "needs_vm::root_a_real_kernel_holds_what_the_twin_holds_and_nothing_stays",
            "needs_vm::root_ipvsadm_shows_the_documents_example",
        ],
    },
];

/// The VM takes ten times as long as the machine for these; `PORTWAY_PATIENCE` is for when the machine is busy, too.
const VARIABLES: [(&str, &str); 2] = [("PORTWAY_CONNECTIONS", "500"), ("PORTWAY_PATIENCE", "3")];
/// A VM whose kernel broke takes the tests that had no outcome with it into another boot, once.
const BOOTS: usize = 2;
/// One test that hangs does not take the others with it.
const TEST_LIMIT_S: u64 = 240;
const LIMIT: Duration = Duration::from_secs(2400);

/// Runs a list, and adds each test to the summary.
pub(crate) fn run(number: usize, total: usize, list: List, summary: &mut Summary) {
    let step = Step::start(number, total, "another kernel");
    step.announce();
    let ran = target_dir().map_err(|e| format!("{e:#}")).and_then(|target| boot(&target, list, summary));
    if let Err(why) = ran {
        println!("  skipped: {why}");
        summary.skipped(format!("another kernel (tests of {} programs)", list.tests().len()), why);
    }
    step.finish();
}

/// The error says why there is no VM.
fn boot(target: &Path, list: List, summary: &mut Summary) -> Result<(), String> {
    let kernel = set_up::get(target)?;
    let Some(tests) = tests(list, summary) else { return Ok(()) };
    println!("  {}: {} tests in a VM, in one boot", kernel.release, tests.len());
    let (mut output, mut left) = (String::new(), tests.iter().collect::<Vec<_>>());
    for boot in 1..=BOOTS {
        let (ended, said) = run_there(target, &kernel, &left)?;
        output.push_str(&said);
        let Ended::Broke(console) = ended else { break };
        let first = console.lines().next().unwrap_or_default().trim();
        summary.broke(format!("vm {}: boot {boot}", kernel.version()), format!("it broke: {first}"));
        let runs = libtest::read(&said);
        left.retain(|test| runs.iter().all(|run| run.name != test.name));
    }
    take_in(&output, &tests, &kernel, summary);
    Ok(())
}

/// Runs these tests in one boot: how it ended, and all that they said.
fn run_there(target: &Path, kernel: &Kernel, tests: &[&Test]) -> Result<(Ended, String), String> {
    let path = target.join("xtask/another-kernel.log");
    let log = File::create(&path).map_err(|e| format!("{} cannot be made: {e}", path.display()))?;
    let order = Order {
        folder: root(),
        command: ["sh", "-c", &script(tests)].map(str::to_owned).to_vec(),
        variables: VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        limit: LIMIT,
    };
    let ended = machine::run(kernel, &order, log.into())?;
    if let Ended::NoVm(why) = ended {
        return Err(why);
    }
    let bytes = fs::read(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let said = String::from_utf8_lossy(&bytes).into_owned();
    if ended != Ended::Code(0) {
        println!("{}", said.trim_end());
        ended.problem(LIMIT).into_iter().for_each(|problem| println!("{problem}"));
    }
    Ok((ended, said))
}

/// Builds the test programs and asks each for its tests.
fn tests(list: List, summary: &mut Summary) -> Option<Vec<Test>> {
    let mut tests = Vec::new();
    for smoke in list.tests() {
        let found = build_test(smoke.program).and_then(|built| Ok((names(smoke, &listed(&built)?)?, built)));
        let found = found.map_err(|error| summary.failed("another kernel", format!("{error:#}")));
        let (names, built) = found.ok()?;
        let Smoke { package, program, .. } = *smoke;
        tests.extend(names.into_iter().map(|name| Test { package, program, built: built.clone(), name }));
    }
    Some(tests)
}

/// What a test program says that it holds.
fn listed(built: &Path) -> Result<String> {
    let output = Command::new(built).args(["--list", "--format", "terse"]).output();
    let output = output.with_context(|| format!("{} cannot be started", built.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The tests of one program, by name; a module without tests is a mistake.
fn names(smoke: &Smoke, listed: &str) -> Result<Vec<String>> {
    let all: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let mut names = Vec::new();
    for wanted in smoke.tests {
        let before = names.len();
        names.extend(all.iter().filter(|name| is_wanted(name, wanted)).map(|name| (*name).to_owned()));
        ensure!(names.len() > before, "{} has no test `{wanted}`", smoke.program);
    }
    Ok(names)
}

fn is_wanted(name: &str, wanted: &str) -> bool {
    name == wanted || wanted.ends_with("::") && name.starts_with(wanted)
}

/// What the VM's shell does: each test in a process of its own.
fn script(tests: &[&Test]) -> String {
    let mut text = format!(
        "code=0\n\
         once() {{ timeout -k 5 {TEST_LIMIT_S} \"$1\" --exact \"$2\" --show-output --format pretty --color never; }}\n\
         again() {{ for turn in $(seq {TIMES}); do once \"$@\" || return 1; done; }}\n\
         try() {{ once \"$@\" || {{ code=1; again \"$@\"; }}; }}\n"
    );
    for Test { package, built, name, .. } in tests {
        let folder = root().join("crates").join(package);
        let _ = writeln!(text, "cd {} || exit 125", quoted(&folder.to_string_lossy()));
        let _ = writeln!(text, "try {} {}", quoted(&built.to_string_lossy()), quoted(name));
    }
    text.push_str("exit $code\n");
    text
}

/// Every test of the list has an outcome: one that says nothing has failed.
fn take_in(output: &str, tests: &[Test], kernel: &Kernel, summary: &mut Summary) {
    let runs = libtest::read(output);
    for Test { program, name, .. } in tests {
        let shown = format!("vm {}: {program} {name}", kernel.version());
        let runs: Vec<&TestRun> = runs.iter().filter(|run| run.name == *name).collect();
        match runs.as_slice() {
            [first, rest @ ..] if is_shaky(first, rest) => summary.shaky(&shown),
            [first, ..] => summary.test(&on(kernel, shown, first)),
            [] => summary.failed(shown, "it has no outcome: it hung; see above"),
        }
    }
}

/// Did it fail, and then stand as often as it must?
fn is_shaky(first: &TestRun, rest: &[&TestRun]) -> bool {
    !first.passed && rest.len() == TIMES && rest.iter().all(|run| run.passed)
}

/// A test under its name here; what it counted is counted apart from the same on this machine's kernel.
fn on(kernel: &Kernel, name: String, run: &TestRun) -> TestRun {
    let counted = format!("counted: {} ", kernel.version());
    TestRun { name, passed: run.passed, output: run.output.replace("counted: ", &counted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel { folder: "/k".into(), image: "/k/i".into(), release: "6.12.9+deb13".to_owned() }
    }

    fn test(name: &str) -> Test {
        Test { package: "portway", program: "packets", built: "/t".into(), name: name.to_owned() }
    }

    #[test]
    fn a_test_without_an_outcome_has_failed() {
        let mut summary = Summary::default();
        let tests = [test("m::one"), test("m::two")];
        take_in("\ntest m::one ... ok\n\ntest result: ok.", &tests, &kernel(), &mut summary);
        let text = summary.to_string();
        assert!(text.ends_with("1 passed, 1 failed, 0 skipped"), "{text}");
        assert!(text.contains("vm 6.12: packets m::two: it has no outcome"), "{text}");
    }

    #[test]
    fn a_test_that_failed_and_then_stood_every_time_is_shaky() {
        let outcome = |times: usize| {
            let stood = "\ntest m::one ... ok\n\ntest result: ok.".repeat(times);
            let mut summary = Summary::default();
            let output = format!("\ntest m::one ... FAILED\n\ntest result: FAILED.{stood}");
            take_in(&output, &[test("m::one")], &kernel(), &mut summary);
            summary.to_string()
        };
        assert!(outcome(TIMES).ends_with("1 passed, 0 failed, 0 skipped"), "{}", outcome(TIMES));
        assert!(outcome(TIMES - 1).ends_with("0 passed, 1 failed, 0 skipped"), "{}", outcome(TIMES - 1));
    }

    #[test]
    fn a_module_stands_for_its_tests_and_what_is_not_there_is_a_mistake() {
        let listed = "m::one: test\nm::two: test\nmore::three: test\n";
        let smoke = |tests| Smoke { package: "portway", program: "packets", tests };
        assert_eq!(
            names(&smoke(&["more::three", "m::"]), listed).ok(),
            Some(vec!["more::three".to_owned(), "m::one".to_owned(), "m::two".to_owned()])
        );
        for missing in [&["m::one", "m::three"][..], &["gone::"], &["m"]] {
            assert!(names(&smoke(missing), listed).is_err(), "{missing:?}");
        }
    }

    #[test]
    fn what_the_vm_counts_is_counted_apart() {
        let run = TestRun {
            name: "t".to_owned(),
            passed: true,
            output: "counted: nftables ipv4 tcp 3 connections\n".to_owned(),
        };
        let mut summary = Summary::default();
        summary.test(&on(&kernel(), "vm".to_owned(), &run));
        assert!(summary.to_string().contains("6.12 nftables ipv4 tcp: 3"), "{summary}");
    }
}
