//! The rules that the first guides show: the text of whole clusters, in files. `cargo xtask bless` rewrites them.
//!
//! As root, both iptables programs take each text, in a namespace of its own, and print the documents' lines word for word.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod iptables_guides;
mod iptables_tool;
mod userspace_guides;

use std::path::PathBuf;

use dataplane::userspace::{Options, render};
use kernel::xtables::{Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;
use userspace_guides::{self as guides, Guide};

#[test]
fn rules_are_those_that_are_in_the_files() {
    let mut wrong = Vec::new();
    let kinds = guides::kinds().into_iter().filter(|guide| guide.name != "long names");
    for guide in guides::documents().into_iter().chain(kinds) {
        let text = text(&guide);
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
fn every_line_of_the_documents_is_printed_as_they_print_it() {
    for guide in guides::documents() {
        let mut twin = Simulated::new(Variant::Legacy, kernel::xtables::Family::V4);
        twin.restore(&text(&guide)).unwrap();
        has_lines(&guide, &twin.save(Table::Nat).unwrap().unwrap());
    }
}

fn text(guide: &Guide) -> String {
    render(&guide.table, guide.family, &Options::default(), guide.ports.clone())
}

/// Those lines, in their order, though others may stand between them.
fn has_lines(guide: &Guide, saved: &str) {
    // One document leaves comments out.
    let without = saved.replace("-m comment --comment \"default/one:\" ", "");
    let all: Vec<&str> = saved.lines().chain(without.lines()).collect();
    for line in guide.lines {
        assert!(all.contains(line), "{}: {line}\n{saved}", guide.name);
    }
}

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "userspace_golden", &format!("{name}.txt")].iter().collect()
}

mod needs_root {
    use dataplane::registry::known_chains;
    use dataplane::upstream::clear_all;
    use dataplane::userspace::{Options, Userspace, tables};
    use dataplane::{Dataplane, Scope, relay};
    use kernel::xtables::{FoundRule, FoundTable, Programs, Table, Variant, Xtables};
    use playground::namespace::Namespace;

    use super::guides::{self, Guide};
    use super::iptables_tool::{Tool, VARIANTS};

    #[test]
    fn root_both_programs_take_every_text_and_the_kernel_gives_the_same_rules_back() {
        for variant in VARIANTS {
            let (mut texts, mut rules) = (0, 0);
            for guide in guides::documents().into_iter().chain(guides::kinds()) {
                match Tool::new(variant, guide.family) {
                    Ok(tool) => (texts, rules) = (texts + 1, rules + take(&tool, &guide)),
                    Err(reason) => return eprintln!("skipped: iptables-{variant}: {reason}"),
                }
            }
            eprintln!("counted: {rules} rules of {texts} texts of userspace, back from iptables-{variant}");
        }
    }

    #[test]
    fn root_a_process_that_finds_the_rules_of_a_killed_one_binds_its_ports_and_writes_nothing() {
        // Names that are longer than a comment are those of no Service.
        let kinds = guides::kinds().into_iter().filter(|guide| guide.name != "long names");
        for guide in guides::documents().into_iter().chain(kinds) {
            let found = Programs::find().programs;
            let namespace = match Namespace::create() {
                Ok(namespace) if found.len() == 4 => namespace,
                Ok(_) => return eprintln!("skipped: not both iptables programs are installed"),
                Err(error) => return eprintln!("skipped: no network namespace: {error}"),
            };
            let lives = || {
                for variant in Variant::ALL {
                    let doors = || found.iter().filter(|door| door.variant() == variant).cloned();
                    // Somebody else has the first ports by the time of the second life.
                    let (one, other) =
                        (relay::Simulated::default(), relay::Simulated::with_range(50_000..=60_000));
                    let mut first = Userspace::new(doors(), one, Options::default());
                    assert!(first.sync(&guide.table, Scope::Everything).unwrap().operations > 0);
                    let mut second = Userspace::new(doors(), other, Options::default());
                    let synced = second.sync(&guide.table, Scope::Everything).unwrap();
                    assert_eq!((synced.operations, second.ports()), (0, first.ports()), "{}", guide.name);
                    doors().for_each(|mut door| clear_all(known_chains(), &mut door).unwrap());
                    let left: Vec<String> =
                        doors().map(|mut door| door.save(Table::Nat).unwrap().unwrap()).collect();
                    assert!(!left.concat().contains("KUBE-"), "{left:?}");
                }
            };
            namespace.run(lives).unwrap();
        }
    }

    /// How many rules came back.
    fn take(tool: &Tool, guide: &Guide) -> usize {
        let text = super::text(guide);
        for arguments in [&["--noflush", "--test"][..], &["--noflush"]] {
            assert_eq!(tool.restore(arguments, &text), Ok(()), "{arguments:?} of {}:\n{text}", guide.name);
        }
        super::has_lines(guide, &tool.save(Table::Nat).unwrap());
        let tables = tables(&guide.table, guide.family, &Options::default(), guide.ports.clone());
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
