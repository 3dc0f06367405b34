//! Who gets how many connections: equal shares, and shares by weight.
//!
//! Counts are held against the shares that the model gives, by a chi-square test.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use model::{Fate, Protocol};
use playground::statistics::check_shares;
use playground::{Family, Work, many};

use crate::manifest::Service;
use crate::reference::verdict;
use crate::stage::{Setting, Stage};
use crate::talk::{PATIENCE, enough, none_failed};

use super::ALL;

const CONNECTIONS: u64 = 4_000;

pub(crate) fn root_connections_spread_evenly_over_endpoints(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    let equal = ALL.map(|pod| (pod, 1));
    for (family, protocol) in stage.way().every_kind() {
        check_balance(&stage, &Dial { from: "client-a", protocol, to: web.cluster_ip(family) }, &equal);
    }
}

pub(crate) fn root_node_ports_spread_evenly_too(setting: &Setting) {
    let web = Service::new("web", 1).on(&ALL);
    let Some(stage) = setting.stage(&[&web]) else { return };
    let equal = ALL.map(|pod| (pod, 1));
    for family in Family::ALL {
        let to = stage.place("a").at(family, web.node_port());
        check_balance(&stage, &Dial { from: "outside", protocol: Protocol::Tcp, to }, &equal);
    }
}

pub(crate) fn root_weights_shape_the_shares(setting: &Setting) {
    let web = Service::new("web", 1).on(&["web-a-0", "web-b-0", "web-b-1"]);
    let web = web.weights("web-a-0=3,web-b-0=1,web-b-1=0");
    let Some(stage) = setting.stage(&[&web]) else { return };
    for family in Family::ALL {
        let dial = Dial { from: "client-a", protocol: Protocol::Tcp, to: web.cluster_ip(family) };
        check_balance(&stage, &dial, &[("web-a-0", 3), ("web-b-0", 1)]);
    }
}

/// Who dials what, by way of node a.
struct Dial {
    from: &'static str,
    protocol: Protocol,
    to: SocketAddr,
}

impl fmt::Display for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} {}", self.from, self.to, self.protocol)
    }
}

fn check_balance(stage: &Stage, dial: &Dial, shares: &[(&str, u64)]) {
    let wanted: BTreeMap<_, _> = shares.iter().map(|(pod, share)| ((*pod).to_owned(), *share)).collect();
    assert_eq!(shares_of_the_model(stage, dial), wanted, "{dial}");
    let counts = count_answers(stage, dial);
    if let Err(unfair) = check_shares(&counts, shares) {
        panic!("{dial}: {unfair}");
    }
}

fn shares_of_the_model(stage: &Stage, dial: &Dial) -> BTreeMap<String, u64> {
    let Fate::OneOf(one_of) = verdict(stage, dial.from, dial.protocol, dial.to, "a").fate else {
        panic!("the model does not forward {dial}");
    };
    let landings = one_of.landings.iter();
    landings.map(|landing| (stage.name_of(landing.address), landing.slots.into())).collect()
}

/// Who answered how often.
fn count_answers(stage: &Stage, dial: &Dial) -> BTreeMap<String, u64> {
    match dial.protocol {
        Protocol::Tcp | Protocol::Udp => count_many(stage, dial),
        Protocol::Sctp => count_inits(stage, dial),
    }
}

fn count_many(stage: &Stage, dial: &Dial) -> BTreeMap<String, u64> {
    let work = Work { protocol: dial.protocol, ..Work::default() };
    let connections = enough(CONNECTIONS).min(CONNECTIONS);
    let count = usize::try_from(connections).unwrap();
    let stats = many(stage.place(dial.from), dial.to, count, &work).unwrap();
    stage.talk.count_stats(Family::of(dial.to.ip()), dial.protocol, &stats);
    none_failed(&stats);
    assert_eq!(stats.ok, connections);
    stats.servers
}

fn count_inits(stage: &Stage, dial: &Dial) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for _ in 0..enough(CONNECTIONS).min(CONNECTIONS) {
        let outcome = stage.talk.ask(stage.place(dial.from), Protocol::Sctp, dial.to, PATIENCE);
        let server = outcome.server().unwrap_or_else(|| panic!("{dial}: {outcome}"));
        *counts.entry(server.to_owned()).or_default() += 1;
    }
    counts
}
