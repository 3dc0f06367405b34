//! The same with IPVS between the tables: where on its way a packet is given to a real server, and what rules see of it then.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::host::{ChangeHost, ThisMachine};
use kernel::ipset::{self, Entry, Ipsets, Kind, Set, SetName};
use kernel::ipvs::{self, Ipvs, RealServer, Request, VirtualServer, What};
use kernel::sysctl::{self, Sysctls};
use kernel::xtables::{Family, Variant, Xtables};
use kernel_sim::nft::SimPacket;
use kernel_sim::xtables::Simulated;

use crate::needs_root::meaning;
use crate::rules::{POD_PORT, PORT, client, node, pod, service};
use crate::stage::{Seen, Sender, Stage};

/// The virtual server that rules are about: the first two pods.
const WEB: u8 = 1;
/// Nobody touches this one's packets: the third pod.
const MARKER: u8 = 2;
/// A server of the node's own.
const OWN: u8 = 3;
/// By mark: the third pod.
const MARK: u32 = 7;
/// By turns, so that few show all.
const TRIES: usize = 6;

/// `@WEB` is the virtual address that is dialled, `@PORT` its port, `@POD-N` a pod's address. Each text is restored into empty tables.
const TEXTS: &[&str] = &[
    "",
    "*filter\n-A INPUT -d @WEB -j DROP\nCOMMIT\n",
    "*filter\n-A INPUT -d @WEB -p udp -m udp --dport @PORT -j REJECT\nCOMMIT\n",
    "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n",
    "*filter\n-A OUTPUT -d @WEB -j DROP\nCOMMIT\n",
    "*filter\n-A OUTPUT -d @POD-1 -j DROP\nCOMMIT\n",
    "*nat\n-A PREROUTING -d @WEB -j MARK --or-mark 0x4000\n\
     -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\nCOMMIT\n",
    "*nat\n-A OUTPUT -d @WEB -j MARK --or-mark 0x4000\n\
     -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\nCOMMIT\n",
    "*nat\n-A POSTROUTING -d @POD-1 -m ipvs --ipvs -j MASQUERADE\nCOMMIT\n",
    "*nat\n-A POSTROUTING -m set --match-set HAIRPIN dst,dst,src -j MASQUERADE\nCOMMIT\n",
    "*nat\n-A PREROUTING -d @WEB -p udp -m udp --dport @PORT -j DNAT --to-destination @TO-3\n\
     -A OUTPUT -d @WEB -p udp -m udp --dport @PORT -j DNAT --to-destination @TO-3\nCOMMIT\n",
    // A mark chooses, wherever before IPVS it was set; and stays.
    "*mangle\n-A PREROUTING -d @WEB -j MARK --set-mark 0x7\nCOMMIT\n",
    "*mangle\n-A INPUT -d @WEB -j MARK --set-mark 0x7\nCOMMIT\n",
    "*mangle\n-A OUTPUT -d @WEB -j MARK --set-mark 0x7\n\
     -A POSTROUTING -m mark --mark 0x7 -j DROP\nCOMMIT\n",
    // What IPVS sends on passes OUTPUT as if this host had made it.
    "*mangle\n-A OUTPUT -d @POD-2 -j DROP\nCOMMIT\n",
];

fn text(family: Family, text: &str, last: u8) -> String {
    let mut text =
        text.replace("@WEB", &service(family, last).to_string()).replace("@PORT", &PORT.to_string());
    for last in 1..=3 {
        let there = SocketAddr::new(pod(family, last), POD_PORT);
        text = text.replace(&format!("@POD-{last}"), &pod(family, last).to_string());
        text = text.replace(&format!("@TO-{last}"), &there.to_string());
    }
    text
}

fn at(family: Family, last: u8) -> SocketAddr {
    SocketAddr::new(service(family, last), PORT)
}

/// Virtual servers of both kernels.
fn requests(family: Family) -> Vec<Request> {
    let what = |last| What::Address(at(family, last), IpProtocol::UDP);
    let (web, marker, own, mark) = (what(WEB), what(MARKER), what(OWN), What::Mark(MARK, family));
    let on_node = RealServer::masquerading(SocketAddr::new(node(family), POD_PORT), 1);
    let server = |last| RealServer::masquerading(SocketAddr::new(pod(family, last), POD_PORT), 1);
    let add = |what| Request::Add(VirtualServer::new(what, "rr"));
    vec![
        add(web),
        add(marker),
        add(own),
        add(mark),
        Request::AddServer(web, server(1)),
        Request::AddServer(web, server(2)),
        Request::AddServer(marker, server(3)),
        Request::AddServer(mark, server(3)),
        Request::AddServer(own, on_node),
    ]
}

/// The first client and the first pod, so that some of its packets are in it.
fn hairpin(family: Family) -> [ipset::Request; 2] {
    let (name, protocol) = (SetName::new("HAIRPIN").unwrap(), IpProtocol::UDP);
    let entry = Entry::IpPortIp(pod(family, 1), protocol, POD_PORT, client(family, 1));
    [ipset::Request::Create(Set::new(name.clone(), Kind::IpPortIp(family))), ipset::Request::Add(name, entry)]
}

