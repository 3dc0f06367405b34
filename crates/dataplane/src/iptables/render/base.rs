//! What belongs to no service port: fixed chains, the last rules of `KUBE-SERVICES`, and the jumps from the kernel's own
//! chains.

use kernel::xtables::{Is, Match, Rule, Side, State, Table, Target};
use model::Family;

use super::{Renderer, marks};
use crate::iptables::names;
use crate::xtables::{
    Base, CANARY, Chain, Jump, NODE_PORTS, Place, SERVICES, filter_jumps, loopback, name, states,
};

const LAST: &str = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";

pub(super) fn base(renderer: &Renderer<'_>) -> Base {
    let mark = renderer.options.masquerade_mark;
    let has_guard = renderer.options.localhost_node_ports && renderer.family == Family::V4;
    let forward = Chain::new(names::FORWARD, forward(mark, renderer.options.drops_invalid));
    let mark_masq = Chain::new(names::MARK_MASQ, mark_masq(mark, has_guard));
    let postrouting = Chain::new(names::POSTROUTING, postrouting(mark));
    let canary = || Chain::new(CANARY, Vec::new());
    Base {
        filter: vec![forward, canary()],
        nat: [postrouting, mark_masq]
            .into_iter()
            .chain(marks::mark_outside(&renderer.pods))
            .chain([canary()])
            .collect(),
        mangle: vec![canary()],
        last: has_guard.then(return_foreign_sources).into_iter().chain(last_services(renderer)).collect(),
        jumps: jumps(has_guard),
    }
}

/// A translation comes before the kernel's own check of loopback addresses, and before [`guard`]: a neighbour that sends to
/// 127.0.0.1 would be led to an endpoint (CVE-2020-8558). Upstream's rules do that.
fn return_foreign_sources() -> Rule {
    let parts = [
        comment("localhost node ports answer this host alone"),
        Match::Destination(Is::Equal, loopback(Family::V4)),
        Match::Local(Side::Source, Is::Not),
    ];
    Rule::new(parts, Target::Return)
}

fn last_services(renderer: &Renderer<'_>) -> Vec<Rule> {
    let rule = |destination: &Vec<Match>| {
        let parts = [comment(LAST)].into_iter().chain(destination.iter().cloned());
        Rule::new(parts, Target::Jump(name(NODE_PORTS)))
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

/// With node ports on loopback addresses, connections to these are counted: each of them comes here once, and nothing else with such a
/// destination does. Upstream has a rule for it beside each node port.
fn mark_masq(mark: u32, counts_localhost: bool) -> Vec<Rule> {
    let count = || {
        let words = comment("localhost node ports are counted here");
        Rule::new([words, Match::Destination(Is::Equal, loopback(Family::V4))], None)
    };
    counts_localhost.then(count).into_iter().chain([Rule::new([], Target::OrMark(mark))]).collect()
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
    let parts = [
        comment("block incoming localnet connections"),
        Match::Destination(Is::Equal, loopback(Family::V4)),
        Match::Source(Is::Not, loopback(Family::V4)),
        states(Is::Not, &[State::Related, State::Established, State::Dnat]),
    ];
    Rule::new(parts, Target::Drop)
}

fn jumps(has_guard: bool) -> Vec<Jump> {
    let portals = "kubernetes service portals";
    let forward = jump(Table::Filter, "FORWARD", names::FORWARD, &[comment("kubernetes forwarding rules")]);
    let mut jumps = filter_jumps([forward]);
    jumps.extend([
        jump(Table::Nat, "OUTPUT", SERVICES, &[comment(portals)]),
        jump(Table::Nat, "PREROUTING", SERVICES, &[comment(portals)]),
        jump(Table::Nat, "POSTROUTING", names::POSTROUTING, &[comment("kubernetes postrouting rules")]),
    ]);
    if has_guard {
        // kubelet's chain, which may hold rules of others: what counts is that ours is among them.
        let from = name(names::FIREWALL);
        jumps.push(Jump { table: Table::Filter, from, place: Place::First, rule: guard() });
        jumps.extend(["INPUT", "OUTPUT"].map(|from| jump(Table::Filter, from, names::FIREWALL, &[])));
    }
    jumps
}

fn jump(table: Table, from: &str, to: &str, parts: &[Match]) -> Jump {
    let rule = Rule::new(parts.iter().cloned(), Target::Jump(name(to)));
    Jump { table, from: name(from), place: Place::First, rule }
}

fn comment(text: &str) -> Match {
    Match::Comment(text.to_owned())
}
