//! Steps of several requests each, with what can go wrong in them.

use kernel::IpProtocol;
use kernel::ipvs::{Family, Flags, Forwarding, RealServer, Request, Timeouts, VirtualServer, What};

use super::{at, tcp};

/// One of each kind.
fn servers() -> Vec<VirtualServer> {
    let (v4, v6) = (at("10.96.0.1:80"), at("[fd00:96::1]:80"));
    let plain = |what| VirtualServer::new(what, "rr");
    vec![
        plain(What::Address(v4, IpProtocol::TCP)),
        plain(What::Address(v6, IpProtocol::TCP)),
        VirtualServer { flags: Flags::ONE_PACKET, ..plain(What::Address(v4, IpProtocol::UDP)) },
        plain(What::Address(v6, IpProtocol::UDP)),
        plain(What::Address(v4, IpProtocol::SCTP)),
        VirtualServer::new(What::Mark(1, Family::V4), "wrr"),
        VirtualServer::new(What::Mark(1, Family::V6), "lc"),
        VirtualServer { flags: Flags::HASH_PORT, ..VirtualServer::new(tcp("10.96.0.2:80"), "mh") },
        VirtualServer { flags: Flags::HASH_FALLBACK, ..VirtualServer::new(tcp("10.96.0.3:80"), "sh") },
        VirtualServer { persistence_s: Some(10_800), ..plain(tcp("10.96.0.4:80")) },
        VirtualServer { persistence_s: Some(60), client_bits: 24, ..plain(tcp("10.96.0.5:80")) },
        VirtualServer { persistence_s: Some(60), client_bits: 64, ..plain(tcp("[fd00:96::5]:80")) },
    ]
}

fn real(text: &str, weight: u32) -> RealServer {
    RealServer::masquerading(at(text), weight)
}

/// Two servers behind a virtual one of either family.
fn behind(what: What) -> [RealServer; 2] {
    match what.family() {
        Family::V4 => [real("10.1.0.1:8080", 1), real("10.1.0.2:8080", 5)],
        Family::V6 => [real("[fd00:1::1]:8080", 1), real("[fd00:1::2]:8080", 0)],
    }
}

pub(super) fn all() -> Vec<Vec<Request>> {
    let whats: Vec<What> = servers().iter().map(|server| server.what).collect();
    let add = || servers().into_iter().map(Request::Add).collect::<Vec<_>>();
    let each = |request: fn(What, RealServer) -> Request| {
        let of = |what: &What| behind(*what).map(|server| request(*what, server));
        whats.iter().flat_map(of).collect::<Vec<_>>()
    };
    let mut steps = vec![add(), add(), changes()];
    steps.push(each(Request::AddServer));
    steps.push(each(Request::AddServer));
    steps.push(each(|what, server| Request::ChangeServer(what, RealServer { weight: 7, ..server })));
    steps.extend([refusals(), timeouts()]);
    steps.push(whats.iter().map(|what| Request::DeleteServer(*what, behind(*what)[0].address)).collect());
    steps.push(whats.iter().map(|what| Request::DeleteServer(*what, behind(*what)[0].address)).collect());
    steps.push(whats.iter().chain(&whats).map(|what| Request::Delete(*what)).collect());
    steps
}

/// Scheduler, flags and persistence of what is there, and of what is not.
fn changes() -> Vec<Request> {
    let changed = VirtualServer {
        flags: Flags::HASH_PORT,
        persistence_s: Some(30),
        ..VirtualServer::new(tcp("10.96.0.1:80"), "sh")
    };
    vec![
        Request::Change(changed.clone()),
        Request::Change(VirtualServer { persistence_s: None, ..changed }),
        Request::Change(VirtualServer::new(tcp("10.96.0.4:80"), "wlc")),
        Request::Change(VirtualServer::new(tcp("10.96.7.7:80"), "rr")),
        Request::Change(VirtualServer::new(tcp("10.96.0.2:80"), "nosuch")),
    ]
}

fn refusals() -> Vec<Request> {
    let (what, none) = (tcp("10.96.0.1:80"), tcp("10.96.7.7:80"));
    let v6 = VirtualServer { client_bits: 0, ..VirtualServer::new(tcp("[fd00:96::9]:80"), "rr") };
    vec![
        Request::Add(VirtualServer::new(none, "nosuch")),
        Request::Add(v6),
        Request::AddServer(none, real("10.1.0.1:8080", 1)),
        Request::ChangeServer(none, real("10.1.0.1:8080", 1)),
        Request::DeleteServer(none, at("10.1.0.1:8080")),
        Request::ChangeServer(what, real("10.1.0.9:8080", 1)),
        Request::DeleteServer(what, at("10.1.0.9:8080")),
        Request::AddServer(what, real("[fd00:1::1]:8080", 1)),
        Request::AddServer(what, real("10.1.0.8:8080", u32::MAX)),
        // Of somebody else: a tunnel.
        Request::AddServer(what, RealServer { forwarding: Forwarding::Other(2), ..real("10.1.0.7:80", 1) }),
    ]
}

fn timeouts() -> Vec<Request> {
    vec![
        Request::SetTimeouts(Timeouts { tcp_s: 100, tcp_fin_s: 0, udp_s: 30 }),
        Request::SetTimeouts(Timeouts::default()),
    ]
}
