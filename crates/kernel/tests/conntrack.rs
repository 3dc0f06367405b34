//! The connection tracker: the same steps on the simulated one and on the real kernel's, with filters and without.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::IpProtocol;
use kernel::conntrack::{Conntrack, Entry, Error, Family, Filter, Tuple, Zone};
use kernel_sim::conntrack::Simulated;

const TCP: IpProtocol = IpProtocol::TCP;
const UDP: IpProtocol = IpProtocol::UDP;
const SCTP: IpProtocol = IpProtocol::SCTP;

fn at(ip: &str, port: u16) -> (IpAddr, u16) {
    (ip.parse().unwrap(), port)
}

fn client(family: Family, port: u16) -> (IpAddr, u16) {
    at(if family == Family::V4 { "10.1.0.1" } else { "fd00:1::1" }, port)
}

/// A virtual address that ends in this digit.
fn virtual_ip(family: Family, last: u8, port: u16) -> (IpAddr, u16) {
    let prefix = if family == Family::V4 { "10.96.0." } else { "fd00:96::" };
    at(&format!("{prefix}{last}"), port)
}

fn endpoint(family: Family, last: u8) -> (IpAddr, u16) {
    let prefix = if family == Family::V4 { "10.1.0." } else { "fd00:1::" };
    at(&format!("{prefix}{last}"), 5353)
}

fn flow(protocol: IpProtocol, from: (IpAddr, u16), to: (IpAddr, u16), answers: (IpAddr, u16)) -> Entry {
    let original = Tuple { source: from, destination: to };
    let reply = Tuple { source: answers, destination: from };
    Entry { protocol, original, reply, zone: Zone::default(), id: None }
}

/// Flows to one address that differ in one point each.
fn flows() -> BTreeSet<Entry> {
    let mut flows = BTreeSet::new();
    for family in Family::ALL {
        let dns = virtual_ip(family, 8, 53);
        let plain = flow(UDP, client(family, 1000), dns, endpoint(family, 2));
        let zone = |id, is_of_original| Zone { id, is_of_original };
        flows.extend([
            plain,
            flow(UDP, client(family, 1001), dns, endpoint(family, 3)),
            flow(UDP, client(family, 1002), dns, dns),
            Entry { zone: zone(7, false), ..plain },
            flow(UDP, client(family, 1003), virtual_ip(family, 9, 53), endpoint(family, 2)),
            flow(UDP, client(family, 1004), virtual_ip(family, 8, 54), endpoint(family, 2)),
            flow(UDP, dns, client(family, 53), client(family, 53)),
            flow(TCP, client(family, 1000), dns, endpoint(family, 2)),
            flow(SCTP, client(family, 1000), dns, endpoint(family, 2)),
        ]);
        let apart = flow(UDP, client(family, 1005), dns, endpoint(family, 3));
        flows.insert(Entry { zone: zone(8, true), ..apart });
    }
    flows
}

fn seen(conntrack: &mut impl Conntrack, filter: Filter) -> BTreeSet<Entry> {
    let mut seen = BTreeSet::new();
    conntrack.visit(&filter, &mut |entry| seen.extend([*entry])).unwrap();
    seen
}

fn all(conntrack: &mut impl Conntrack) -> BTreeSet<Entry> {
    let protocols = Family::ALL.into_iter().flat_map(|family| [TCP, UDP, SCTP].map(|p| (family, p)));
    protocols.flat_map(|(family, p)| seen(conntrack, Filter::Protocol(family, p))).collect()
}

/// As they were made: without the kernel's numbers.
fn unnumbered(entries: BTreeSet<Entry>) -> BTreeSet<Entry> {
    entries.into_iter().map(|entry| Entry { id: None, ..entry }).collect()
}

