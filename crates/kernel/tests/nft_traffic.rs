//! The class-number layout on the real kernel, with real connections through the host's own output.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use common::layout::{self, TABLE, pod, service};
use kernel::IpProtocol;
use kernel::nft::{
    Chain, ChainKind, Element, Family, Field, Flags, Hook, HookPoint, Kernel, Match, Netlink, Operation,
    Part, Policy, Prefix, Rule, Selector, Set, Side, Statement, Transaction, Value, Verdict,
};

const CONNECTIONS: usize = 40;

/// Two endpoints on addresses of this namespace.
struct Endpoints([TcpListener; 2]);

impl Endpoints {
    fn listen(family: Family) -> Self {
        Self([1, 2].map(|last| {
            let listener = TcpListener::bind(SocketAddr::new(pod(family, last), 8080)).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        }))
    }

    /// How many connections each endpoint got since it was last asked.
    fn answered(&self) -> [usize; 2] {
        self.0.each_ref().map(|listener| std::iter::from_fn(|| listener.accept().ok()).count())
    }
}

fn connect(address: IpAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::new(address, 80), Duration::from_secs(2))
}

/// A namespace with addresses, routes, the layout, and endpoints that listen.
fn playground(family: Family) -> Option<(Netlink, Endpoints)> {
    let mut kernel = common::own_kernel()?;
    let lines = match family {
        Family::V4 => {
            ["addr add 10.1.0.1/32 dev lo", "addr add 10.1.0.2/32 dev lo", "route add 10.96.0.0/16 dev lo"]
        }
        Family::V6 => [
            "addr add fd00:1::1/128 dev lo nodad",
            "addr add fd00:1::2/128 dev lo nodad",
            "-6 route add fd00:96::/32 dev lo",
        ],
    };
    if !common::ip(&["link set lo up"]) || !common::ip(&lines) {
        return None;
    }
    wait_for_local_route(pod(family, 2));
    kernel.run(&layout::full(family)).unwrap();
    Some((kernel, Endpoints::listen(family)))
}

