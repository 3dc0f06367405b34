//! The same steps on the real kernel and on its simulated twin end alike: same listings, same refusals.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use common::layout::{self, TABLE};
use kernel::nft::{
    Chain, ChainKind, Element, Error, Family, Field, Flags, Hook, HookPoint, Kernel, Listed, Match,
    Operation, Part, Policy, PriorityFrom, Rule, Selector, Set, Statement, Transaction, Value, Verdict,
};
use kernel_sim::nft::Simulated;

/// Handles are the kernel's own numbers; all else must agree.
fn without_handles(listed: Option<Listed>) -> Option<Listed> {
    listed.map(|mut listed| {
        listed.rules.values_mut().flatten().for_each(|rule| rule.handle = 0);
        listed
    })
}

#[test]
fn root_the_full_layout_is_listed_as_it_was_written() {
    let Some(mut real) = common::own_kernel() else { return };
    let mut twin = Simulated::default();
    for family in Family::ALL {
        let transaction = layout::full(family);
        real.run(&transaction).unwrap();
        twin.run(&transaction).unwrap();
        let observed = without_handles(real.list(family, TABLE).unwrap()).unwrap();
        let expected = without_handles(twin.list(family, TABLE).unwrap()).unwrap();
        assert_eq!(observed.table, expected.table);
        assert_eq!(observed.chains, expected.chains);
        for (chain, rules) in &expected.rules {
            for (index, rule) in rules.iter().enumerate() {
                assert_eq!(observed.rules[chain][index], *rule, "{family} {chain} {index}");
            }
        }
        for (name, set) in &expected.sets {
            assert_eq!(observed.sets.get(name), Some(set), "{family} {name}");
        }
        assert_eq!(observed, expected);
    }
}

#[test]
fn root_writing_the_layout_again_changes_nothing() {
    let Some(mut real) = common::own_kernel() else { return };
    for family in Family::ALL {
        real.run(&layout::full(family)).unwrap();
        let first = without_handles(real.list(family, TABLE).unwrap());
        real.run(&layout::full(family)).unwrap();
        assert_eq!(without_handles(real.list(family, TABLE).unwrap()), first);
    }
}

#[test]
fn root_an_absent_table_is_listed_as_absent() {
    let Some(mut real) = common::own_kernel() else { return };
    assert_eq!(real.list(Family::V4, TABLE).unwrap(), None);
    assert_eq!(Simulated::default().list(Family::V4, TABLE).unwrap(), None);
}

/// Runs each step on both, and compares what they say and what they hold.
fn agree(steps: Vec<(&str, Vec<Operation>, Option<i32>)>) {
    let Some(mut real) = common::own_kernel() else { return };
    let mut twin = Simulated::default();
    for (name, operations, expected) in steps {
        let mut transaction = Transaction::new(Family::V4, TABLE);
        transaction.extend(operations);
        let (said, meant) = (real.run(&transaction), twin.run(&transaction));
        assert_eq!(number(&said), expected, "the kernel, {name}: {said:?}");
        assert_eq!(number(&meant), expected, "the twin, {name}: {meant:?}");
        assert_eq!(place(&said), place(&meant), "{name}: {said:?} {meant:?}");
        let real = without_handles(real.list(Family::V4, TABLE).unwrap());
        assert_eq!(real, without_handles(twin.list(Family::V4, TABLE).unwrap()), "{name}");
    }
}

fn number(result: &Result<(), Error>) -> Option<i32> {
    match result {
        Ok(()) => None,
        Err(Error::Refused { refusal, .. } | Error::Whole { refusal }) => Some(refusal.errno.0),
        Err(other) => panic!("{other}"),
    }
}

fn place(result: &Result<(), Error>) -> Option<(usize, Option<usize>)> {
    match result {
        Err(Error::Refused { index, element, .. }) => Some((*index, *element)),
        _ => None,
    }
}

fn nat(name: &str, point: HookPoint, priority: i32) -> Operation {
    let hook = Hook { kind: ChainKind::Nat, point, priority, policy: Policy::Accept };
    Operation::AddChain(Chain::base(name, hook))
}

fn chain(name: &str) -> Operation {
    Operation::AddChain(Chain::new(name))
}

