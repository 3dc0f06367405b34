//! Packets through simulated tables with a simulated IPVS between them: where it takes them, and what rules see of them then.
//!
//! `xtables_traffic` shows on a real kernel that it stands there.

#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::ipvs::{Ipvs as _, RealServer, Request, VirtualServer, What};
use kernel::nft;
use kernel::xtables::{Family, Variant, Xtables};
use kernel_sim::nft::{Fate, Path, SimPacket};
use kernel_sim::xtables::Simulated;

/// A node that takes packets to a virtual address, behind which are two pods and a server of its own.
fn balancer(texts: &[&str]) -> Simulated {
    let mut twin = Simulated::new(Variant::Nft, Family::V4);
    let mut ipvs = kernel_sim::ipvs::Simulated::default();
    let what = What::Address("10.96.0.1:80".parse().unwrap(), IpProtocol::TCP);
    let add = |text: &str| Request::AddServer(what, RealServer::masquerading(text.parse().unwrap(), 1));
    let requests = [
        Request::Add(VirtualServer::new(what, "rr")),
        add("10.244.0.1:8080"),
        add("10.244.0.2:8080"),
        add("10.1.0.1:8080"),
    ];
    assert_eq!(ipvs.run(&requests).unwrap(), []);
    twin.ipvs = Some(ipvs);
    for text in texts {
        twin.restore(text).unwrap();
    }
    twin
}

fn dialled(path: Path) -> SimPacket {
    let to: SocketAddr = "10.96.0.1:80".parse().unwrap();
    SimPacket {
        family: nft::Family::V4,
        path,
        source: "192.168.0.9".parse().unwrap(),
        destination: to.ip(),
        protocol: IpProtocol::TCP,
        port: Some(to.port()),
        mark: 0,
        priority: 0,
        local: BTreeSet::from([to.ip(), "10.1.0.1".parse().unwrap()]),
    }
}

/// Where it ends, how often, and whether its source is hidden then.
fn ends(twin: &Simulated, packet: &SimPacket) -> Vec<(Fate, (u64, u64), bool)> {
    let ways = twin.ways(packet, Duration::ZERO);
    ways.into_iter().map(|way| (way.outcome.fate, way.share, way.outcome.masqueraded)).collect()
}

fn at(text: &str, port: u16) -> Fate {
    Fate::Dnat(text.parse().unwrap(), Some(port))
}

#[test]
fn ipvs_takes_packets_behind_the_filter_of_input_and_sends_them_on() {
    let arrives = dialled(Path::Arrives("eth0".to_owned()));
    let rules = "*nat\n-A PREROUTING -j MARK --or-mark 0x4000\n-A POSTROUTING -m mark --mark 0x4000/0x4000 -m ipvs --ipvs -j MASQUERADE\nCOMMIT\n";
    let all = ends(&balancer(&[rules]), &arrives);
    // One that is on this host comes in, and meets POSTROUTING no more.
    assert_eq!(
        all,
        [
            (at("10.1.0.1", 8080), (1, 3), false),
            (at("10.244.0.1", 8080), (1, 3), true),
            (at("10.244.0.2", 8080), (1, 3), true),
        ]
    );
    let dropped = "*filter\n-A INPUT -d 10.96.0.1 -j DROP\nCOMMIT\n";
    assert_eq!(ends(&balancer(&[dropped]), &arrives), [(Fate::Dropped, (1, 1), false)]);
    let forward = "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n";
    assert_eq!(ends(&balancer(&[forward]), &arrives).len(), 3, "FORWARD is not on its way");
    let output = "*filter\n-A OUTPUT -d 10.244.0.1 -j DROP\nCOMMIT\n";
    let dropped = ends(&balancer(&[output]), &arrives);
    assert_eq!(dropped.iter().filter(|end| end.0 == Fate::Dropped).count(), 1, "but OUTPUT is: {dropped:?}");
}

#[test]
fn ipvs_takes_what_this_host_sends_behind_the_nat_table() {
    let rules = "*nat\n-A OUTPUT -d 10.96.0.1 -j MARK --or-mark 0x4000\n-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\nCOMMIT\n\
        *filter\n-A OUTPUT -d 10.96.0.1 -j DROP\nCOMMIT\n";
    let all = ends(&balancer(&[rules]), &dialled(Path::Output));
    assert_eq!(all.len(), 3, "the filter sees the servers, not the virtual address: {all:?}");
    assert!(all.iter().all(|end| end.2), "{all:?}");
    let elsewhere = "*nat\n-A OUTPUT -d 10.96.0.1 -p tcp -j DNAT --to-destination 10.244.0.9:1\nCOMMIT\n";
    let all = ends(&balancer(&[elsewhere]), &dialled(Path::Output));
    assert_eq!(all, [(at("10.244.0.9", 1), (1, 1), false)], "rules come first");
}

#[test]
fn a_virtual_server_without_real_ones_refuses_and_a_client_comes_back_where_it_was() {
    let twin = balancer(&[]);
    let mut ipvs = twin.ipvs.clone().unwrap();
    let what = What::Address("10.96.0.1:80".parse().unwrap(), IpProtocol::TCP);
    let persistent = VirtualServer { persistence_s: Some(60), ..VirtualServer::new(what, "rr") };
    ipvs.run(&[Request::Change(persistent)]).unwrap();
    let arrives = dialled(Path::Arrives("eth0".to_owned()));
    for way in twin.ways(&arrives, Duration::ZERO) {
        let again = ends(&way.after, &arrives);
        assert_eq!(again, [(way.outcome.fate, (1, 1), false)]);
    }
    assert_eq!(ends(&twin, &arrives).len(), 3, "trying the ways was not sending");
    ipvs.run(
        &["10.244.0.1:8080", "10.244.0.2:8080", "10.1.0.1:8080"]
            .map(|server| Request::DeleteServer(what, server.parse().unwrap())),
    )
    .unwrap();
    let refused = Fate::Rejected(nft::Reject::PortUnreachable);
    assert_eq!(ends(&twin, &arrives), [(refused, (1, 1), false)]);
}