/// The steps, on a tracker that holds [`flows`].
fn walk(conntrack: &mut impl Conntrack) {
    let mut expected = flows();
    assert_eq!(unnumbered(all(conntrack)), expected);
    for family in Family::ALL {
        let dns = virtual_ip(family, 8, 53);
        let is_dns = |entry: &Entry| entry.protocol == UDP && entry.original.destination == dns;
        let to_dns = Filter::Destination(UDP, dns);
        let found = seen(conntrack, to_dns);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.iter().all(|entry| entry.id.is_some()), "{found:?}");
        assert_eq!(unnumbered(found), expected.iter().copied().filter(is_dns).collect());

        let gone = |entry: &Entry| entry.reply.source != endpoint(family, 3);
        let done = conntrack.delete_where(&to_dns, &mut |entry| gone(entry)).unwrap();
        assert_eq!(done.deleted, 3);
        // IPv6 flows to another address and the same port come too.
        let sent = if !conntrack.filters() {
            10
        } else if family == Family::V4 {
            5
        } else {
            7
        };
        assert_eq!(done.sent, sent, "{family:?}");
        expected.retain(|entry| !is_dns(entry) || !gone(entry));
        assert_eq!(unnumbered(all(conntrack)), expected);

        for left in seen(conntrack, to_dns) {
            let another = Entry { id: left.id.map(|id| id ^ 1), ..left };
            assert_eq!(conntrack.delete(&[another]), Ok(0), "a later flow with the same tuple stays");
            assert_eq!(conntrack.delete(&[left, left]), Ok(1), "{left:?}");
            assert_eq!(conntrack.delete(&[left]), Ok(0), "already gone");
        }
        expected.retain(|entry| !is_dns(entry));
        assert_eq!(unnumbered(all(conntrack)), expected);
    }
    assert_eq!(expected.len(), flows().len() - 10, "all that was deleted is what was meant");
}

/// A tracker in memory that holds [`flows`].
fn simulated() -> Simulated {
    let numbered = (1..).zip(flows()).map(|(id, flow)| Entry { id: Some(id * 2), ..flow });
    Simulated { entries: numbered.collect(), ..Simulated::default() }
}

#[test]
fn entries_are_seen_and_deleted_on_the_twin() {
    walk(&mut simulated());
    walk(&mut Simulated { sends_everything: true, ..simulated() });
}

mod needs_root {
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::common::{self, layout};
    use super::*;
    use kernel::conntrack::Netlink;
    use kernel::nft::{self, Kernel as _};

    /// A connection tracker in a namespace of this thread's own.
    fn real(open: fn() -> kernel::conntrack::Result<Netlink>) -> Option<Netlink> {
        if !common::enter_namespace() {
            eprintln!("skipped: a network namespace of its own needs root");
            return None;
        }
        let mut real = open().unwrap();
        let filter = Filter::Protocol(Family::V4, UDP);
        match real.visit(&filter, &mut |_| ()) {
            Ok(_) => Some(real),
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    #[test]
    fn root_entries_are_seen_and_deleted_on_the_real_kernel() {
        for open in [Netlink::open, Netlink::open_without_filters] {
            let Some(mut real) = real(open) else { return };
            let was_filtering = real.filters();
            real.create(&flows().into_iter().collect::<Vec<_>>(), 600).unwrap();
            walk(&mut real);
            assert_eq!(real.filters(), was_filtering);
        }
    }

    #[test]
    fn root_an_entry_is_not_made_twice() {
        let Some(mut real) = real(Netlink::open) else { return };
        let one = flow(UDP, client(Family::V4, 1), virtual_ip(Family::V4, 8, 53), endpoint(Family::V4, 2));
        real.create(&[one], 600).unwrap();
        let error = real.create(&[one], 600).unwrap_err();
        assert!(error.to_string().contains("refused to make a connection: EEXIST"), "{error}");
    }

    /// Takes all privilege from this thread, and from no other: the system call itself, unlike the C library's, does so.
    #[expect(unsafe_code, reason = "setresuid(2) is a system call")]
    fn become_nobody() {
        const NOBODY: libc::uid_t = 65_534;
        // SAFETY: setresuid(2) takes numbers.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(done, 0);
    }

    #[test]
    fn root_a_thread_without_privilege_is_told_so() {
        let Some(mut real) = real(Netlink::open) else { return };
        let one = flow(UDP, client(Family::V4, 1), virtual_ip(Family::V4, 8, 53), endpoint(Family::V4, 2));
        real.create(&[one], 600).unwrap();
        std::thread::spawn(move || {
            become_nobody();
            let mut ours = Netlink::open().unwrap();
            let filter = Filter::Protocol(Family::V4, UDP);
            assert_eq!(ours.visit(&filter, &mut |_| ()), Err(Error::NotPermitted));
            assert_eq!(ours.delete(&[one]), Err(Error::NotPermitted));
        })
        .join()
        .unwrap();
        assert_eq!(seen(&mut real, Filter::Protocol(Family::V4, UDP)).len(), 1);
    }

    /// More than fits into one piece of a listing.
    fn many(last: u8) -> Vec<Entry> {
        let of = |port| {
            flow(UDP, client(Family::V4, port), virtual_ip(Family::V4, last, 53), endpoint(Family::V4, last))
        };
        (1..=3_000).map(of).collect()
    }

    #[test]
    fn root_no_chosen_entry_is_missed_while_others_come_and_go() {
        for open in [Netlink::open, Netlink::open_without_filters] {
            let Some(mut real) = real(open) else { return };
            let foreign: BTreeSet<Entry> = many(9).into_iter().collect();
            real.create(&many(9), 600).unwrap();
            // A thread begins its life in the namespace of the one that made it.
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let changes = scope.spawn(|| {
                    let (mut other, mut changes) = (open().unwrap(), 0);
                    while !is_over.load(Ordering::Relaxed) {
                        other.create(&many(7), 600).unwrap();
                        changes += other.delete(&many(7)).unwrap();
                    }
                    changes
                });
                for _ in 0..3 {
                    real.create(&many(8), 600).unwrap();
                    let to = Filter::Destination(UDP, virtual_ip(Family::V4, 8, 53));
                    assert_eq!(real.delete_where(&to, &mut |_| true).unwrap().deleted, 3_000);
                    assert_eq!(seen(&mut real, to), BTreeSet::new());
                }
                is_over.store(true, Ordering::Relaxed);
                eprintln!(
                    "counted: 9000 entries deleted while {} others came and went",
                    changes.join().unwrap()
                );
            });
            assert_eq!(unnumbered(seen(&mut real, Filter::Protocol(Family::V4, UDP))), foreign);
        }
    }

