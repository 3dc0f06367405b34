//! Sets: the same steps on the simulated ones and on the real kernel's end alike: same sets, same entries, same refusals.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::IpProtocol;
use kernel::ipset::{Entry, Family, FoundSet, Ipsets, Kind, Request, Set, SetName};
use kernel_sim::ipset::Simulated;

fn name(text: &str) -> SetName {
    SetName::new(text).unwrap()
}

fn ip(family: Family, last: u8) -> IpAddr {
    let prefix = if family == Family::V4 { "10.96.0." } else { "fd00:96::" };
    format!("{prefix}{last}").parse().unwrap()
}

fn kinds() -> Vec<Kind> {
    let of = |f| [Kind::Ip(f), Kind::IpPort(f), Kind::IpPortIp(f), Kind::IpPortNet(f)];
    Family::ALL.into_iter().flat_map(of).chain([Kind::Port]).collect()
}

fn set_of(kind: Kind) -> SetName {
    let family = kind.family().map_or(String::new(), |family| format!("-{family:?}"));
    name(&format!("T-{}{family}", kind.name().replace([':', ','], "-")))
}

/// Three entries of a kind.
fn entries(kind: Kind) -> Vec<Entry> {
    let net = |f: Family, bits: u8| ipnet::IpNet::new(ip(f, 200), bits).unwrap().trunc();
    let (tcp, udp, sctp) = (IpProtocol::TCP, IpProtocol::UDP, IpProtocol::SCTP);
    match kind {
        Kind::Ip(f) => vec![Entry::Ip(ip(f, 1)), Entry::Ip(ip(f, 2)), Entry::Ip(ip(f, 9))],
        Kind::IpPort(f) => vec![
            Entry::IpPort(ip(f, 1), tcp, 80),
            Entry::IpPort(ip(f, 1), udp, 80),
            Entry::IpPort(ip(f, 1), sctp, 0x1234),
        ],
        Kind::IpPortIp(f) => vec![
            Entry::IpPortIp(ip(f, 1), tcp, 80, ip(f, 1)),
            Entry::IpPortIp(ip(f, 1), tcp, 80, ip(f, 2)),
            Entry::IpPortIp(ip(f, 1), sctp, 80, ip(f, 2)),
        ],
        Kind::IpPortNet(f) => vec![
            Entry::IpPortNet(ip(f, 1), tcp, 80, net(f, 8)),
            Entry::IpPortNet(ip(f, 1), tcp, 80, net(f, 1)),
            Entry::IpPortNet(ip(f, 1), udp, 80, ip(f, 7).into()),
        ],
        Kind::Port => vec![Entry::Port(0), Entry::Port(30_080), Entry::Port(65_535)],
    }
}

/// All that is there.
fn contents(door: &mut impl Ipsets) -> Vec<(FoundSet, BTreeSet<Entry>)> {
    let sets = door.sets().unwrap();
    let with_entries = |set: FoundSet| {
        let entries = door.entries(&name(&set.name)).unwrap().unwrap();
        (set, entries)
    };
    sets.into_iter().map(with_entries).collect()
}

/// Steps of several requests each.
fn steps() -> Vec<Vec<Request>> {
    let create = |kind: Kind| Request::Create(Set::new(set_of(kind), kind));
    let mut steps = vec![kinds().into_iter().map(create).collect::<Vec<_>>()];
    // Made again they stay as they are; of another kind, or of another size, they are refused.
    steps.push(kinds().into_iter().map(create).collect());
    let v4 = Kind::IpPort(Family::V4);
    steps.push(vec![
        Request::Create(Set::new(set_of(v4), Kind::Ip(Family::V4))),
        Request::Create(Set::new(set_of(v4), Kind::IpPort(Family::V6))),
        Request::Create(Set { entries_max: 7, ..Set::new(set_of(v4), v4) }),
    ]);
    for kind in kinds() {
        let add = |entry| Request::Add(set_of(kind), entry);
        let all = entries(kind);
        steps.push(all.iter().copied().chain([all[0]]).map(add).collect());
        steps.push(vec![
            Request::Delete(set_of(kind), all[1]),
            Request::Delete(set_of(kind), all[1]),
            Request::Add(name("NONE"), all[0]),
            Request::Add(set_of(kind), all[2]),
        ]);
    }
    steps.extend(refusals());
    steps.push(kinds().into_iter().map(|kind| Request::Destroy(set_of(kind))).collect());
    steps
}

