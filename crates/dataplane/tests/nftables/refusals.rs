//! A kernel that refuses: nothing is half applied, the last good rules stay, the error names what was refused, and the next
//! sync converges. One Service that is refused does not hold back the others.

use dataplane::SyncError;

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
fn a_passing_refusal_withholds_nobody() {
    let mut mode = empty();
    mode.kernel().refuse_address([10, 96, 0, 2].into(), libc::ENOMEM);
    let error = mode
        .sync(&Small::of("svc two 10.96.0.2 80\nep two 8080 10.244.1.1@a").table, Scope::Everything)
        .unwrap_err();
    assert!(error.retry_helps());
    assert!(matches!(error, SyncError::Nft(_)));
}
