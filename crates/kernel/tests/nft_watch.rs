//! Notifications, probing, and dry runs on the real kernel.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::time::Duration;

use common::layout::{self, TABLE};
use kernel::nft::{
    Chain, Element, Error, Event, Family, Field, Kernel, Monitor, Netlink, Object, Operation, Set,
    Transaction, Value, probe,
};

const LIMIT: Duration = Duration::from_secs(5);

/// All events up to and including the next generation.
fn transaction_events(monitor: &mut Monitor) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = monitor.next(LIMIT).unwrap().expect("a change is told at once");
        let is_last = matches!(event, Event::Generation { .. });
        events.push(event);
        if is_last {
            return events;
        }
    }
}

#[test]
fn root_own_and_foreign_changes_are_heard_and_told_apart() {
    let Some(mut ours) = common::own_kernel() else { return };
    let mut monitor = Monitor::open().unwrap();
    let mut foreign = Netlink::open().unwrap();
    assert_ne!(ours.port(), foreign.port());
    ours.run(&layout::full(Family::V4)).unwrap();
    let events = transaction_events(&mut monitor);
    for object in [Object::Table, Object::Chain, Object::Rule, Object::Set, Object::Elements] {
        let (family, table, port) = (Family::V4, TABLE.to_owned(), ours.port());
        assert!(events.contains(&Event::Changed { family, table, object, port }), "{object:?}: {events:?}");
    }
    let Some(Event::Generation { id, thread, name }) = events.last() else { panic!("{events:?}") };
    assert_eq!(*id, ours.generation().unwrap());
    assert!(
        std::path::Path::new(&format!("/proc/self/task/{thread}")).exists(),
        "{thread} is a thread of ours"
    );
    assert!(!name.is_empty());

    let mut change = Transaction::new(Family::V4, TABLE);
    change.push(Operation::AddChain(Chain::new("intruder")));
    foreign.run(&change).unwrap();
    let events = transaction_events(&mut monitor);
    let (family, table, object, port) = (Family::V4, TABLE.to_owned(), Object::Chain, foreign.port());
    assert_eq!(events[0], Event::Changed { family, table, object, port });
    assert_eq!(monitor.next(Duration::ZERO).unwrap(), None);
}

#[test]
fn root_own_changes_need_not_be_heard_at_all() {
    let Some(mut ours) = common::own_kernel() else { return };
    let mut monitor = Monitor::of_others(ours.port()).unwrap();
    let mut foreign = Netlink::open().unwrap();
    // So much that it would be lost if it were queued.
    for _ in 0..400 {
        ours.run(&layout::full(Family::V4)).unwrap();
    }
    assert_eq!(monitor.next(Duration::ZERO).unwrap(), None);
    let mut change = Transaction::new(Family::V4, TABLE);
    change.push(Operation::AddChain(Chain::new("intruder")));
    foreign.run(&change).unwrap();
    let events = transaction_events(&mut monitor);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(matches!(events[0], Event::Changed { port, .. } if port == foreign.port()), "{events:?}");
}

#[test]
fn root_a_flood_of_notifications_is_told_as_lost() {
    let Some(mut kernel) = common::own_kernel() else { return };
    let mut monitor = Monitor::open().unwrap();
    for _ in 0..2_000 {
        kernel.run(&layout::full(Family::V4)).unwrap();
        if kernel.generation().unwrap() > 400 && lost(&mut monitor) {
            return;
        }
    }
    panic!("no notification was lost");
}

/// All elements with the same number: the state after some transaction, never between two.
fn numbered(number: u32) -> Vec<Element> {
    (0..3_000).map(|key| Element::new(&[Value::Mark(key)]).values(&[Value::Priority(number)])).collect()
}

fn renumber(before: Option<u32>, after: u32) -> Transaction {
    let mut transaction = Transaction::new(Family::V4, TABLE);
    transaction.push(Operation::AddTable(None));
    transaction.push(Operation::AddSet(Set::map("m", &[Field::Mark], &[Field::Priority])));
    transaction.delete_elements(&"m".into(), before.map(numbered).unwrap_or_default());
    transaction.add_elements(&"m".into(), numbered(after));
    transaction
}

