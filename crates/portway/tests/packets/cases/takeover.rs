//! Taking over from upstream kube-proxy while traffic runs: no connection fails, none that is open breaks, nothing of
//! upstream's is left, and everything of others is where it was.
//!
//! Both nodes begin with rules in upstream's exact shape, beside kubelet's chains and rules of others, in both families.
//! From iptables the way is gone several times: upstream's rules are put back beside ours, ours are removed, and the next portway
//! takes over again.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use kernel::xtables::{Found, Programs, Saved, Table, Variant, Xtables};
use playground::plan::NODES;
use playground::{Ask, Family, Held, Load, Protocol, Work};

use crate::manifest::{HELD_PORT, Service};
use crate::stage::{Setting, Stage, until};
use crate::talk::{PATIENCE, none_failed};
use crate::upstream;

use super::ALL;
use super::live::Traffic;

/// So many connections are held.
const HELD: usize = 100;
/// So often it is taken over from iptables, on each node.
const ROUNDS: usize = 3;
/// UDP flows from a port that was used before would not be new.
const UDP_PAUSE: Duration = Duration::from_millis(2);
const TABLES: [Table; 3] = [Table::Nat, Table::Filter, Table::Mangle];

/// What upstream's names of chains begin with, apart from kubelet's.
const THEIRS: &[&str] = &[
    "KUBE-SVC-",
    "KUBE-SEP-",
    "KUBE-EXT-",
    "KUBE-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-MARK-MASQ",
    "KUBE-FORWARD",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-PROXY-",
];

pub(crate) fn root_taking_over_from_upstreams_chains_in_iptables_nft_disturbs_nobody(setting: &Setting) {
    from_iptables(setting, Variant::Nft);
}

pub(crate) fn root_taking_over_from_upstreams_chains_in_iptables_legacy_disturbs_nobody(setting: &Setting) {
    from_iptables(setting, Variant::Legacy);
}

pub(crate) fn root_taking_over_from_upstreams_nftables_table_disturbs_nobody(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage_without_portways(&[&web]) else { return };
    for node in NODES {
        for family in Family::ALL {
            let address = stage.place(node).addresses().of(family);
            nft(&stage, node, &upstream::nftables::rules(&[&web], family, node, address));
        }
    }
    let mut load = Everything::start(&stage, &web);
    load.is_well();
    for node in NODES {
        stage.start(node);
        stage.wait_for_sync(node);
        load.is_well();
        let rules = nft(&stage, node, "list ruleset");
        for theirs in ["service-ips", "default/web/", "cluster-ips-check"] {
            assert!(!rules.contains(theirs), "`{theirs}` is left on node {node}:\n{rules}");
        }
    }
    load.end(&stage);
}

fn from_iptables(setting: &Setting, variant: Variant) {
    if !Programs::find().programs.iter().any(|door| door.variant() == variant) {
        return skip(variant);
    }
    let web = Service::new("web", 1).on(&ALL);
    let Some(mut stage) = setting.stage_without_portways(&[&web]) else { return };
    for node in NODES {
        for family in Family::ALL {
            restore(&stage, node, variant, family, upstream::iptables::NEIGHBOURS);
        }
    }
    let neighbours = NODES.map(|node| saved(&stage, node));
    for node in NODES {
        put_back(&stage, node, variant, &web);
    }
    let mut load = Everything::start(&stage, &web);
    load.is_well();
    for round in 0..ROUNDS {
        for (node, neighbours) in NODES.into_iter().zip(&neighbours) {
            stage.start(node);
            stage.wait_for_sync(node);
            until("nothing of upstream's is left", || !has_theirs(&saved(&stage, node)));
            assert_eq!(&saved(&stage, node), neighbours, "everything of others is where it was");
            load.is_well();
            if round + 1 < ROUNDS {
                stage.kill(node);
                put_back(&stage, node, variant, &web);
                remove_ours(&stage, node);
                load.is_well();
            }
        }
    }
    load.end(&stage);
}

/// Upstream's rules, on top of what is there.
fn put_back(stage: &Stage, node: &str, variant: Variant, web: &Service) {
    for family in Family::ALL {
        restore(stage, node, variant, family, &upstream::iptables::rules(&[web], family));
    }
}

