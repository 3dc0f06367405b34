//! The text that guides show: of whole clusters, in files, for each mode that writes text. `cargo xtask bless` rewrites them.
//!
//! As root, both iptables programs are asked whether they understand each text of rules, take it, in a namespace of its own, and print
//! the documents' lines word for word.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod guides;
#[path = "../tool/mod.rs"]
mod tool;

use std::path::PathBuf;

use guides::Guide;
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;

#[test]
fn texts_are_those_that_guides_show() {
    let mut wrong = Vec::new();
    for Guide { folder, name, text, .. } in guides::all() {
        let name = format!("{name}.txt");
        let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", folder, &name].iter().collect();
        if std::env::var_os("PORTWAY_BLESS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = text.lines().zip(expected.lines()).find(|(one, other)| one != other);
        if text != expected {
            wrong.push(format!("{folder}/{name}: first {differs:?}"));
        }
    }
    assert!(wrong.is_empty(), "`cargo xtask bless` takes them as they are: {wrong:#?}");
}

#[test]
fn the_chains_of_a_guide_have_the_names_that_it_shows() {
    let guide = guides::all().into_iter().find(|guide| guide.name == "device-gateway-traffic").unwrap();
    for rule in [
        r#""default/kubernetes:https cluster IP" -m tcp -p tcp -d 10.96.0.1 --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y"#,
        r#""kube-system/kube-dns:dns cluster IP" -m udp -p udp -d 10.96.0.10 --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU"#,
        r#""kube-system/kube-dns:dns-tcp cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4"#,
        r#""kube-system/kube-dns:metrics cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 9153 -j KUBE-SVC-JD5MR3NA4I4DYORP"#,
    ] {
        has_line(&guide, &format!("-A KUBE-SERVICES -m comment --comment {rule}"), &guide.text);
    }
}

#[test]
fn every_line_of_the_documents_is_printed_as_they_print_it() {
    let mut seen = 0;
    for guide in guides::all() {
        seen += guide.lines.len();
        if guide.tables.is_none() {
            guide.lines.iter().for_each(|line| has_line(&guide, line, &guide.text));
            continue;
        }
        let family = if guide.family == model::Family::V4 { Family::V4 } else { Family::V6 };
        let mut tables = Simulated::new(Variant::Legacy, family);
        tables.restore(&guide.text).unwrap();
        has_lines(&guide, &tables.save(Table::Nat).unwrap().unwrap());
    }
    assert_eq!(seen, 6 + 2 + 1 + 5);
}

fn has_lines(guide: &Guide, saved: &str) {
    // One document leaves comments out.
    let without = saved.replace("-m comment --comment \"default/one:\" ", "");
    guide.lines.iter().for_each(|line| has_line(guide, line, &format!("{saved}\n{without}")));
}

fn has_line(guide: &Guide, line: &str, text: &str) {
    assert!(text.lines().any(|found| found == line), "{}: {line}\n{text}", guide.name);
}

mod needs_root {
    use kernel::xtables::{FoundRule, FoundTable, Table};

    use super::guides::{self, Guide};
    use super::tool::{Tool, VARIANTS};

    #[test]
    fn root_both_programs_take_every_text_and_the_kernel_gives_the_same_rules_back() {
        'programs: for variant in VARIANTS {
            let (mut texts, mut rules) = (0, 0);
            let guides = guides::all().into_iter().chain(guides::with_long_names());
            for guide in guides.filter(|guide| guide.tables.is_some()) {
                let tool = Tool::new(variant, guide.family);
                let Ok(tool) = tool.inspect_err(|why| eprintln!("skipped: iptables-{variant}: {why}")) else {
                    continue 'programs;
                };
                (texts, rules) = (texts + 1, rules + take(&tool, &guide));
            }
            eprintln!("counted: {rules} rules of {texts} texts, back from iptables-{variant}");
        }
    }

    /// How many rules came back.
    fn take(tool: &Tool, guide: &Guide) -> usize {
        let Guide { name, text, .. } = guide;
        for options in ["--noflush --test", "--noflush"] {
            assert_eq!(tool.restore(options, text), Ok(()), "{options} of {name}:\n{text}");
        }
        super::has_lines(guide, &tool.save(Table::Nat).unwrap());
        let mut count = 0;
        for table in [Table::Filter, Table::Nat] {
            let found = FoundTable::parse(&tool.save(table).unwrap());
            for chain in guide.tables.as_ref().unwrap().chains(table) {
                let same = found.chains.iter().find(|found| found.name == chain.name.as_str()).unwrap();
                let expected: Vec<_> = chain.rules.iter().cloned().map(FoundRule::Known).collect();
                assert_eq!(same.rules, expected, "{table} {} of {name}", chain.name);
                count += expected.len();
            }
        }
        count
    }
}
