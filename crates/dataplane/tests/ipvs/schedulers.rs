//! How virtual servers choose: by option, by annotation, and on a kernel that lacks a module.

use super::*;

#[test]
fn schedulers_are_the_kernels_by_option_and_by_annotation() {
    let what = tcp("10.96.0.1:80");
    let endpoints = ["10.244.0.1", "10.244.0.2"];
    let weights_of = "portway.io/weights=10.244.0.1=3,10.244.0.2=1";
    for (option, keys, expected, first) in [
        (None, "", "rr", 1),
        (None, weights_of, "wrr", 3),
        (Some("lc"), "", "lc", 1),
        (Some("lc"), weights_of, "lc", 3),
        (Some("lc"), "portway.io/ipvs-scheduler=sh", "sh", 1),
    ] {
        let table = of(&[web_with("a", "10.96.0.1", "TCP", &endpoints, keys)]);
        let scheduler = option.map(|name| Scheduler::named(name).unwrap());
        let mut mode = with(&kernel(), Options { scheduler, ..Options::default() }, &Clock::default());
        assert!(everything(&mut mode, &table).warned.is_empty());
        assert_eq!(server(&mut mode, &what).unwrap().scheduler, expected);
        assert_eq!(weights(&mut mode, &what)[0].1, first, "{expected}");
    }
}

#[test]
fn an_unknown_scheduler_is_refused_by_name_and_one_without_a_module_takes_nobody_else_along() {
    assert_eq!(
        Scheduler::named("lest").unwrap_err().to_string(),
        "unknown IPVS scheduler `lest`: it must be one of rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh"
    );
    let (mut mode, _) = fresh();
    let synced = everything(&mut mode, &scheduled("lest"));
    assert!(synced.warned[&id("a", Protocol::Tcp)].contains("`lest`"), "{synced:?}");
    assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "rr");
    mode.doors().servers.forget_scheduler("nq");
    let nq = web_with("a", "10.96.0.1", "TCP", &["10.244.0.1"], "portway.io/ipvs-scheduler=nq");
    let both = of(&[nq, web("b", "10.96.0.2", "TCP", &["10.244.0.2"])]);
    let synced = everything(&mut mode, &both);
    assert!(synced.refused[&id("a", Protocol::Tcp)].contains("nq"), "{synced:?}");
    assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "rr", "it stays as it was");
    assert_eq!(weights(&mut mode, &tcp("10.96.0.2:80")).len(), 1);
}

#[test]
fn a_new_service_whose_scheduler_has_no_module_is_refused_with_the_name_of_the_scheduler() {
    let (mut mode, _) = fresh();
    mode.doors().servers.forget_scheduler("nq");
    let synced = everything(&mut mode, &scheduled("nq"));
    let reason = &synced.refused[&id("a", Protocol::Tcp)];
    assert!(reason.contains("nq") && !reason.contains("real server"), "{reason}");
}

#[test]
fn every_scheduler_of_the_kernel_can_be_chosen_for_all_services() {
    let table = a(&["10.244.0.1", "10.244.0.2"]);
    for name in dataplane::ipvs::IPVS_SCHEDULERS {
        let scheduler = Scheduler::named(name).ok();
        let mut mode = with(&kernel(), Options { scheduler, ..Options::default() }, &Clock::default());
        let synced = everything(&mut mode, &table);
        assert!(synced.warned.is_empty() && synced.refused.is_empty(), "{name}: {synced:?}");
        let servers = servers(&mut mode);
        assert!(servers.len() == 2 && servers.iter().all(|one| one.scheduler == name), "{name}: {servers:?}");
    }
}