    /// The layout with a UDP service of two endpoints, which sends every packet to the first.
    fn serve_udp(family: nft::Family) -> bool {
        use nft::{Element, Operation, Value};
        let lines = match family {
            nft::Family::V4 => ["addr add 10.1.0.1/32 dev lo", "route add 10.96.0.0/16 dev lo"],
            nft::Family::V6 => ["addr add fd00:1::1/128 dev lo nodad", "-6 route add fd00:96::/32 dev lo"],
        };
        if !common::ip(&["link set lo up"]) || !common::ip(&lines) {
            return false;
        }
        let frontend = [layout::service(family, 8).into(), Value::Protocol(UDP), Value::Port(53)];
        let class = Element::new(&frontend).values(&[Value::Priority(layout::PICK_2)]);
        let slot = |slot| {
            let [address, protocol, port] = frontend;
            let endpoint = [layout::pod(family, 1).into(), Value::Port(5353)];
            Element::new(&[address, protocol, port, Value::Slot(slot)]).values(&endpoint)
        };
        let mut transaction = layout::full(family);
        transaction.push(Operation::AddElements("frontends".into(), vec![class]));
        transaction.push(Operation::AddElements("endpoints".into(), vec![slot(0), slot(1)]));
        nft::Netlink::open().unwrap().run(&transaction).unwrap();
        true
    }

    #[test]
    fn root_flows_of_real_packets_are_told_by_who_answers_them() {
        for (family, rules) in [(Family::V4, nft::Family::V4), (Family::V6, nft::Family::V6)] {
            let Some(mut real) = real(Netlink::open) else { return };
            if !serve_udp(rules) {
                return;
            }
            let from_one = |to: (IpAddr, u16)| {
                let socket = UdpSocket::bind(client(family, 0)).unwrap();
                socket.send_to(b"question", to).unwrap();
                socket
            };
            let (served, straight) = (virtual_ip(family, 8, 53), client(family, 7));
            let sockets = [from_one(served), from_one(straight)];
            let answers = [(client(family, 0).0, 5353), straight];
            for ((socket, to), answers) in sockets.iter().zip([served, straight]).zip(answers) {
                let found = seen(&mut real, Filter::Destination(UDP, to));
                let found: Vec<_> = found.iter().map(|e| (e.original.source, e.reply.source)).collect();
                let source = (client(family, 0).0, socket.local_addr().unwrap().port());
                assert_eq!(found, [(source, answers)], "{to:?}");
            }
            let done = real.delete_where(&Filter::Destination(UDP, served), &mut |_| true).unwrap();
            assert_eq!((done.sent, done.deleted), (1, 1));
            assert_eq!(seen(&mut real, Filter::Protocol(family, UDP)).len(), 1);
        }
    }
}