/// The node as IPVS mode makes it.
fn furnish(family: Family) -> ipvs::Netlink {
    ThisMachine.make_dummy("kube-ipvs0").unwrap();
    let addresses = [WEB, MARKER, OWN].map(|last| service(family, last));
    assert_eq!(ThisMachine.add_addresses("kube-ipvs0", &addresses).unwrap(), []);
    assert_eq!(ipset::Netlink::open().unwrap().run(&hairpin(family)).unwrap(), []);
    let mut ipvs = ipvs::Netlink::open().unwrap();
    sysctl::ThisMachine.write("net/ipv4/vs/conntrack", "1").unwrap();
    assert_eq!(ipvs.run(&requests(family)).unwrap(), []);
    ipvs
}

struct Pair {
    stage: Stage,
    real: ipvs::Netlink,
    twin: Simulated,
}

impl Pair {
    fn build(variant: Variant, family: Family) -> Option<Self> {
        let mut stage = Stage::build(family)?;
        stage.serve_at_node();
        let real = stage.node.run(|| furnish(family)).unwrap();
        let mut twin = Simulated::new(variant, family);
        let mut ipvs = kernel_sim::ipvs::Simulated::default();
        assert_eq!(ipvs.run(&requests(family)).unwrap(), []);
        assert_eq!(twin.sets.run(&hairpin(family)).unwrap(), []);
        twin.ipvs = Some(ipvs);
        Some(Self { stage, real, twin })
    }

    fn restore(&mut self, variant: Variant, text: &str) {
        let empty = ["filter", "nat", "mangle"]
            .map(|table| {
                let policy = if table == "filter" { "-P FORWARD ACCEPT\n" } else { "" };
                format!("*{table}\n{policy}-F\nCOMMIT\n")
            })
            .concat();
        for text in [&empty, text] {
            assert!(self.stage.restore(variant, text));
            self.twin.restore(text).unwrap();
        }
    }

    /// Sends some datagrams to the virtual server; they end wherever the twin says that they may, and nowhere else.
    fn send(&mut self, sender: Sender, last: u8, text: &str) -> BTreeSet<Seen> {
        let family = self.stage.family;
        let to = at(family, last);
        let packet = self.stage.sim_packet(sender, to.ip(), to.port());
        let mut local = packet.local.clone();
        local.extend([WEB, MARKER, OWN].map(|last| service(family, last)));
        let ways = self.twin.ways(&SimPacket { local, ..packet }, Duration::ZERO);
        let possible: BTreeSet<Seen> = ways.iter().map(|way| meaning(&way.outcome)).collect();
        let send =
            |_| self.stage.send(sender, to, &possible, at(family, MARKER)).expect("it comes to an end");
        let seen: BTreeSet<Seen> = (0..TRIES).map(send).collect();
        assert_eq!(seen, possible, "{family} {sender:?} through\n{text}");
        seen
    }
}

#[test]
fn root_ipvs_stands_between_the_tables_where_the_twin_has_it() {
    if std::env::var_os("PORTWAY_VM").is_none() {
        eprintln!("skipped: it needs the VM's kernel: `cargo xtask vm --smoke`");
        return;
    }
    Command::new("modprobe").arg("ip_vs").status().unwrap();
    // The VM is slow: one family shows the place of the other program's tables.
    for (variant, family) in
        [(Variant::Nft, Family::V4), (Variant::Nft, Family::V6), (Variant::Legacy, Family::V4)]
    {
        let Some(mut pair) = Pair::build(variant, family) else { return };
        let mut ends = BTreeSet::new();
        for template in TEXTS {
            // What the node sends to itself with its source hidden looks as if it were not, so that is not asked.
            for (last, sender) in [(WEB, Sender::Client(1)), (WEB, Sender::Node), (OWN, Sender::Client(1))] {
                let text = text(family, template, last);
                pair.restore(variant, &text);
                ends.extend(pair.send(sender, last, &text));
            }
        }
        let deletions = requests(family).into_iter().filter_map(|request| match request {
            Request::AddServer(what @ What::Address(address, _), server) if address == at(family, WEB) => {
                Some(Request::DeleteServer(what, server.address))
            }
            _ => None,
        });
        let deletions: Vec<_> = deletions.collect();
        assert_eq!(pair.real.run(&deletions).unwrap(), []);
        assert_eq!(pair.twin.ipvs.as_mut().unwrap().run(&deletions).unwrap(), []);
        pair.restore(variant, "");
        for sender in [Sender::Client(1), Sender::Node] {
            assert_eq!(pair.send(sender, WEB, "no server"), BTreeSet::from([Seen::Refused]));
        }
        assert!(ends.len() >= 7, "every end is among them: {ends:?}");
        let sent = (3 * TEXTS.len() + 2) * TRIES;
        eprintln!("counted: {sent} real datagrams through IPVS and {variant} {family}");
    }
}