fn rule(chain: &str, statements: Vec<Statement>) -> Operation {
    Operation::AddRule(Rule::new(chain, statements))
}

fn port(port: u16) -> Element {
    Element::new(&[Value::Port(port)])
}

fn goto(port: u16, chain: &str) -> Element {
    self::port(port).verdict(Verdict::Goto(chain.into()))
}

#[test]
fn root_missing_and_present_things_are_refused_alike() {
    let ports = || Operation::AddSet(Set::new("ports", &[Field::Port]));
    let in_ports =
        || Statement::Match(Match::InSet { key: vec![Selector::Port], set: "ports".into(), not: false });
    agree(vec![
        ("chain without table", vec![chain("a")], Some(libc::ENOENT)),
        ("table", vec![Operation::AddTable(Some("first".into()))], None),
        ("table again keeps its comment", vec![Operation::AddTable(Some("second".into()))], None),
        ("rule without chain", vec![chain("a"), rule("b", vec![])], Some(libc::ENOENT)),
        ("nothing of it was applied", vec![rule("a", vec![])], Some(libc::ENOENT)),
        ("chains", vec![chain("a"), chain("b")], None),
        ("chain again", vec![chain("a")], None),
        ("chain becomes a base chain", vec![nat("a", HookPoint::Prerouting, -100)], Some(libc::EOPNOTSUPP)),
        ("rule names no set", vec![rule("a", vec![in_ports()])], Some(libc::ENOENT)),
        ("rule leads nowhere", vec![rule("a", vec![Statement::jump("c")])], Some(libc::ENOENT)),
        ("set", vec![ports()], None),
        ("set again", vec![ports()], None),
        (
            "set of another shape",
            vec![Operation::AddSet(Set::new("ports", &[Field::Mark]))],
            Some(libc::EEXIST),
        ),
        ("rules", vec![rule("a", vec![in_ports(), Statement::jump("b")])], None),
        ("set in use", vec![Operation::DeleteSet("ports".into())], Some(libc::EBUSY)),
        ("chain in use", vec![Operation::DeleteChain("b".into())], Some(libc::EBUSY)),
        ("absent chain", vec![Operation::DeleteChain("c".into())], Some(libc::ENOENT)),
        ("absent set", vec![Operation::DeleteSet("c".into())], Some(libc::ENOENT)),
        ("absent rule", vec![Operation::DeleteRule("a".into(), 4_711)], Some(libc::ENOENT)),
        ("rule of an absent chain", vec![Operation::DeleteRule("c".into(), 1)], Some(libc::ENOENT)),
        ("flush of an absent chain", vec![Operation::FlushChain("c".into())], Some(libc::ENOENT)),
        (
            "chain and set together with their last use",
            vec![
                Operation::FlushChain("a".into()),
                Operation::DeleteChain("b".into()),
                Operation::DeleteSet("ports".into()),
            ],
            None,
        ),
        (
            "chain with its rules",
            vec![rule("a", vec![Statement::Counter]), Operation::DeleteChain("a".into())],
            None,
        ),
        ("table gone", vec![Operation::DeleteTable], None),
        ("table gone already", vec![Operation::DeleteTable], Some(libc::ENOENT)),
        ("destroyed", vec![Operation::AddTable(None), Operation::DeleteTable], None),
    ]);
}

#[test]
fn root_elements_are_refused_alike() {
    let add = |elements| Operation::AddElements("s".into(), elements);
    let delete = |elements| Operation::DeleteElements("s".into(), elements);
    let map = |elements| Operation::AddElements("m".into(), elements);
    let value = |key: u16, number| port(key).values(&[Value::Priority(number)]);
    agree(vec![
        (
            "sets",
            vec![
                Operation::AddTable(None),
                Operation::AddSet(Set { size: Some(3), ..Set::new("s", &[Field::Port]) }),
                Operation::AddSet(Set::map("m", &[Field::Port], &[Field::Priority])),
            ],
            None,
        ),
        ("absent set", vec![Operation::AddElements("x".into(), vec![port(1)])], Some(libc::ENOENT)),
        ("two", vec![add(vec![port(1), port(2)])], None),
        ("the same again", vec![add(vec![port(1)])], None),
        ("absent element", vec![add(vec![port(3)]), delete(vec![port(1), port(9)])], Some(libc::ENOENT)),
        ("too many", vec![add(vec![port(3), port(4)])], Some(libc::ENFILE)),
        ("another kind of key", vec![add(vec![Element::new(&[Value::Mark(1)])])], Some(libc::EINVAL)),
        ("value", vec![map(vec![value(1, 7), value(2, 7)])], None),
        ("same value", vec![map(vec![value(1, 7)])], None),
        ("another value", vec![map(vec![value(3, 7), value(1, 8)])], Some(libc::EEXIST)),
        (
            "replaced",
            vec![Operation::DeleteElements("m".into(), vec![port(1)]), map(vec![value(1, 8)])],
            None,
        ),
        ("no value", vec![map(vec![port(5)])], Some(libc::EINVAL)),
        ("flushed", vec![Operation::FlushSet("m".into()), Operation::FlushSet("s".into())], None),
    ]);
}

