//! Whose virtual servers are whose.

use super::*;

#[test]
fn virtual_servers_of_others_survive_sync_restart_and_cleanup() {
    let foreign = [tcp("203.0.113.5:80"), tcp("192.168.0.1:9999"), What::Mark(7, kernel::ipvs::Family::V4)];
    let mut twin = host();
    for what in foreign {
        add_foreign(&mut twin, what);
    }
    let before = shown(&mut twin).unwrap();
    let clock = Clock::default();
    let mut mode = with(&twin, Options::default(), &clock);
    everything(&mut mode, &a(&["10.244.0.1"]));
    let mut second = again(&mut mode, Options::default(), &clock);
    everything(&mut second, &of(&[]));
    for what in &foreign {
        assert_eq!(weights(&mut second, what), [(at("192.0.2.1:80"), 5)], "{what}");
    }
    assert_eq!(server(&mut second, &tcp("10.96.0.1:80")), None, "ours are known by their record");
    second.cleanup(known_chains()).unwrap();
    assert_eq!(shown(second.doors()).unwrap(), before);
    assert!(second.doors().sets().sets().unwrap().is_empty());
    assert!(second.doors().host().links().unwrap().iter().all(|link| link.name != DUMMY));
    for program in second.programs() {
        for table in [Table::Mangle, Table::Filter, Table::Nat] {
            let saved = program.save(table).unwrap().unwrap_or_default();
            assert!(!saved.contains("PORTWAY") && !saved.contains("KUBE"), "{saved}");
        }
    }
}

/// What upstream's IPVS mode leaves.
pub(crate) fn of_upstream(twin: &mut Parts) {
    twin.host.add("eth0", ip("192.168.0.1"), 24);
    twin.host.make_dummy(DUMMY).unwrap();
    twin.host.add_addresses(DUMMY, &[ip("10.96.0.1"), ip("10.96.0.77")]).unwrap();
    add_set(twin, "KUBE-NODE-PORT-TCP", Kind::Port, Entry::Port(31_111));
    for what in ["10.96.0.1:80", "10.96.0.77:80", "192.168.0.1:31111", "192.168.0.1:22222"].map(tcp) {
        add_server(twin, what, "rr", RealServer::masquerading(at("10.244.0.1:8080"), 1));
    }
}

#[test]
fn upstreams_are_taken_over_and_its_stale_ones_go() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let mut mode = on(&twin);
    let table = a(&["10.244.0.1"]);
    mode.doors().servers.take_requests();
    let known = mode.sync(&table, Scope::AllThatIsKnown).unwrap();
    assert!(known.left_behind.is_empty());
    let kept: Vec<String> = known.kept.iter().map(|frontend| format!("{frontend:?}")).collect();
    assert!(kept.iter().any(|frontend| frontend.contains("10.96.0.77")), "{kept:?}");
    assert!(server(&mut mode, &tcp("10.96.0.77:80")).is_some(), "it may be asked for later");
    let requests = mode.doors().servers.take_requests();
    let is_written = requests.iter().any(|one| one.to_string().contains("TCP 10.96.0.1:80"));
    assert!(!is_written, "it is right: {requests:?}");
    let synced = everything(&mut mode, &table);
    assert_eq!(synced.replaced, ["set KUBE-NODE-PORT-TCP of upstream's IPVS mode"]);
    for stale in ["10.96.0.77:80", "192.168.0.1:31111"] {
        assert_eq!(server(&mut mode, &tcp(stale)), None);
    }
    assert!(server(&mut mode, &tcp("192.168.0.1:22222")).is_some(), "it is not upstream's");
    assert!(!is_bound(&mut mode, "10.96.0.77"));
    assert!(is_bound(&mut mode, "192.168.0.1"), "the host's own stays");
}

#[test]
fn a_node_port_of_upstreams_has_a_protocol() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let entry = Entry::IpPort(ip("192.168.0.1"), Number::SCTP, 32_222);
    let kind = Kind::IpPort(kernel::ipset::Family::V4);
    add_set(&mut twin, "KUBE-NODE-PORT-SCTP-HASH", kind, entry);
    let theirs = What::Address(at("192.168.0.1:32222"), Number::SCTP);
    let strangers = What::Address(at("192.168.0.1:31111"), Number::UDP);
    let add = [theirs, strangers].map(|what| Request::Add(VirtualServer::new(what, "rr")));
    assert!(twin.servers.run(&add).unwrap().is_empty());
    let mut mode = on(&twin);
    everything(&mut mode, &of(&[]));
    assert_eq!(server(&mut mode, &theirs), None);
    assert!(server(&mut mode, &strangers).is_some(), "the set has TCP ports");
}

/// Its virtual server needs the address.
#[test]
fn a_cleanup_leaves_the_interface_to_an_address_that_the_operator_excludes() {
    for excluded in [vec!["198.18.5.0/24".parse().unwrap()], Vec::new()] {
        let is_left = !excluded.is_empty();
        let twin = kernel();
        let mut mode = with(&twin, Options { excluded, ..Options::default() }, &Clock::default());
        everything(&mut mode, &a(&["10.244.0.1"]));
        let ip = "198.18.5.1".parse().unwrap();
        mode.doors().host().add_addresses(DUMMY, &[ip]).unwrap();
        mode.cleanup(known_chains()).unwrap();
        let left = mode.doors().host().addresses().unwrap();
        let left: Vec<_> = left.into_iter().filter(|at| at.link_name == DUMMY).map(|at| at.ip).collect();
        assert_eq!(left, if is_left { vec![ip] } else { Vec::new() });
    }
}

#[test]
fn what_the_operator_excludes_is_left_alone() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let excluded = vec!["10.96.0.0/24".parse().unwrap()];
    let mut mode = with(&twin, Options { excluded, ..Options::default() }, &Clock::default());
    everything(&mut mode, &of(&[]));
    assert!(server(&mut mode, &tcp("10.96.0.77:80")).is_some());
    assert!(is_bound(&mut mode, "10.96.0.77"), "else it could not be reached");
    assert!(server(&mut mode, &tcp("192.168.0.1:31111")).is_none());
}
