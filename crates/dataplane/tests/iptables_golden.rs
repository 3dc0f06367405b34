//! The rules that guides show: the text of whole clusters, in files. `cargo xtask bless` rewrites them.
//!
//! As root, both iptables programs are asked whether they understand each text, and then take it, in a namespace of its own.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod iptables_guides;
mod iptables_tool;

use std::path::PathBuf;

use dataplane::iptables::render;
use iptables_guides as guides;

#[test]
fn rules_are_those_that_guides_show() {
    let mut wrong = Vec::new();
    for guide in guides::all() {
        let text = render(&guide.table, guide.family, &guide.options);
        let file = file(guide.name);
        if std::env::var_os("PORTWAY_BLESS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = text.lines().zip(expected.lines()).find(|(one, other)| one != other);
        if text != expected {
            wrong.push(format!("{}: first {differs:?}", guide.name));
        }
    }
    assert!(wrong.is_empty(), "`cargo xtask bless` takes them as they are: {wrong:#?}");
}

#[test]
fn the_chains_of_a_guide_have_the_names_that_it_shows() {
    let guides = guides::all();
    let guide = guides.iter().find(|guide| guide.name == "device-gateway-traffic").unwrap();
    let text = render(&guide.table, guide.family, &guide.options);
    for rule in [
        r#""default/kubernetes:https cluster IP" -m tcp -p tcp -d 10.96.0.1 --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y"#,
        r#""kube-system/kube-dns:dns cluster IP" -m udp -p udp -d 10.96.0.10 --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU"#,
        r#""kube-system/kube-dns:dns-tcp cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4"#,
        r#""kube-system/kube-dns:metrics cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 9153 -j KUBE-SVC-JD5MR3NA4I4DYORP"#,
    ] {
        assert!(text.contains(&format!("-A KUBE-SERVICES -m comment --comment {rule}\n")), "{rule}\n{text}");
    }
}

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "iptables_golden", &format!("{name}.txt")].iter().collect()
}

mod needs_root {
    use dataplane::iptables::Renderer;
    use kernel::xtables::{FoundRule, FoundTable, Table};

    use super::guides::{self, Guide};
    use super::iptables_tool::{Tool, VARIANTS};

    #[test]
    fn root_both_programs_take_every_text_and_the_kernel_gives_the_same_rules_back() {
        'programs: for variant in VARIANTS {
            let (mut texts, mut rules) = (0, 0);
            for guide in guides::all().into_iter().chain(guides::long_names()) {
                match Tool::new(variant, guide.family) {
                    Ok(tool) => (texts, rules) = (texts + 1, rules + take(&tool, &guide)),
                    Err(reason) => {
                        eprintln!("skipped: iptables-{variant}: {reason}");
                        continue 'programs;
                    }
                }
            }
            eprintln!("counted: {rules} rules of {texts} texts, back from iptables-{variant}");
        }
    }

    /// How many rules came back.
    fn take(tool: &Tool, guide: &Guide) -> usize {
        let text = super::render(&guide.table, guide.family, &guide.options);
        for arguments in [&["--noflush", "--test"][..], &["--noflush"]] {
            assert_eq!(tool.restore(arguments, &text), Ok(()), "{arguments:?} of {}:\n{text}", guide.name);
        }
        let tables = Renderer::new(&guide.table, guide.family, &guide.options).tables();
        let mut count = 0;
        for table in [Table::Filter, Table::Nat] {
            let found = FoundTable::parse(&tool.save(table).unwrap());
            for chain in tables.chains(table) {
                let same = found.chains.iter().find(|found| found.name == chain.name.as_str()).unwrap();
                let expected: Vec<_> = chain.rules.iter().cloned().map(FoundRule::Known).collect();
                assert_eq!(same.rules, expected, "{table} {} of {}", chain.name, guide.name);
                count += expected.len();
            }
        }
        count
    }
}