/// An IPv6 address is there before the route that makes it local, which the kernel adds a moment later.
fn wait_for_local_route(address: IpAddr) {
    let text = address.to_string();
    let is_local = || {
        let output = common::run("ip", &["route", "get", &text], "").unwrap();
        output.stdout.starts_with(b"local ")
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_local() {
        assert!(Instant::now() < deadline, "{address} does not become local");
    }
}

#[test]
fn root_connections_are_spread_over_the_slots() {
    for family in Family::ALL {
        let Some((_kernel, endpoints)) = playground(family) else { return };
        for _ in 0..CONNECTIONS {
            connect(service(family, 10)).unwrap();
        }
        let [first, second] = endpoints.answered();
        assert_eq!(first + second, CONNECTIONS, "{family}");
        assert!(first > 5 && second > 5, "{family}: {first} and {second}");
    }
}

#[test]
fn root_a_sticky_client_stays_and_moves_on_when_its_endpoint_retires() {
    for family in Family::ALL {
        let Some((mut kernel, endpoints)) = playground(family) else { return };
        for _ in 0..CONNECTIONS {
            connect(service(family, 60)).unwrap();
        }
        let first = endpoints.answered();
        assert!(first == [CONNECTIONS, 0] || first == [0, CONNECTIONS], "{family}: {first:?}");
        let listed = kernel.list(family, TABLE).unwrap().unwrap();
        let remembered = &listed.sets["affinity"].elements;
        assert_eq!(remembered.len(), 1, "{family}: {remembered:?}");
        assert_eq!(remembered[0].timeout, Some(Duration::from_secs(10_800)));
        let chosen = usize::from(first[0] == 0);
        let retired = listed.sets["sticky-endpoints"].elements[chosen].clone();
        // The other slot takes its place too, so that the next pick cannot meet the retired one.
        let slots = listed.sets["sticky-slots"].elements.clone();
        let mut transaction = Transaction::new(family, TABLE);
        transaction.push(Operation::DeleteElements("sticky-endpoints".into(), vec![retired]));
        transaction.push(Operation::DeleteElements("sticky-slots".into(), slots.clone()));
        let kept = slots[1 - chosen].data.clone();
        let moved = slots.into_iter().map(|slot| Element { data: kept.clone(), ..slot });
        transaction.push(Operation::AddElements("sticky-slots".into(), moved.collect()));
        kernel.run(&transaction).unwrap();
        for _ in 0..CONNECTIONS {
            connect(service(family, 60)).unwrap();
        }
        let mut expected = [0, 0];
        expected[1 - chosen] = CONNECTIONS;
        assert_eq!(endpoints.answered(), expected, "{family}");
    }
}

#[test]
fn root_a_frontend_without_endpoints_is_refused_at_once() {
    for family in Family::ALL {
        let Some((_kernel, _endpoints)) = playground(family) else { return };
        let error = connect(service(family, 40)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{family}: {error}");
    }
}

/// Whether a datagram from one address to another gets out; a drop in output is told to the sender.
fn passes(source: IpAddr, destination: IpAddr, port: u16) -> bool {
    let socket = UdpSocket::bind(SocketAddr::new(source, 0)).unwrap();
    match socket.send_to(b"hello", SocketAddr::new(destination, port)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
            false
        }
    }
}

/// Drops what the question is true for, on its way out.
fn drop_where(kernel: &mut Netlink, family: Family, sets: Vec<Operation>, question: Match) {
    let hook =
        Hook { kind: ChainKind::Filter, point: HookPoint::Output, priority: 0, policy: Policy::Accept };
    let mut transaction = Transaction::new(family, "guard");
    transaction.replace_table(None);
    transaction.push(Operation::AddChain(Chain::base("out", hook)));
    transaction.extend(sets);
    let statements = [Statement::Match(question), Statement::Verdict(Verdict::Drop)];
    transaction.push(Operation::AddRule(Rule::new("out", statements)));
    kernel.run(&transaction).unwrap();
}

#[test]
fn root_a_local_address_is_told_from_others() {
    for family in Family::ALL {
        let Some((mut kernel, _endpoints)) = playground(family) else { return };
        drop_where(&mut kernel, family, vec![], Match::Local(Side::Destination));
        assert!(!passes(pod(family, 1), pod(family, 2), 9), "{family}: local");
        assert!(passes(pod(family, 1), service(family, 99), 9), "{family}: not local");
    }
}

#[test]
fn root_a_source_outside_every_allowed_range_is_dropped() {
    let key = [Field::Destination, Field::Protocol, Field::Port, Field::Source];
    let flags = Flags { interval: true, ..Flags::default() };
    for family in Family::ALL {
        let Some((mut kernel, _endpoints)) = playground(family) else { return };
        let Prefix { address, .. } = layout::pods(family);
        // Addresses that end in 0 or 1, so pod 1 is inside and pod 2 is not.
        let length = if family == Family::V4 { 31 } else { 127 };
        let allowed = Element::interval(&[
            Part::Exact(service(family, 50).into()),
            Part::Exact(Value::Protocol(IpProtocol::UDP)),
            Part::Range(Value::Port(80), Value::Port(90)),
            Part::Prefix(address, length),
        ]);
        let sets = vec![
            Operation::AddSet(Set { flags, ..Set::new("allowed", &key) }),
            Operation::AddElements("allowed".into(), vec![allowed]),
        ];
        let key = vec![Selector::Destination, Selector::Protocol, Selector::Port, Selector::Source];
        drop_where(&mut kernel, family, sets, Match::InSet { key, set: "allowed".into(), not: true });
        for (source, port, expected) in [(1, 80, true), (1, 90, true), (1, 91, false), (2, 80, false)] {
            let got = passes(pod(family, source), service(family, 50), port);
            assert_eq!(got, expected, "{family}: from {source} to port {port}");
        }
    }
}

#[test]
fn root_prefixes_match_their_addresses_and_no_others() {
    for family in Family::ALL {
        let Some((mut kernel, _endpoints)) = playground(family) else { return };
        let Prefix { address, .. } = layout::pods(family);
        let whole = if family == Family::V4 { 32 } else { 128 };
        for (length, first_is_in) in [(whole - 1, true), (whole - 8, true), (whole - 2, true), (whole, false)]
        {
            let prefix = Prefix { address, length };
            for not in [false, true] {
                drop_where(&mut kernel, family, vec![], Match::InPrefix { side: Side::Source, prefix, not });
                let passed = passes(pod(family, 1), service(family, 99), 9);
                assert_eq!(passed, first_is_in == not, "{family} {prefix:?} {not}");
            }
        }
    }
}