#[test]
fn root_a_listing_is_never_a_mixture_of_two_states() {
    let Some(mut kernel) = common::own_kernel() else { return };
    kernel.run(&renumber(None, 0)).unwrap();
    // A thread begins its life in the namespace of the one that made it.
    let writer = std::thread::spawn(|| {
        let mut kernel = Netlink::open().unwrap();
        for number in 0..60 {
            kernel.run(&renumber(Some(number), number + 1)).unwrap();
        }
    });
    let (mut listings, mut raced) = (0, 0);
    loop {
        let is_last = writer.is_finished();
        match kernel.list(Family::V4, TABLE) {
            Ok(listed) => {
                let elements = listed.unwrap().sets.remove("m").unwrap().elements;
                assert_eq!(elements.len(), 3_000);
                assert!(
                    elements
                        .windows(2)
                        .all(|pair| pair[0].data == pair[1].data && pair[0].key != pair[1].key)
                );
                listings += 1;
            }
            Err(error) => {
                assert_eq!(error, Error::Raced);
                raced += 1;
            }
        }
        if is_last {
            break;
        }
    }
    writer.join().unwrap();
    eprintln!("{listings} listings of one state each, {raced} given up as raced");
}

/// Whether a loss is among all that waits.
fn lost(monitor: &mut Monitor) -> bool {
    std::iter::from_fn(|| monitor.next(Duration::ZERO).unwrap()).any(|event| event == Event::Lost)
}

#[test]
fn root_this_kernel_can_do_everything_and_probing_leaves_nothing_behind() {
    let Some(mut kernel) = common::own_kernel() else { return };
    let before = kernel.generation().unwrap();
    for family in Family::ALL {
        let missing = probe(family);
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(kernel.tables(family).unwrap(), Vec::new());
    }
    assert_eq!(kernel.generation().unwrap(), before, "nothing was ever in force");
}

#[test]
fn root_a_dry_run_answers_and_changes_nothing() {
    let Some(mut kernel) = common::own_kernel() else { return };
    kernel.check(&layout::full(Family::V4)).unwrap();
    let mut refused = layout::full(Family::V4);
    refused.push(Operation::DeleteChain("absent".into()));
    let error = kernel.check(&refused).unwrap_err();
    assert!(error.to_string().contains("delete chain ip kube-proxy absent"), "{error}");
    assert_eq!(kernel.list(Family::V4, TABLE).unwrap(), None);
}

#[test]
fn without_privilege_probing_says_so_in_one_sentence() {
    if std::fs::metadata("/proc/self/ns/net").is_err() || is_root() {
        return eprintln!("skipped: runs as root, who may do everything");
    }
    let missing = probe(Family::V4);
    assert_eq!(missing.len(), 1);
    assert!(missing[0].to_string().contains("CAP_NET_ADMIN"), "{}", missing[0]);
}

#[test]
fn root_a_process_without_privilege_is_told_so() {
    // As an ordinary user: the test program runs its own unprivileged test once more.
    let program = std::env::current_exe().expect("a test program knows its path");
    let copy = std::env::temp_dir().join(format!("portway-kernel-test-{}", std::process::id()));
    if !is_root() || !common::enter_namespace() || std::fs::copy(&program, &copy).is_err() {
        return eprintln!("skipped: needs root to become nobody");
    }
    let name = "without_privilege_probing_says_so_in_one_sentence";
    let copy_name = copy.to_string_lossy().into_owned();
    let arguments =
        ["--reuid=65534", "--regid=65534", "--clear-groups", &copy_name, "--exact", name, "--nocapture"];
    let output = common::run("setpriv", &arguments, "");
    std::fs::remove_file(&copy).unwrap();
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("skipped"), "{said}");
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