#[test]
fn root_intervals_are_refused_alike() {
    let prefix = |text: &str, length| Part::Prefix(text.parse().unwrap(), length);
    let one = |text: &str, length| Element::interval(&[prefix(text, length)]);
    let two =
        |text: &str, length, port| Element::interval(&[prefix(text, length), Part::Exact(Value::Port(port))]);
    let flags = Flags { interval: true, ..Flags::default() };
    let add = |set: &str, elements| Operation::AddElements(set.into(), elements);
    agree(vec![
        (
            "sets",
            vec![
                Operation::AddTable(None),
                Operation::AddSet(Set { flags, ..Set::new("one", &[Field::Source]) }),
                Operation::AddSet(Set { flags, ..Set::new("two", &[Field::Source, Field::Port]) }),
            ],
            None,
        ),
        (
            "neighbours",
            vec![add("one", vec![one("10.0.0.0", 8), one("11.0.0.0", 8), one("9.0.0.1", 32)])],
            None,
        ),
        ("same again", vec![add("one", vec![one("10.0.0.0", 8)])], None),
        ("inside", vec![add("one", vec![one("10.1.0.0", 16)])], Some(libc::EEXIST)),
        ("around", vec![add("one", vec![one("10.0.0.0", 7)])], Some(libc::EEXIST)),
        ("up to the end", vec![add("one", vec![one("240.0.0.0", 4)])], None),
        ("deleted", vec![Operation::DeleteElements("one".into(), vec![one("10.0.0.0", 8)])], None),
        (
            "deleted at the end",
            vec![Operation::DeleteElements("one".into(), vec![one("240.0.0.0", 4)])],
            None,
        ),
        (
            "deleted twice",
            vec![Operation::DeleteElements("one".into(), vec![one("10.0.0.0", 8)])],
            Some(libc::ENOENT),
        ),
        ("pairs", vec![add("two", vec![two("10.0.0.0", 8, 80), two("10.0.0.0", 16, 81)])], None),
        ("same pair", vec![add("two", vec![two("10.0.0.0", 8, 80)])], None),
        ("pair inside", vec![add("two", vec![two("10.1.0.0", 16, 80)])], Some(libc::EEXIST)),
        ("pair deleted", vec![Operation::DeleteElements("two".into(), vec![two("10.0.0.0", 8, 80)])], None),
        (
            "pair absent",
            vec![Operation::DeleteElements("two".into(), vec![two("10.0.0.0", 8, 80)])],
            Some(libc::ENOENT),
        ),
    ]);
}

