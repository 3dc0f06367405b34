//! Tests that run on the VM's kernel too: another version, and with sockets and modules that a build machine may lack.
//!
//! In: the list below. Out: each test's outcome, into the summary; where there is no VM, one line that says why.
//!
//! All run in one boot, one after another, each in a process of its own with a limit of its own. The VM is slow, so the
//! list is short, and the tests get more patience.

use super::machine::{self, Ended, Order};
use super::script::quoted;
use super::set_up::{self, Kernel};
use crate::cargo::{build_test, root, target_dir};
use crate::libtest;
use crate::step::Step;
use crate::summary::{Summary, TestRun};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// Tests of one test program.
struct Smoke {
    package: &'static str,
    program: &'static str,
    tests: &'static [&'static str],
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
            // Last: once the kernel has SCTP of its own, it answers the hand-made packets of the others.
            "needs_vm::nftables::root_real_sctp_sockets_reach_their_endpoint",
        ],
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
/// One test that hangs does not take the others with it.
const TEST_LIMIT_S: u64 = 240;
const LIMIT: Duration = Duration::from_secs(1200);

/// Runs the list, and adds each test to the summary.
pub(crate) fn run(number: usize, total: usize, summary: &mut Summary) {
    let step = Step::start(number, total, "another kernel");
    step.announce();
    let ran = target_dir().map_err(|e| format!("{e:#}")).and_then(|target| boot(&target, summary));
    if let Err(why) = ran {
        let tests: usize = SMOKE.iter().map(|smoke| smoke.tests.len()).sum();
        println!("  skipped: {why}");
        summary.skipped(format!("another kernel ({tests} tests)"), why);
    }
    step.finish();
}

/// The error says why there is no VM.
fn boot(target: &Path, summary: &mut Summary) -> Result<(), String> {
    let kernel = set_up::get(target)?;
    let Some(script) = script(summary) else { return Ok(()) };
    println!("  {} in a VM, in one boot", kernel.release);
    let path = target.join("xtask/another-kernel.log");
    let log = File::create(&path).map_err(|e| format!("{} cannot be made: {e}", path.display()))?;
    let order = Order {
        folder: root(),
        command: ["sh", "-c", &script].map(str::to_owned).to_vec(),
        variables: VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        limit: LIMIT,
    };
    let ended = machine::run(&kernel, &order, log.into())?;
    if let Ended::NoVm(why) = ended {
        return Err(why);
    }
    let bytes = fs::read(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let output = String::from_utf8_lossy(&bytes);
    if ended != Ended::Code(0) {
        println!("{}", output.trim_end());
        ended.problem(LIMIT).into_iter().for_each(|problem| println!("{problem}"));
    }
    take_in(&output, &kernel, summary);
    Ok(())
}

/// Builds the test programs; what the VM's shell does with them.
fn script(summary: &mut Summary) -> Option<String> {
    let mut text = format!(
        "code=0\ntry() {{ timeout -k 5 {TEST_LIMIT_S} \"$1\" --exact \"$2\" --show-output --format pretty --color never || code=1; }}\n"
    );
    for Smoke { package, program, tests } in SMOKE {
        let built =
            build_test(program).map_err(|error| summary.failed("another kernel", format!("{error:#}")));
        let (built, folder) = (built.ok()?, root().join("crates").join(package));
        let _ = writeln!(text, "cd {} || exit 125", quoted(&folder.to_string_lossy()));
        for test in *tests {
            let _ = writeln!(text, "try {} {}", quoted(&built.to_string_lossy()), quoted(test));
        }
    }
    text.push_str("exit $code\n");
    Some(text)
}

/// Every test of the list has an outcome: one that says nothing has failed.
fn take_in(output: &str, kernel: &Kernel, summary: &mut Summary) {
    let runs = libtest::read(output);
    for Smoke { program, tests, .. } in SMOKE {
        for test in *tests {
            let name = format!("vm {}: {program} {test}", kernel.version());
            match runs.iter().find(|run| run.name == *test) {
                Some(run) => summary.test(&on(kernel, name, run)),
                None => {
                    summary.failed(name, "it has no outcome: it hung, or there is no such test; see above");
                }
            }
        }
    }
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

    #[test]
    fn a_test_without_an_outcome_has_failed() {
        let tests: Vec<&str> = SMOKE.iter().flat_map(|smoke| smoke.tests).copied().collect();
        let mut summary = Summary::default();
        take_in(&format!("\ntest {} ... ok\n\ntest result: ok.", tests[0]), &kernel(), &mut summary);
        let text = summary.to_string();
        assert!(text.ends_with(&format!("1 passed, {} failed, 0 skipped", tests.len() - 1)), "{text}");
        assert!(text.contains(&format!("vm 6.12: packets {}: it has no outcome", tests[1])), "{text}");
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
