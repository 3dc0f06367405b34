//! A rule that notices nothing would keep passing: here each is shown a breach.

use super::*;

/// Checks that a rule has as many problems with these files as each wants.
fn check(rule: Rule, cases: &[(&[(&str, &str)], usize)]) {
    for (files, expected) in cases {
        let tree: Vec<File> =
            files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        let problems = rule(&tree);
        assert_eq!(problems.len(), *expected, "{files:?}: {problems:#?}");
    }
}

#[test]
fn a_module_without_header_is_noticed() {
    check(
        headers,
        &[
            (&[("a.rs", "fn f() {}")], 1),
            (&[("a.rs", "// Not a header.")], 1),
            (&[("a.rs", "")], 1),
            (&[("a.rs", "\n//! Says why.\n")], 0),
            (&[("a.md", "text")], 0),
        ],
    );
}

#[test]
fn a_crate_that_is_unnamed_or_gone_is_noticed() {
    let model = ("crates/model/Cargo.toml", "");
    check(
        architecture,
        &[
            (&[model], 1),
            (&[model, ("ARCHITECTURE.md", "Start in `crates/model`.")], 0),
            (&[model, ("ARCHITECTURE.md", "Start in `crates/model` and `crates/gone/src`.")], 1),
            (&[model, ("ARCHITECTURE.md", "Everything is in crates/.")], 1),
        ],
    );
}

#[test]
fn a_further_dependency_of_the_model_is_noticed() {
    let fine = "[dependencies]\nipnet.workspace = true\nserde_json = \"1\"\n\n[dev-dependencies]\nproptest = \"1\"\n";
    let more = "[dependencies]\nipnet = \"2\"\nserde_json = \"1\"\ntokio = { version = \"1\" }\n";
    let apart = "[dependencies]\nipnet = \"2\"\nserde_json = \"1\"\n[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n";
    let section =
        "[dependencies]\nipnet = \"2\"\nserde_json = \"1\"\n[dependencies.tokio]\nversion = \"1\"\n";
    let fewer = "[dependencies]\nipnet = \"2\"\n";
    let path = "crates/model/Cargo.toml";
    check(
        model_dependencies,
        &[
            (&[(path, fine)], 0),
            (&[(path, more)], 1),
            (&[(path, apart)], 1),
            (&[(path, fewer)], 1),
            (&[(path, &section.replace("\nversion", "\n#"))], 1),
        ],
    );
}

const REGISTRY: (&str, &str) = (
    "crates/dataplane/src/registry.rs",
    "pub static MODES: &[Mode] = &[crate::nftables::MODE, crate::ipvs::MODE];",
);

#[test]
fn a_crate_for_tests_in_a_program_is_noticed() {
    let path = "crates/dataplane/Cargo.toml";
    let optional = "[dependencies]\nkernel-sim = { workspace = true, optional = true }\n";
    let with_feature = |line: &str| format!("[features]\n{line}\n{optional}");
    check(
        dev_crates_are_in_no_program,
        &[
            (&[(path, "[dependencies]\nkernel-sim.workspace = true\n")], 1),
            (&[(path, "[dependencies]\nfake = { path = \"../mockapi\", package = \"mockapi\" }\n")], 1),
            (&[(path, "[dependencies.playground]\nworkspace = true\n")], 1),
            (&[(path, "[target.'cfg(unix)'.dependencies]\nplayground.workspace = true\n")], 1),
            (&[("xtask/Cargo.toml", "[build-dependencies]\nmockapi.workspace = true\n")], 1),
            (
                &[(
                    path,
                    "[dependencies]\nkernel.workspace = true\n\n[dev-dependencies]\nkernel-sim.workspace = true\n",
                )],
                0,
            ),
            (&[("crates/playground/Cargo.toml", "[dependencies]\nkernel-sim.workspace = true\n")], 0),
            (
                &[(
                    "Cargo.toml",
                    "[workspace.dependencies]\nkernel-sim = { path = \"crates/kernel-sim\" }\n",
                )],
                0,
            ),
            (&[(path, &with_feature("sim = [\"dep:kernel-sim\"]"))], 0),
            (&[(path, &with_feature("default = [\"sim\"]"))], 1),
            (&[(path, &with_feature("tests = [\"dep:kernel-sim\"]"))], 1),
            (
                &[(
                    "crates/portway/Cargo.toml",
                    "[dependencies]\ndataplane = { workspace = true, features = [\"sim\"] }\n",
                )],
                1,
            ),
            (
                &[(
                    "crates/portway/Cargo.toml",
                    "[dev-dependencies]\ndataplane = { workspace = true, features = [\"sim\"] }\n",
                )],
                0,
            ),
        ],
    );
}