#[test]
fn root_verdicts_and_hooks_are_refused_alike() {
    let verdicts = |elements| Operation::AddElements("v".into(), elements);
    let lookup = || Statement::VerdictMap { key: vec![Selector::Port], map: "v".into() };
    agree(vec![
        (
            "a verdict map",
            vec![
                Operation::AddTable(None),
                chain("a"),
                chain("b"),
                nat("in", HookPoint::Prerouting, -100),
                Operation::AddSet(Set::verdict_map("v", &[Field::Port])),
                rule("in", vec![lookup()]),
            ],
            None,
        ),
        ("verdict to an absent chain", vec![verdicts(vec![goto(1, "a"), goto(2, "c")])], Some(libc::ENOENT)),
        ("verdict to a base chain", vec![verdicts(vec![goto(1, "in")])], Some(libc::EOPNOTSUPP)),
        ("verdicts", vec![verdicts(vec![goto(1, "a"), goto(2, "b")])], None),
        ("chain of a verdict", vec![Operation::DeleteChain("a".into())], Some(libc::EBUSY)),
        (
            "chain with its last verdict",
            vec![Operation::DeleteElements("v".into(), vec![port(1)]), Operation::DeleteChain("a".into())],
            None,
        ),
        ("masquerade before routing", vec![rule("b", vec![Statement::Masquerade])], Some(libc::EOPNOTSUPP)),
        ("jump to a base chain", vec![rule("b", vec![Statement::jump("in")])], Some(libc::EOPNOTSUPP)),
        (
            "priority from a set without data",
            vec![
                Operation::AddSet(Set::new("plain", &[Field::Port])),
                rule(
                    "b",
                    vec![Statement::SetPriority(PriorityFrom::Map {
                        key: vec![Selector::Port],
                        map: "plain".into(),
                    })],
                ),
            ],
            Some(libc::EINVAL),
        ),
    ]);
}

#[test]
fn root_a_refusal_names_the_operation_and_the_element() {
    let Some(mut real) = common::own_kernel() else { return };
    let mut transaction = Transaction::new(Family::V4, TABLE);
    transaction.push(Operation::AddTable(None));
    transaction.push(Operation::AddSet(Set::verdict_map("v", &[Field::Port])));
    transaction.push(chain("a"));
    let elements = (0..5000).map(|number| goto(number, if number == 4321 { "b" } else { "a" })).collect();
    transaction.push(Operation::AddElements("v".into(), elements));
    let error = real.run(&transaction).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the kernel refused operation 4 of 4 (add element ip kube-proxy v { 4321 : goto b }): ENOENT: no such file \
         or directory; something that it names is not there: nothing was applied"
    );
    assert!(!error.retry_helps());
    assert_eq!(real.list(Family::V4, TABLE).unwrap(), None);
}

#[test]
fn root_of_thousands_of_refusals_the_first_is_told() {
    let Some(mut real) = common::own_kernel() else { return };
    let mut transaction = Transaction::new(Family::V4, TABLE);
    transaction.push(Operation::AddTable(None));
    transaction.extend((0..5000).map(|number| Operation::DeleteChain(format!("absent-{number}").into())));
    let error = real.run(&transaction).unwrap_err();
    let expected = "operation 2 of 5001 (delete chain ip kube-proxy absent-0)";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn root_somebody_elses_table_is_listed_without_failing() {
    let Some(mut real) = common::own_kernel() else { return };
    let foreign = "table ip kube-proxy {
        comment \"somebody else\"
        set old { type ipv4_addr; elements = { 10.0.0.1 }; }
        map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.0.0.1 . tcp . 80 : drop }; }
        chain mangle { type route hook output priority -150; policy accept; }
        chain services { tcp dport { 80, 443 } counter ct mark set 0x1 limit rate 5/second log prefix \"x\" accept; }
    }";
    let Some(output) = common::run("nft", &["-f", "-"], foreign) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = real.list(Family::V4, TABLE).unwrap().unwrap();
    assert!(listed.unknown.contains(&"chain mangle".to_owned()), "{:?}", listed.unknown);
    assert!(listed.unknown.contains(&"set service-ips".to_owned()), "{:?}", listed.unknown);
    assert!(listed.chains.contains_key("services"));
    real.run(&layout::full(Family::V4)).unwrap();
    let listed = real.list(Family::V4, TABLE).unwrap().unwrap();
    assert_eq!(listed.unknown, Vec::<String>::new(), "taken over in one transaction");
}

#[test]
fn root_a_transaction_for_an_older_generation_is_not_applied() {
    let Some(mut real) = common::own_kernel() else { return };
    let mut twin = Simulated::default();
    let kernels: [&mut dyn Kernel; 2] = [&mut real, &mut twin];
    for kernel in kernels {
        let mut transaction = Transaction::new(Family::V4, TABLE);
        transaction.push(Operation::AddTable(None));
        transaction.only_in_generation = Some(kernel.generation().unwrap());
        kernel.run(&transaction).unwrap();
        let error = kernel.run(&transaction).unwrap_err();
        assert_eq!(error, Error::Raced);
        assert!(error.retry_helps());
    }
}