fn refusals() -> Vec<Vec<Request>> {
    let (v4, v6) = (Kind::Ip(Family::V4), Kind::Ip(Family::V6));
    let nets = Kind::IpPortNet(Family::V4);
    let everywhere = "0.0.0.0/0".parse().unwrap();
    let small = Set { entries_max: 2, ..Set::new(name("SMALL"), v4) };
    let fill = (1..=4).map(|last| Request::Add(name("SMALL"), Entry::Ip(ip(Family::V4, last))));
    vec![
        vec![
            Request::Add(set_of(v4), Entry::Ip(ip(Family::V6, 1))),
            Request::Add(set_of(v6), Entry::Ip(ip(Family::V4, 1))),
            Request::Add(set_of(nets), Entry::IpPortNet(ip(Family::V4, 1), IpProtocol::TCP, 80, everywhere)),
        ],
        [Request::Create(small)].into_iter().chain(fill).collect(),
        vec![
            Request::Swap(name("SMALL"), set_of(v4)),
            Request::Swap(name("SMALL"), set_of(v6)),
            Request::Swap(name("SMALL"), name("NONE")),
            Request::Swap(name("NONE"), name("SMALL")),
        ],
        vec![Request::Flush(name("SMALL")), Request::Flush(name("NONE"))],
        vec![Request::Destroy(name("SMALL")), Request::Destroy(name("SMALL"))],
    ]
}

fn walk(real: &mut impl Ipsets, twin: &mut impl Ipsets) {
    assert_eq!(contents(real), contents(twin), "nothing is there");
    for step in steps() {
        let refused = [real.run(&step).unwrap(), twin.run(&step).unwrap()];
        let said = refused.map(|all| all.iter().map(|r| (r.at, r.to_string())).collect::<Vec<_>>());
        assert_eq!(said[0], said[1], "{step:?}");
        assert_eq!(contents(real), contents(twin), "{step:?}");
        assert_eq!(real.entries(&name("NONE")).unwrap(), twin.entries(&name("NONE")).unwrap());
        for kind in kinds() {
            for entry in entries(kind) {
                let asked = [real.contains(&set_of(kind), &entry), twin.contains(&set_of(kind), &entry)];
                assert_eq!(asked[0], asked[1], "{entry} in {} after {step:?}", set_of(kind));
            }
        }
    }
    assert_eq!(contents(real).len(), 0, "all steps were walked to their end");
}

#[test]
fn clones_of_a_twin_are_one_kernel_and_a_copy_is_another() {
    let mut one = Simulated::default();
    let (mut same, mut other) = (one.clone(), one.copy());
    one.run(&[Request::Create(Set::new(name("A"), Kind::Port))]).unwrap();
    assert_eq!((same.sets().unwrap().len(), other.sets().unwrap().len()), (1, 0));
    assert_eq!((one.messages(), other.messages()), (2, 1));
}

#[test]
fn a_name_is_one_that_the_programs_can_read() {
    for bad in ["", "-A", "a b", "0123456789012345678901234567890x", "!x", "a\"b"] {
        assert_eq!(SetName::new(bad), None, "{bad}");
    }
    assert!(SetName::new("KUBE-6-LOAD-BALANCER-SOURCE-CID").is_some());
}

mod needs_root {
    use super::*;
    use kernel::ipset::Netlink;

    fn real() -> Option<Netlink> {
        if !common::enter_namespace() {
            eprintln!("skipped: a network namespace of its own needs root");
            return None;
        }
        Netlink::open().inspect_err(|error| eprintln!("skipped: {error}")).ok()
    }

    #[test]
    fn root_real_and_simulated_sets_end_alike() {
        let Some(mut real) = real() else { return };
        walk(&mut real, &mut Simulated::default());
    }

    #[test]
    fn root_ten_thousand_entries_go_in_and_come_back() {
        let Some(mut real) = real() else { return };
        let ports = (0..10_000).map(|at| Entry::IpPort(ip(Family::V4, 1), IpProtocol::UDP, at));
        let entries: BTreeSet<Entry> = ports.collect();
        let set = name("MANY");
        let mut requests = vec![Request::Create(Set::new(set.clone(), Kind::IpPort(Family::V4)))];
        requests.extend(entries.iter().map(|entry| Request::Add(set.clone(), *entry)));
        assert_eq!(real.run(&requests).unwrap(), []);
        assert_eq!(real.entries(&set).unwrap(), Some(entries));
        assert_eq!(real.messages(), 1 + 10_001 + 1);
    }

    /// What the `ipset` program prints is what we meant, and what it makes is what we read.
    #[test]
    fn root_the_ipset_program_sees_the_same() {
        let Some(mut real) = real() else { return };
        let requests = kinds().into_iter().flat_map(|kind| {
            let add = entries(kind).into_iter().map(move |entry| Request::Add(set_of(kind), entry));
            [Request::Create(Set::new(set_of(kind), kind))].into_iter().chain(add)
        });
        assert_eq!(real.run(&requests.collect::<Vec<_>>()).unwrap(), []);
        let Some(saved) = common::run("ipset", &["save"], "") else { return };
        let text = String::from_utf8(saved.stdout).unwrap();
        for kind in kinds() {
            for entry in entries(kind) {
                let said = entry.to_string().replace("/32", "").replace("/128", "");
                let line = format!("add {} {said}\n", set_of(kind));
                assert!(text.contains(&line), "{line} in {text}");
            }
        }
        let ours = contents(&mut real);
        let everything: Vec<_> = kinds().into_iter().map(|kind| Request::Destroy(set_of(kind))).collect();
        assert_eq!(real.run(&everything).unwrap(), []);
        common::run("ipset", &["restore"], &text).unwrap();
        assert_eq!(contents(&mut real), ours);
    }
}
