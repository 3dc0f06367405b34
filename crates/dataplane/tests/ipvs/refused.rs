//! What the kernel refuses, or somebody else has taken: told by name, and nobody else suffers.

use super::*;

#[test]
fn hundreds_that_are_refused_take_nobody_along_and_cost_two_passes() {
    let good = web("b", "10.96.0.2", "TCP", &["10.244.0.2"]);
    let table = of(&[many(300, "10.244.0.1", "portway.io/ipvs-scheduler=nq"), good]);
    let (mut mode, _) = fresh();
    mode.doors().servers.forget_scheduler("nq");
    let synced = everything(&mut mode, &table);
    assert_eq!(synced.refused.len(), 300);
    assert!(synced.refused.values().all(|reason| reason.contains("ip_vs_nq")));
    assert_eq!(weights(&mut mode, &tcp("10.96.0.2:80")).len(), 1);
    assert!(synced.operations < 20 * 300, "{} operations", synced.operations);
    let again = everything(&mut mode, &table);
    assert_eq!(again.refused, synced.refused, "it is tried again, and told again");
}

#[test]
fn a_service_whose_scheduler_is_refused_keeps_the_virtual_server_that_it_had() {
    let (mut mode, _) = fresh();
    mode.doors().servers.forget_scheduler("nq");
    everything(&mut mode, &scheduled("lc"));
    for scope in [Scope::Changed(&BTreeSet::from([id("a", Protocol::Tcp)])), Scope::Everything] {
        let synced = mode.sync(&scheduled("nq"), scope).unwrap();
        assert!(synced.refused[&id("a", Protocol::Tcp)].contains("ip_vs_nq"), "{synced:?}");
        assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "lc", "{scope:?}");
        assert_eq!(weights(&mut mode, &tcp("10.96.0.1:80")).len(), 1);
    }
    assert!(everything(&mut mode, &scheduled("rr")).refused.is_empty());
    assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "rr");
}

#[test]
fn a_virtual_server_of_somebody_else_where_a_service_is_dialled_is_told() {
    let (what, table) = (tcp("10.96.0.1:80"), a(&["10.244.0.1"]));
    let mut twin = kernel();
    add_foreign(&mut twin, what);
    let clock = Clock::default();
    let mut mode = with(&twin, Options::default(), &clock);
    for _ in 0..2 {
        let synced = everything(&mut mode, &table);
        let told = &synced.warned[&id("a", Protocol::Tcp)];
        assert!(told.contains("TCP 10.96.0.1:80 was there before, and not ours"), "{told}");
        assert_eq!(told.matches("was there before").count(), 1, "{told}");
    }
    assert_eq!(server(&mut mode, &what).unwrap().scheduler, "rr");
    let mut second = again(&mut mode, Options::default(), &clock);
    assert!(everything(&mut second, &table).warned.is_empty(), "now it is ours");
}

#[test]
fn after_a_restart_a_service_whose_scheduler_is_refused_keeps_the_virtual_server_of_the_process_before() {
    let (what, clock) = (tcp("10.96.0.1:80"), Clock::default());
    let mut first = with(&kernel(), Options::default(), &clock);
    everything(&mut first, &scheduled("lc"));
    let mut second = again(&mut first, Options::default(), &clock);
    second.doors().servers.forget_scheduler("nq");
    for _ in 0..2 {
        let synced = everything(&mut second, &scheduled("nq"));
        assert!(synced.refused[&id("a", Protocol::Tcp)].contains("ip_vs_nq"), "{synced:?}");
        assert_eq!(server(&mut second, &what).unwrap().scheduler, "lc");
        assert_eq!(weights(&mut second, &what).len(), 1);
        assert!(!second.is_flushed().unwrap(), "its address stays, too");
    }
    assert!(everything(&mut second, &scheduled("rr")).refused.is_empty());
    assert_eq!(server(&mut second, &what).unwrap().scheduler, "rr");
    let (whole, (mut fresh, _)) = (listing(&mut second), fresh());
    everything(&mut fresh, &scheduled("rr"));
    everything(&mut second, &scheduled("rr"));
    assert_eq!(whole, listing(&mut fresh), "nothing is left of what was kept");
}