/// What refuses goes first. While a table is being deleted its maps are empty a moment before its sets are, so that packets are
/// refused instead of reaching upstream's rules: 9 of 233,645 connections over 22 deletions.
fn remove_ours(stage: &Stage, node: &str) {
    for lines in [
        "flush set F kube-proxy cluster-addresses\nflush set F kube-proxy service-networks",
        "delete table F kube-proxy",
    ] {
        nft(stage, node, &format!("{}\n{}", lines.replace('F', "ip"), lines.replace('F', "ip6")));
    }
}

#[expect(clippy::print_stderr, reason = "the test's own output")]
fn skip(variant: Variant) {
    eprintln!("skipped: {variant} is not installed");
}

/// All clients there are: questions over TCP and UDP, cluster IPs and node ports, both families; and connections that stay.
struct Everything {
    traffic: Traffic,
    datagrams: [(Family, Load); 2],
    held: Vec<(Held, String)>,
}

impl Everything {
    fn start(stage: &Stage, web: &Service) -> Self {
        let ask = Ask::within(PATIENCE);
        let work = Work { protocol: Protocol::Udp, parallel: 1, ask, pause: UDP_PAUSE };
        let load = |from, to| Load::start(stage.place(from), to, &work).unwrap();
        let node_port = stage.place("a").at(Family::V4, web.node_port());
        let datagrams = [
            (Family::V4, load("outside", node_port)),
            (Family::V6, load("client-b", web.cluster_ip(Family::V6))),
        ];
        let held = (0..HELD).map(|number| hold(stage, web, number)).collect();
        Self { traffic: Traffic::start(stage, web), datagrams, held }
    }

    /// Traffic flows, and what is held goes on, each with its server.
    fn is_well(&mut self) {
        self.traffic.go_on();
        for (held, server) in &mut self.held {
            let outcome = held.ping(PATIENCE);
            assert_eq!(outcome.server(), Some(server.as_str()), "a held connection broke: {outcome}");
        }
        for (_, load) in &self.datagrams {
            assert_eq!(load.so_far().failed, 0, "{}", load.so_far());
        }
    }

    fn end(mut self, stage: &Stage) {
        self.traffic.until_enough();
        self.is_well();
        for (family, load) in self.datagrams {
            let stats = load.stop();
            stage.talk.count_stats(family, Protocol::Udp, &stats);
            none_failed(&stats);
        }
        self.traffic.end(stage);
        tell_held(self.held.len());
    }
}

#[expect(clippy::print_stderr, reason = "the test's own output, from which the summary takes the counts")]
fn tell_held(count: usize) {
    eprintln!("counted: {count} held connections went on");
}

/// One connection that stays; by its number a pod's to the cluster IP or an outsider's to a node port, in either family.
fn hold(stage: &Stage, web: &Service, number: usize) -> (Held, String) {
    let family = Family::ALL[number % 2];
    let (from, to) = if number % 4 < 2 {
        ("client-a", SocketAddr::new(web.cluster_ip(family).ip(), HELD_PORT))
    } else {
        // The held port's node port is a thousand above the other one.
        ("outside", stage.place("b").at(family, web.node_port() + 1000))
    };
    let held = Held::open(stage.place(from), Protocol::Tcp, to, &Ask::within(PATIENCE)).unwrap();
    let server = held.reply().server.clone();
    (held, server)
}

/// What all iptables programs of a node show, without the lines that tell the time, and the counters.
fn saved(stage: &Stage, node: &str) -> Vec<Saved> {
    let tables = |door: &mut Programs| {
        let mut text = |table| door.save(table).unwrap().unwrap_or_default();
        TABLES.map(|table| Saved::parse(&text(table)))
    };
    let all = || Programs::find().programs.iter_mut().flat_map(tables).collect();
    stage.place(node).run(all).unwrap()
}

fn has_theirs(saved: &[Saved]) -> bool {
    let is_theirs = |text: &str| THEIRS.iter().any(|theirs| text.contains(theirs));
    let mut chains = saved.iter().flat_map(|table| &table.chains);
    chains.any(|chain| is_theirs(&chain.name) || chain.rules.iter().any(|rule| is_theirs(rule)))
}

fn restore(stage: &Stage, node: &str, variant: Variant, family: Family, text: &str) {
    let work = || {
        let mut found: Found = Programs::find();
        found.door(variant, family).unwrap().restore(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    };
    stage.place(node).run(work).unwrap();
}

/// Has `nft` carry out lines on a node; what it printed.
fn nft(stage: &Stage, node: &str, lines: &str) -> String {
    let run = || Command::new("nft").arg(lines).output().unwrap();
    let output = stage.place(node).run(run).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft on node {node}: {said}\n{lines}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
