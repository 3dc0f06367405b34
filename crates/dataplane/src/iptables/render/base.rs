//! What belongs to no service port: fixed chains, the last rules of `KUBE-SERVICES`, and the jumps from the kernel's own
//! chains.

use std::collections::BTreeSet;

use kernel::xtables::{Is, Match, Rule, State, Table, Target};
use model::Family;
use model::net::IpNet;

use super::{Base, Chain, Jump, Renderer};
use crate::iptables::names::{self, name};

const LAST: &str = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";

pub(super) fn base(renderer: &Renderer<'_>) -> Base {
    let mark = renderer.options.masquerade_mark;
    let has_guard = renderer.options.localhost_node_ports && renderer.family == Family::V4;
    let firewall = has_guard.then(|| chain(names::FIREWALL, vec![guard()]));
    let forward = chain(names::FORWARD, forward(mark, renderer.options.drops_invalid));
    let mark_masq = chain(names::MARK_MASQ, vec![Rule::new([], Target::OrMark(mark))]);
    let postrouting = chain(names::POSTROUTING, postrouting(mark));
    let canary = || chain(names::CANARY, Vec::new());
    Base {
        filter: [forward].into_iter().chain(firewall).chain([canary()]).collect(),
        nat: [postrouting, mark_masq]
            .into_iter()
            .chain(renderer.pods.mark_outside())
            .chain([canary()])
            .collect(),
        mangle: vec![canary()],
        last_services: last_services(renderer),
        jumps: jumps(has_guard),
    }
}

fn chain(text: &str, rules: Vec<Rule>) -> Chain {
    Chain { name: name(text), rules }
}

fn last_services(renderer: &Renderer<'_>) -> Vec<Rule> {
    let rule = |destination: &Vec<Match>| {
        let parts = [comment(LAST)].into_iter().chain(destination.iter().cloned());
        Rule::new(parts, Target::Jump(name(names::NODE_PORTS)))
    };
    renderer.node_ports.destinations.iter().map(rule).collect()
}

/// Only what carries the mark is masqueraded. The mark goes before, so that a packet which comes around again is not
/// masqueraded twice.
fn postrouting(mark: u32) -> Vec<Rule> {
    let snat = comment("kubernetes service traffic requiring SNAT");
    vec![
        Rule::new([Match::Mark { is: Is::Not, value: mark, mask: mark }], Target::Return),
        Rule::new([], Target::XorMark(mark)),
        Rule::new([snat], Target::Masquerade { random_fully: true }),
    ]
}

/// What we translate is let through, even where others forward nothing by default.
fn forward(mark: u32, drops_invalid: bool) -> Vec<Rule> {
    let invalid = drops_invalid.then(|| Rule::new([states(Is::Equal, &[State::Invalid])], Target::Drop));
    let marked =
        [comment("kubernetes forwarding rules"), Match::Mark { is: Is::Equal, value: mark, mask: mark }];
    let later = [
        comment("kubernetes forwarding conntrack rule"),
        states(Is::Equal, &[State::Related, State::Established]),
    ];
    let accepted = [Rule::new(marked, Target::Accept), Rule::new(later, Target::Accept)];
    invalid.into_iter().chain(accepted).collect()
}

/// With `route_localnet`, a neighbour could send to 127.0.0.1 of this host. kubelet writes the same rule.
fn guard() -> Rule {
    let loopback: IpNet = "127.0.0.0/8".parse().expect("it is a network");
    let parts = [
        comment("block incoming localnet connections"),
        Match::Destination(Is::Equal, loopback),
        Match::Source(Is::Not, loopback),
        states(Is::Not, &[State::Related, State::Established, State::Dnat]),
    ];
    Rule::new(parts, Target::Drop)
}

fn jumps(has_guard: bool) -> Vec<Jump> {
    let (filter, nat) = (Table::Filter, Table::Nat);
    let seen = "kubernetes externally-visible service portals";
    let portals = "kubernetes service portals";
    let balancers = "kubernetes load balancer firewall";
    let mut jumps = vec![
        jump(filter, "INPUT", names::EXTERNAL_SERVICES, true, seen),
        jump(filter, "FORWARD", names::EXTERNAL_SERVICES, true, seen),
        jump(filter, "INPUT", names::NODE_PORTS, false, "kubernetes health check service ports"),
        jump(filter, "FORWARD", names::SERVICES, true, portals),
        jump(filter, "OUTPUT", names::SERVICES, true, portals),
        jump(filter, "FORWARD", names::FORWARD, false, "kubernetes forwarding rules"),
        jump(filter, "INPUT", names::PROXY_FIREWALL, true, balancers),
        jump(filter, "OUTPUT", names::PROXY_FIREWALL, true, balancers),
        jump(filter, "FORWARD", names::PROXY_FIREWALL, true, balancers),
        jump(nat, "OUTPUT", names::SERVICES, false, portals),
        jump(nat, "PREROUTING", names::SERVICES, false, portals),
        jump(nat, "POSTROUTING", names::POSTROUTING, false, "kubernetes postrouting rules"),
    ];
    if has_guard {
        for from in ["INPUT", "OUTPUT"] {
            let rule = Rule::new([], Target::Jump(name(names::FIREWALL)));
            jumps.push(Jump { table: filter, from: name(from), rule });
        }
    }
    jumps
}

fn jump(table: Table, from: &str, to: &str, only_new: bool, words: &str) -> Jump {
    let new = only_new.then(|| states(Is::Equal, &[State::New]));
    let rule = Rule::new(new.into_iter().chain([comment(words)]), Target::Jump(name(to)));
    Jump { table, from: name(from), rule }
}

fn states(is: Is, states: &[State]) -> Match {
    Match::State(is, states.iter().copied().collect::<BTreeSet<_>>())
}

fn comment(text: &str) -> Match {
    Match::Comment(text.to_owned())
}