#[test]
fn modules_that_import_each_other_in_a_cycle_are_noticed() {
    let root = ("crates/agent/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;");
    check(
        cycles::none,
        &[
            (
                &[
                    root,
                    ("crates/agent/src/a.rs", "use crate::b::B;"),
                    ("crates/agent/src/b/x.rs", "use crate::A;"),
                ],
                1,
            ),
            (
                &[
                    root,
                    ("crates/agent/src/a.rs", "use super::b::B;"),
                    ("crates/agent/src/b/mod.rs", "use crate::c::C;"),
                    ("crates/agent/src/c.rs", "fn f() { crate::a::f() }"),
                ],
                1,
            ),
            (
                &[
                    root,
                    ("crates/agent/src/a.rs", "use crate::b::B;"),
                    ("crates/agent/src/b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
                ],
                0,
            ),
            (
                &[
                    root,
                    ("crates/agent/src/a.rs", "use crate::b::B;"),
                    ("crates/agent/src/b.rs", "use super::Item;"),
                ],
                0,
            ),
        ],
    );
}

#[test]
fn a_mode_that_depends_on_another_is_noticed() {
    let path = "crates/dataplane/src/nftables/render/port.rs";
    let own = ("crates/dataplane/src/nftables/mod.rs", "use crate::upstream::removal;");
    let root = ("crates/dataplane/src/lib.rs", "mod mode;\npub mod ipvs;\npub use mode::{Mode, Other};");
    let other = ("crates/dataplane/src/ipvs/mod.rs", "pub fn render() {}");
    check(
        modes::are_apart,
        &[
            (&[REGISTRY, root, other, (path, "use crate::ipvs::render;")], 1),
            (&[REGISTRY, root, other, (path, "use crate::{relay, ipvs::{a, b}};")], 1),
            (&[REGISTRY, root, other, (path, "fn f() { super::super::super::ipvs::render() }")], 1),
            (
                &[
                    REGISTRY,
                    root,
                    other,
                    own,
                    ("crates/dataplane/src/upstream/mod.rs", "fn f() { crate::ipvs::render() }"),
                ],
                1,
            ),
            (
                &[
                    REGISTRY,
                    root,
                    other,
                    (path, "use crate::Mode;"),
                    ("crates/dataplane/src/mode.rs", "use crate::registry;"),
                ],
                1,
            ),
            (&[REGISTRY, root, other, (path, "use crate::Mode;"), ("crates/dataplane/src/mode.rs", "")], 0),
            (
                &[
                    REGISTRY,
                    root,
                    other,
                    own,
                    (
                        "crates/dataplane/src/upstream/mod.rs",
                        "#[cfg(test)]\nmod tests { use crate::ipvs::f; }",
                    ),
                ],
                0,
            ),
            (&[REGISTRY, root, other, (path, "use crate::{relay::{ipvs, x}, xtables};")], 0),
            (&[REGISTRY, root, other, (path, "use crate::nftables::diff; // as in crate::ipvs")], 0),
            (&[REGISTRY, root, other, (path, "use kernel::ipvs;")], 0),
        ],
    );
}

#[test]
fn a_mode_that_is_named_elsewhere_is_noticed() {
    let path = "crates/portway/src/run.rs";
    check(
        names::are_at_home,
        &[
            (&[REGISTRY, (path, "if mode == dataplane::ipvs::MODE {}")], 1),
            (&[REGISTRY, (path, "if mode.name() == \"ipvs\" {}")], 1),
            (&[REGISTRY, (path, "match error { SyncError::Ipvs(_) => {} }")], 1),
            (&[REGISTRY, (path, "let ipvs = 1; let nftables = 2;")], 2),
            (&[REGISTRY, (path, "use kernel::ipvs; // \"ipvs\"")], 0),
            (&[REGISTRY, (path, "#[cfg(test)]\nmod tests {\n    const MODE: &str = \"ipvs\";\n}\n")], 0),
            (&[REGISTRY, ("crates/dataplane/src/ipvs/mode.rs", "const NAME: &str = \"ipvs\";")], 0),
            (&[REGISTRY, ("crates/portway/tests/cli/run.rs", "run(\"ipvs\")")], 0),
            (&[REGISTRY, ("crates/portway/tests/scenarios/real/mod.rs", "run(\"ipvs\")")], 1),
            (&[REGISTRY, ("crates/portway/tests/scenarios/wrong/ipvs.txt", "\"ipvs\"")], 0),
            (&[REGISTRY, ("xtask/src/bench.rs", "name: \"ipvs\",")], 1),
            (&[REGISTRY, ("xtask/src/vm/smoke.rs", "name: \"ipvs\",")], 0),
            (
                &[
                    (
                        REGISTRY.0,
                        "static MODES: &[Mode] = &[crate::ipvs::MODE, #[cfg(feature = \"sim\")] crate::null::MODE];",
                    ),
                    (path, "let null = 1;"),
                ],
                0,
            ),
        ],
    );
}

const RUN: &str = "crates/portway/src/cli/run.rs";

/// How often a mode's name is noticed in this code of the command line.
fn names_in(cases: &[(&str, usize)]) {
    for (code, expected) in cases {
        check(names::are_at_home, &[(&[REGISTRY, (RUN, code)], *expected)]);
    }
}

#[test]
fn a_mode_that_is_named_within_a_text_is_noticed() {
    names_in(&[
        ("return Err(\"SCTP is not carried: use ipvs\");", 1),
        ("let text = \"two lines, \\\n    and mode `ipvs` in the second\";", 1),
        ("let flag = r#\"--ipvs-scheduler\"#;", 1),
        ("let metric = \"sync_proxy_rules_ipvs_total\";", 1),
        ("let text = \"nftables or ipvs\";", 2),
        ("let text = \"modes:\\nipvs\";", 1),
        ("let text = \"no mode is named: ipvsadm, nftablesque\"; // but \"ipvs\" here", 0),
    ]);
}

#[test]
fn a_mode_that_is_named_in_a_part_of_an_identifier_is_noticed() {
    names_in(&[
        ("fn ipvs_scheduler() {}", 1),
        ("let nftables_only = true;", 1),
        ("struct IpvsStatus;", 1),
        ("const BITS_OF_IPVS: u8 = 1;", 1),
        ("fn is_ipvs(mode: Mode) -> bool { true }", 1),
        ("let ipvsadm = 1;", 0),
        ("kernel::ipvs::Netlink::open()", 0),
    ]);
}

#[test]
fn a_match_arm_of_a_mode_is_noticed() {
    names_in(&[
        ("match mode.name() { \"ipvs\" => 1, _ => 2 }", 1),
        ("match kind { Kind::Nftables => 1, _ => 2 }", 1),
        ("match name { \"nftables\" | \"ipvs\" => 1, _ => 2 }", 2),
        ("match table { \"nat\" => 1, _ => 2 }", 0),
    ]);
}

#[test]
fn a_mode_that_is_named_in_the_help_of_an_argument_is_noticed() {
    let line = |after: &str| format!("/// Of mode ipvs alone\n{after}\nfield: u8,");
    names_in(&[(&line("#[arg(long)]"), 1), (&line("#[command(flatten)]"), 1), (&line("#[must_use]"), 0)]);
}

#[test]
fn a_program_of_the_system_is_no_mode() {
    let registry = (REGISTRY.0, "static MODES: &[Mode] = &[crate::iptables::MODE];");
    let cases = [
        ("let program = \"iptables-nft\";", 0),
        ("let text = \"`iptables-legacy-save` shows them\";", 0),
        ("let chain = \"KUBE-IPTABLES-HINT\";", 0),
        ("let text = \"use `--mode iptables`\";", 1),
        ("let text = \"iptables-nft, or mode iptables\";", 1),
    ];
    for (code, expected) in cases {
        check(names::are_at_home, &[(&[registry, (RUN, code)], expected)]);
    }
}

#[test]
fn a_decision_in_the_kernel_is_noticed() {
    let path = "crates/kernel/src/lib.rs";
    check(
        kernel_knows_no_decisions,
        &[
            (&[(path, "pub use model::{Family, Protocol};")], 0),
            (&[(path, "use model::ForwardingTable;")], 1),
            (&[(path, "use model::{Family, Route};")], 1),
            (&[(path, "// as model::Route")], 0),
            (&[("crates/dataplane/src/lib.rs", "use model::Route;")], 0),
        ],
    );
}

#[test]
fn a_second_family_or_protocol_is_noticed() {
    let path = "crates/playground/src/reply.rs";
    check(
        network_types_are_the_models,
        &[
            (&[("crates/model/src/net.rs", "pub enum Protocol { Tcp } pub enum Family { V4 }")], 0),
            (&[(path, "pub enum Protocol {\n    Tcp,\n}")], 1),
            (&[(path, "pub struct Protocol(pub u8);")], 1),
            (&[(path, "type  Family = u8;\nenum Protocol {}")], 2),
            (&[(path, "pub struct IpProtocol(pub u8);\nenum ProtocolKind {}\npub use model::Protocol;")], 0),
            (&[(path, "// enum Protocol\nenum Match { Protocol(IpProtocol) }")], 0),
        ],
    );
}

#[test]
fn unsafe_elsewhere_is_noticed() {
    let code = "fn f() { unsafe { g() } }";
    check(
        unsafe_is_in_kernel,
        &[
            (&[("crates/model/src/lib.rs", code)], 1),
            (&[("crates/kernel/src/lib.rs", code)], 0),
            (&[("crates/model/src/lib.rs", "// unsafe\n#![deny(unsafe_code)]")], 0),
        ],
    );
}

#[test]
fn a_scenario_without_sentence_or_in_the_wrong_place_is_noticed() {
    check(
        scenarios,
        &[
            (&[("scenarios/a.txt", "# A node port is open.\n")], 0),
            (&[("scenarios/a.txt", "svc web")], 1),
            (&[("scenarios/a.txt", "# \n")], 1),
            (&[("scenarios/a.yaml", "# A node port is open.")], 1),
            (&[("scenarios/old/a.txt", "# A node port is open.")], 1),
            (&[], 1),
        ],
    );
}

#[test]
fn a_private_path_is_noticed() {
    let private = |before: &str, folder: usize| format!("{before}{}x", PRIVATE_FOLDERS[folder]);
    check(
        no_private_paths,
        &[
            (&[("a.md", &private("see `", 0))], 1),
            (&[("a.rs", &private("\"", 1))], 1),
            (&[(".ci/run", &private("cd ", 2))], 1),
            (&[("a.md", &private("", 2))], 1),
            (&[("a.md", &private("https://example.org", 0))], 0),
        ],
    );
}

#[test]
fn a_changelog_without_unreleased_section_is_noticed() {
    check(
        changelog,
        &[
            (&[], 1),
            (&[("CHANGELOG.md", "# Changelog\n\n## 0.1.0\n")], 1),
            (&[("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")], 0),
        ],
    );
}

#[test]
fn an_incomplete_decision_record_is_noticed() {
    let complete = DECISION_SECTIONS.map(|section| format!("## {section}\n\nText.\n")).concat();
    let shorter = complete.replace("## Consequence", "Consequence");
    check(
        decisions,
        &[
            (&[("docs/decisions/0001-crates.md", &complete)], 0),
            (&[("docs/decisions/0001-crates.md", &shorter)], 1),
            (&[("docs/decisions/1-crates.md", &complete), ("docs/decisions/0002-b.md", &complete)], 1),
            (&[("docs/decisions/0001-a.md", &complete), ("docs/decisions/0001-b.md", &complete)], 1),
            (&[], 1),
        ],
    );
}

#[test]
fn an_ignored_test_is_noticed() {
    check(
        no_ignored_tests,
        &[
            (&[("a.rs", "#[test]\n#[ignore]\nfn f() {}")], 1),
            (&[("a.rs", "#[ignore = \"slow\"]")], 1),
            (&[("a.rs", "let ignore = 1;")], 0),
        ],
    );
}

#[test]
fn a_clock_that_is_read_outside_the_runtime_is_noticed() {
    let reads = "fn f() { let now = Instant::now(); }";
    check(
        clocks::are_read_by_the_runtime,
        &[
            (&[("crates/agent/src/reconciler/pace.rs", reads)], 1),
            (
                &[(
                    "crates/observe/src/http/health.rs",
                    "use jiff::Timestamp;\nfn f() { Timestamp::now(); }",
                )],
                1,
            ),
            (&[("crates/agent/src/runtime/clock.rs", reads)], 0),
            (&[("crates/agent/tests/time.rs", reads), ("crates/portway/src/main.rs", reads)], 0),
            (
                &[(
                    "crates/observe/src/health.rs",
                    "// Instant::now\n#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }",
                )],
                0,
            ),
            (&[("crates/observe/src/socket/timed.rs", "fn f() {}")], 1),
        ],
    );
}
