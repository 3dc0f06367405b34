//! What the kernel refuses, or somebody else has taken: told by name, and nobody else suffers.

use super::*;

#[test]
fn hundreds_that_are_refused_take_nobody_along_and_cost_two_passes() {
    let many = 300_u16;
    let objects = |n: u16| {
        let mut objects = annotated(
            web("a", &format!("10.96.{}.{}", 1 + n / 200, n % 200), "TCP", &["10.244.0.1"]),
            "portway.io/ipvs-scheduler",
            "nq",
        );
        objects[0]["metadata"]["name"] = json!(format!("a{n}"));
        objects[1]["metadata"]["name"] = json!(format!("a{n}-1"));
        objects[0]["spec"]["ports"][0]["nodePort"] = json!(30_000 + n);
        objects[1]["metadata"]["labels"]["kubernetes.io/service-name"] = json!(format!("a{n}"));
        objects
    };
    let good = web("b", "10.96.0.2", "TCP", &["10.244.0.2"]);
    let table = of(&(0..many).map(objects).chain([good]).collect::<Vec<_>>());
    let (mut mode, _) = fresh();
    mode.doors().servers.forget_scheduler("nq");
    let synced = mode.sync(&table, Scope::Everything).unwrap();
    assert_eq!(synced.refused.len(), usize::from(many));
    assert!(synced.refused.values().all(|reason| reason.contains("ip_vs_nq")));
    assert_eq!(weights(&mut mode, &tcp("10.96.0.2:80")).len(), 1);
    assert!(synced.operations < 20 * usize::from(many), "{} operations", synced.operations);
    let again = mode.sync(&table, Scope::Everything).unwrap();
    assert_eq!(again.refused, synced.refused, "it is tried again, and told again");
}

#[test]
fn a_service_whose_scheduler_is_refused_keeps_the_virtual_server_that_it_had() {
    let web = |scheduler: &str| {
        of(&[annotated(
            web("a", "10.96.0.1", "TCP", &["10.244.0.1"]),
            "portway.io/ipvs-scheduler",
            scheduler,
        )])
    };
    let (mut mode, _) = fresh();
    mode.doors().servers.forget_scheduler("nq");
    mode.sync(&web("lc"), Scope::Everything).unwrap();
    for scope in [Scope::Changed(&BTreeSet::from([id("a", Protocol::Tcp)])), Scope::Everything] {
        let synced = mode.sync(&web("nq"), scope).unwrap();
        assert!(synced.refused[&id("a", Protocol::Tcp)].contains("ip_vs_nq"), "{synced:?}");
        assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "lc", "{scope:?}");
        assert_eq!(weights(&mut mode, &tcp("10.96.0.1:80")).len(), 1);
    }
    assert!(mode.sync(&web("rr"), Scope::Everything).unwrap().refused.is_empty());
    assert_eq!(server(&mut mode, &tcp("10.96.0.1:80")).unwrap().scheduler, "rr");
}

#[test]
fn a_virtual_server_of_somebody_else_where_a_service_is_dialled_is_told() {
    let (what, table) = (tcp("10.96.0.1:80"), of(&[web("a", "10.96.0.1", "TCP", &["10.244.0.1"])]));
    let mut twin = kernel();
    let real = RealServer::masquerading(at("192.0.2.1:80"), 5);
    let added = [Request::Add(VirtualServer::new(what, "lc")), Request::AddServer(what, real)];
    assert!(twin.servers.run(&added).unwrap().is_empty());
    let clock = Clock::default();
    let mut mode = with(&twin, Options::default(), &clock);
    for _ in 0..2 {
        let synced = mode.sync(&table, Scope::Everything).unwrap();
        let told = &synced.warned[&id("a", Protocol::Tcp)];
        assert!(told.contains("TCP 10.96.0.1:80 was there before, and not ours"), "{told}");
        assert_eq!(told.matches("was there before").count(), 1, "{told}");
    }
    assert_eq!(server(&mut mode, &what).unwrap().scheduler, "rr");
    let mut second = again(&mut mode, Options::default(), &clock);
    assert!(second.sync(&table, Scope::Everything).unwrap().warned.is_empty(), "now it is ours");
}

#[test]
fn after_a_restart_a_service_whose_scheduler_is_refused_keeps_the_virtual_server_of_the_process_before() {
    let (what, clock) = (tcp("10.96.0.1:80"), Clock::default());
    let services = |scheduler: &str| {
        let web = web("a", "10.96.0.1", "TCP", &["10.244.0.1"]);
        of(&[annotated(web, "portway.io/ipvs-scheduler", scheduler)])
    };
    let mut first = with(&kernel(), Options::default(), &clock);
    first.sync(&services("lc"), Scope::Everything).unwrap();
    let mut second = again(&mut first, Options::default(), &clock);
    second.doors().servers.forget_scheduler("nq");
    for _ in 0..2 {
        let synced = second.sync(&services("nq"), Scope::Everything).unwrap();
        assert!(synced.refused[&id("a", Protocol::Tcp)].contains("ip_vs_nq"), "{synced:?}");
        assert_eq!(server(&mut second, &what).unwrap().scheduler, "lc");
        assert_eq!(weights(&mut second, &what).len(), 1);
        assert!(!second.is_flushed().unwrap(), "its address stays, too");
    }
    assert!(second.sync(&services("rr"), Scope::Everything).unwrap().refused.is_empty());
    assert_eq!(server(&mut second, &what).unwrap().scheduler, "rr");
    let (whole, mut fresh) = (canonical(&mut second), with(&kernel(), Options::default(), &clock));
    fresh.sync(&services("rr"), Scope::Everything).unwrap();
    second.sync(&services("rr"), Scope::Everything).unwrap();
    assert_eq!(whole, canonical(&mut fresh), "nothing is left of what was kept");
}
