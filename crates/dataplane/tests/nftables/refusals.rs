//! A kernel that refuses: nothing is half applied, the last good rules stay, the error names what was refused, and the next
//! sync converges. One Service that is refused does not hold back the others.

use dataplane::SyncError;
use kernel::nft::Error;
use kernel_sim::nft::{Answer, Fault};

use super::*;
use crate::world::World;

/// The number that is injected, and what the message must say of it.
const FAULTS: [(i32, &str); 5] = [
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::EBUSY, "the kernel refused operation 1 of"),
    (libc::EINTR, "somebody else changed nf_tables meanwhile"),
    (libc::ENOMEM, "out of memory"),
    (libc::EPERM, "run as root"),
];

#[test]
fn after_a_fault_at_any_transaction_the_next_sync_converges() {
    let mut injected = 0;
    for (errno, said) in FAULTS {
        for seed in 0..6 {
            let (mut world, mut mode, mut is_clean) = (World::new(seed), empty(), false);
            for _ in 0..15 {
                let ids = world.step().before.into_keys().collect();
                let list =
                    |mode: &mut Mode| Family::ALL.map(|family| mode.kernel().list(family, TABLE).unwrap());
                let before = list(&mut mode);
                mode.kernel().refuse_next(usize::from(world.random.one_in(2)), errno);
                let result = mode.sync(&world.table, Scope::Changed(&ids));
                let settled = mode.settle();
                mode.kernel().stop_refusing();
                if let Err(error) = &result {
                    injected += 1;
                    assert!(error.to_string().contains(said), "{error}");
                    assert_eq!(error.retry_helps(), errno != libc::EPERM);
                    // One family was refused; the other was written.
                    let same = before.iter().zip(list(&mut mode)).filter(|(a, b)| **a == *b).count();
                    assert!(same >= 1, "nothing is half applied");
                }
                is_clean = result.is_ok() && settled.is_ok();
            }
            let synced = mode.sync(&world.table, Scope::Changed(&BTreeSet::new())).unwrap();
            assert!(is_clean || synced.was_full, "after a fault the kernel is read");
            mode.settle().unwrap();
            assert_as_from_scratch(&mut mode, &world.table);
        }
    }
    eprintln!("counted: {injected} syncs refused by {} kinds of faults", FAULTS.len());
}

#[test]
fn a_fault_in_the_middle_of_a_cold_start_is_made_good() {
    let small = web();
    for passed in 0..8 {
        let mut mode = Nftables::new(Faulty::new(Simulated::default()), Options::default());
        mode.kernel().on_write(passed, Fault::Refuse(Answer::Error(Error::OutOfMemory)));
        let is_refused = mode.sync(&small.table, Scope::Everything).is_err();
        // Table, new chains, services and base chains of IPv4; table and base chains of IPv6.
        assert_eq!(is_refused, passed < 6);
        let synced = mode.sync(&small.table, Scope::Changed(&BTreeSet::new())).unwrap();
        assert_eq!(synced.was_full, is_refused);
        assert_as_from_scratch(&mut mode, &small.table);
    }
}

/// Of three Services, the kernel takes no element of the second one's address.
fn three_services() -> Small {
    let service = |n: usize| format!("svc s{n} 10.96.0.{n} 80\nep s{n} 8080 10.244.1.1@a 10.244.1.2@a\n");
    Small::of(&(1..=3).map(service).collect::<String>())
}

#[test]
fn a_refused_change_leaves_the_service_as_it_was() {
    let mut small = three_services();
    let mut mode = written(&mut small);
    let before = small.table.clone();
    small.endpoints("s2", &["10.244.1.1", "10.244.1.2", "10.244.1.3"]);
    mode.kernel().refuse_address([10, 96, 0, 2].into(), libc::ENFILE);
    assert_eq!(changed(&mut mode, &mut small).refused.len(), 1);
    mode.settle().unwrap();
    assert_as_from_scratch(&mut mode, &before);
    // A full sync tries again, in vain, and leaves it as it was again.
    assert_eq!(everything(&mut mode, &small).refused.len(), 1);
    mode.settle().unwrap();
    assert_as_from_scratch(&mut mode, &before);
    // A change of it is tried at once.
    mode.kernel().stop_refusing();
    small.endpoints("s2", &["10.244.1.7"]);
    assert!(changed(&mut mode, &mut small).refused.is_empty());
    mode.settle().unwrap();
    assert_as_from_scratch(&mut mode, &small.table);
}

#[test]
fn a_passing_refusal_withholds_nobody() {
    let mut mode = empty();
    mode.kernel().refuse_address([10, 96, 0, 2].into(), libc::ENOMEM);
    let error = mode.sync(&three_services().table, Scope::Everything).unwrap_err();
    assert!(error.retry_helps());
    assert!(matches!(error, SyncError::Nft(_)));
}

#[test]
fn cleanup_leaves_tables_of_others_alone() {
    let mut mode = empty();
    write(mode.kernel(), Family::V4, TABLE, [Operation::AddTable(Some("rules for kube-proxy".into()))]);
    mode.sync(&ForwardingTable::default(), Scope::Changed(&BTreeSet::new())).unwrap();
    write(mode.kernel(), Family::V4, "mine", [Operation::AddTable(None)]);
    mode.cleanup().unwrap();
    let left: Vec<_> = Family::ALL.iter().flat_map(|f| mode.kernel().tables(*f).unwrap()).collect();
    assert!(left.len() == 1 && &*left[0].name == "mine", "{left:?}");
}
