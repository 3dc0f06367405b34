//! The chains of one family: a fixed handful, and some for each class in use.
//!
//! In: the node, the options, the classes in use. Out: every chain with its rules, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use kernel::IpProtocol;
use kernel::nft::{
    Bits, Chain, ChainKind, DnatTo, Hook, HookPoint, InterfaceName, Match, Name, Pattern, Policy, Prefix,
    PriorityFrom, Reject, Rule, Selector, Side, Statement, Verdict,
};
use model::table::{Masquerade, NodeView, PodDetector};
use model::{Family, NodePortAddress, Protocol};

use super::Options;
use super::class::{Class, Door, Forward};
use super::layout::{LOCAL_SLOTS, PRIORITY_FLAG, SetId, sticky};

/// Where refusals are answered.
pub(super) const REFUSE: &str = "refuse";
const ROUTE: &str = "route";
/// Where packets to node ports on loopback addresses are counted that no listener of ours takes: a rule for each of [`Protocol::ALL`], in that order, whatever
/// leads there, so that it is never written anew and counts on.
pub(super) const LOCALHOST: &str = "localhost-node-ports";
const ROUTE_NODE_PORT: &str = "route-node-port";
const OUTSIDE: &str = "outside";
const OUTSIDE_NODE_PORT: &str = "outside-node-port";
/// Upstream has no chain of this name: a base chain of a shared name at another hook would keep it from starting on our table.
const STRAY_REPLIES: &str = "stray-replies";

/// Destination NAT happens at this priority, source NAT at the other: the kernel's own numbers.
const DSTNAT: i32 = -100;
const SRCNAT: i32 = 100;
/// After the connection tracker, which says what is invalid.
const MANGLE: i32 = -150;

/// A chain and its rules.
pub(super) type Chains = BTreeMap<Name, (Chain, Vec<Rule>)>;

/// What decides the rules beside the classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseRules {
    family: Family,
    masquerade_mark: u32,
    drops_stray_replies: bool,
    not_pod: Vec<Match>,
    at_node_address: Vec<Match>,
    /// Addresses on which node ports answer, where those are a list.
    pub(super) node_addresses: BTreeSet<std::net::IpAddr>,
    /// Node ports answer on localhost, by TCP and UDP: listeners of ours are there.
    localhost_listens: bool,
}

impl BaseRules {
    pub(super) fn of(node: &NodeView, family: Family, options: &Options) -> Self {
        let entries = node.node_port_addresses(family, options.promises.default_node_port_addresses);
        let own =
            node.addresses.iter().filter(|ip| Family::of(**ip) == family && node.covers(&entries, **ip));
        let is_all = entries.contains(&NodePortAddress::All);
        Self {
            family,
            masquerade_mark: options.masquerade_mark,
            drops_stray_replies: options.drops_stray_replies,
            not_pod: not_pod(&node.pods, family),
            at_node_address: if is_all { any_local_address(family) } else { vec![in_node_addresses()] },
            node_addresses: if is_all { BTreeSet::new() } else { own.copied().collect() },
            localhost_listens: node.covers(&entries, loopback(family).address),
        }
    }
}

/// True for packets of which it is not known that a pod of this cluster sent them.
fn not_pod(pods: &PodDetector, family: Family) -> Vec<Match> {
    let interface = |pattern| vec![Match::InputInterface { pattern, not: true }];
    match pods {
        PodDetector::Networks(networks) => networks.get(family).iter().map(outside).collect(),
        // A name that is too long for an interface is no interface's: nothing is a pod's packet.
        PodDetector::Interface(name) => {
            InterfaceName::new(name).map(Pattern::Exact).map_or(Vec::new(), interface)
        }
        PodDetector::InterfacePrefix(prefix) => {
            InterfaceName::new(prefix).map(Pattern::StartsWith).map_or(Vec::new(), interface)
        }
    }
}

fn outside(net: &model::net::IpNet) -> Match {
    let prefix = Prefix { address: net.addr(), length: net.prefix_len() };
    Match::InPrefix { side: Side::Source, prefix, not: true }
}

fn in_node_addresses() -> Match {
    Match::InSet { key: vec![Selector::Destination], set: SetId::NodeAddresses.name().into(), not: false }
}

fn any_local_address(family: Family) -> Vec<Match> {
    let prefix = loopback(family);
    vec![Match::Local(Side::Destination), Match::InPrefix { side: Side::Destination, prefix, not: true }]
}

/// The loopback addresses; the address is the one that is called localhost.
fn loopback(family: Family) -> Prefix {
    match family {
        Family::V4 => Prefix { address: Ipv4Addr::LOCALHOST.into(), length: 8 },
        Family::V6 => Prefix { address: Ipv6Addr::LOCALHOST.into(), length: 128 },
    }
}

/// Every chain that these classes need.
pub(super) fn render<'a>(base: &BaseRules, classes: impl Iterator<Item = &'a (Door, Class)>) -> Chains {
    let mut writer = Writer { base, chains: Chains::new() };
    writer.fixed();
    for (door, class) in classes {
        if let Class::Forward(forward) = class {
            writer.class(*door, *forward);
        }
    }
    writer.chains
}

struct Writer<'a> {
    base: &'a BaseRules,
    chains: Chains,
}

impl Writer<'_> {
    fn chain(&mut self, chain: Chain, rules: impl IntoIterator<Item = Vec<Statement>>) {
        let rules = rules.into_iter().map(|statements| Rule::new(&chain.name, statements)).collect();
        self.chains.insert(chain.name.clone(), (chain, rules));
    }

    fn fixed(&mut self) {
        self.chain(base("nat-prerouting", HookPoint::Prerouting, DSTNAT), [vec![Statement::jump(ROUTE)]]);
        let output = [self.ask_localhost(), vec![Statement::jump(ROUTE)]];
        self.chain(base("nat-output", HookPoint::Output, DSTNAT), output);
        self.chain(base("nat-postrouting", HookPoint::Postrouting, SRCNAT), self.postrouting());
        if self.base.drops_stray_replies {
            self.chain(base_filter(STRAY_REPLIES, HookPoint::Prerouting, MANGLE), [drop_stray_reply()]);
        }
        self.chain(Chain::new(ROUTE), self.route());
        self.chain(Chain::new(OUTSIDE), outside_chain(SetId::Classes));
        self.chain(Chain::new(ROUTE_NODE_PORT), self.route_node_port());
        self.chain(Chain::new(OUTSIDE_NODE_PORT), outside_chain(SetId::NodePortClasses));
        self.chain(Chain::new(REFUSE), refuse());
        self.chain(Chain::new(LOCALHOST), Protocol::ALL.map(count_node_port));
    }

    /// What this host sends to loopback addresses and no listener of ours takes is counted, if it is for a node port.
    fn ask_localhost(&self) -> Vec<Statement> {
        let prefix = loopback(self.base.family);
        let mut rule =
            vec![Statement::Match(Match::InPrefix { side: Side::Destination, prefix, not: false })];
        if self.base.localhost_listens {
            rule.push(Statement::Match(Match::Protocol(IpProtocol::SCTP)));
        }
        rule.push(Statement::jump(LOCALHOST));
        rule
    }

    fn postrouting(&self) -> Vec<Vec<Statement>> {
        let mark = self.base.masquerade_mark;
        let hairpin = in_set(vec![Selector::Source, Selector::Destination], SetId::Hairpins);
        vec![
            vec![
                Statement::Match(Match::CtStatusDnat),
                Statement::Match(Match::Priority { mask: PRIORITY_FLAG, value: PRIORITY_FLAG }),
                Statement::SetPriority(PriorityFrom::Bits(Bits::Be(0))),
            ],
            vec![
                Statement::Match(Match::Mark { mask: mark, value: mark }),
                Statement::SetMark(Bits::Xor(mark)),
                Statement::Masquerade,
            ],
            vec![Statement::Match(Match::CtStatusDnat), hairpin, Statement::Masquerade],
        ]
    }

    /// The order of upstream: who may come, then frontends, then node ports, then refusals.
    fn route(&self) -> Vec<Vec<Statement>> {
        let key = key(Door::Address);
        let with_source = [&key[..], &[Selector::Source]].concat();
        let not_allowed =
            Match::InSet { key: with_source, set: SetId::AllowedSources.name().into(), not: true };
        let mut at_node_address: Vec<_> =
            self.base.at_node_address.iter().cloned().map(Statement::Match).collect();
        // A jump: an address of this host may be a cluster IP too, whose undefined ports are refused.
        at_node_address.push(Statement::jump(ROUTE_NODE_PORT));
        vec![
            vec![
                in_set(key, SetId::Guarded),
                Statement::Match(not_allowed),
                Statement::Verdict(Verdict::Drop),
            ],
            self.ask_outside(Door::Address, SetId::OutsideFrontends, OUTSIDE),
            ask(Door::Address, SetId::Frontends, SetId::Classes),
            at_node_address,
            vec![in_set(vec![Selector::Destination], SetId::ClusterAddresses), Statement::goto(REFUSE)],
            vec![in_set(vec![Selector::Destination], SetId::LeftAlone), Statement::Verdict(Verdict::Return)],
            vec![
                in_set(vec![Selector::Destination], SetId::ServiceNetworks),
                Statement::Verdict(Verdict::Drop),
            ],
        ]
    }

    fn route_node_port(&self) -> Vec<Vec<Statement>> {
        vec![
            self.ask_outside(Door::NodePort, SetId::OutsideNodePorts, OUTSIDE_NODE_PORT),
            ask(Door::NodePort, SetId::NodePorts, SetId::NodePortClasses),
        ]
    }

    /// Sources that are not pods ask here first, for frontends whose external traffic must stay on this node.
    fn ask_outside(&self, door: Door, frontends: SetId, chain: &str) -> Vec<Statement> {
        let mut rule = self.not_pod();
        rule.extend([priority_from(key(door), frontends), Statement::jump(chain)]);
        rule
    }

    fn not_pod(&self) -> Vec<Statement> {
        self.base.not_pod.iter().cloned().map(Statement::Match).collect()
    }

    fn class(&mut self, door: Door, forward: Forward) {
        let mut rules: Vec<Vec<Statement>> = self.mark(forward.masquerade).into_iter().collect();
        match forward.sticky_seconds {
            None => {
                rules.push(vec![Statement::goto(&pick_name(door, forward))]);
                self.pick(door, forward);
            }
            Some(seconds) => {
                let number = match door {
                    Door::Address => SetId::StickyFrontends,
                    Door::NodePort => SetId::StickyNodePorts,
                };
                let next = sticky_name(forward, seconds);
                rules.push(vec![priority_from(key(door), number), Statement::goto(&next)]);
                self.sticky(forward, seconds);
            }
        }
        self.chain(Chain::new(&forward.chain(door)), rules);
    }

    /// The rule that hides sources, if some are hidden.
    fn mark(&self, masquerade: Masquerade) -> Option<Vec<Statement>> {
        let mark = Statement::SetMark(Bits::Or(self.base.masquerade_mark));
        let mut rule = match masquerade {
            Masquerade::Nobody => return None,
            Masquerade::Everybody => Vec::new(),
            Masquerade::AllButPods => self.not_pod(),
            Masquerade::ThisHost => {
                let mut rule = vec![Statement::Match(Match::Local(Side::Source))];
                rule.extend(self.not_pod());
                rule
            }
        };
        rule.push(mark);
        Some(rule)
    }

    /// The second rule is for a packet that read the number of slots just before a slot went: the first slot is there as
    /// long as the service has an endpoint.
    fn pick(&mut self, door: Door, forward: Forward) {
        let endpoints = match door {
            Door::Address => SetId::Endpoints,
            Door::NodePort => SetId::NodePortEndpoints,
        };
        let rule = |modulus: u32| {
            let key = [&key(door)[..], &[slot(modulus, forward.is_local)]].concat();
            vec![Statement::Dnat(DnatTo::Map { key, map: endpoints.name().into() })]
        };
        self.chain(Chain::new(&pick_name(door, forward)), once_and_first(forward.slots, rule));
    }

    /// First the remembered endpoint. When there is none, or it is retired: forget it (an update keeps the old value of an
    /// entry that exists) and pick a new one.
    fn sticky(&mut self, forward: Forward, seconds: u32) {
        let stick = stick_name(forward.is_local, seconds);
        let remembered = priority_from(vec![Selector::Source, Selector::Priority], SetId::Affinity);
        let picked = |modulus: u32| {
            let key = vec![Selector::Priority, slot(modulus, forward.is_local)];
            vec![priority_from(key, SetId::StickySlots), Statement::goto(&stick)]
        };
        let mut rules = vec![
            vec![remembered, Statement::jump(&stick)],
            vec![Statement::SetPriority(PriorityFrom::Bits(Bits::And(sticky::SERVICE_MASK)))],
            vec![Statement::Delete {
                map: SetId::Affinity.name().into(),
                key: vec![Selector::Source, Selector::Priority],
                data: Selector::Priority,
            }],
        ];
        rules.extend(once_and_first(forward.slots, picked));
        self.chain(Chain::new(&sticky_name(forward, seconds)), rules);
        self.stick(forward.is_local, seconds);
    }

    /// Remember the endpoint, and go there. Falls through when it is retired. The two are rules of their own, because an
    /// update of a full map ends its rule.
    fn stick(&mut self, is_local: bool, seconds: u32) {
        let remember = Statement::Update {
            map: SetId::Affinity.name().into(),
            key: vec![Selector::Source, Selector::PriorityAnd(sticky::SERVICE_MASK)],
            data: Selector::Priority,
            timeout: Duration::from_secs(seconds.into()),
        };
        let key = vec![Selector::Protocol, Selector::Priority];
        let go = Statement::Dnat(DnatTo::Map { key, map: SetId::StickyEndpoints.name().into() });
        let mut rules = vec![vec![remember]];
        if is_local {
            rules.push(vec![Statement::SetPriority(PriorityFrom::Bits(Bits::Or(sticky::LOCAL)))]);
        }
        rules.push(vec![go]);
        self.chain(Chain::new(&stick_name(is_local, seconds)), rules);
    }
}

fn base(name: &str, point: HookPoint, priority: i32) -> Chain {
    Chain::base(name, Hook { kind: ChainKind::Nat, point, priority, policy: Policy::Accept })
}

fn base_filter(name: &str, point: HookPoint, priority: i32) -> Chain {
    Chain::base(name, Hook { kind: ChainKind::Filter, point, priority, policy: Policy::Accept })
}

/// A reply far ahead of the TCP window is invalid: it has no conntrack entry, so its source is not translated back. The client does not
/// know that source and resets the connection. Packets that open or end a connection pass: where replies alone are routed over this
/// node, the connection tracker calls those invalid, too.
fn drop_stray_reply() -> Vec<Statement> {
    vec![
        Statement::Match(Match::CtStateInvalid),
        Statement::Match(Match::Protocol(IpProtocol::TCP)),
        Statement::Match(Match::TcpMidStream),
        in_set(vec![Selector::Source, Selector::SourcePort], SetId::ReplySources),
        Statement::Verdict(Verdict::Drop),
    ]
}

fn key(door: Door) -> Vec<Selector> {
    match door {
        Door::Address => vec![Selector::Destination, Selector::Protocol, Selector::Port],
        Door::NodePort => vec![Selector::Protocol, Selector::Port],
    }
}

fn in_set(key: Vec<Selector>, set: SetId) -> Statement {
    Statement::Match(Match::InSet { key, set: set.name().into(), not: false })
}

fn priority_from(key: Vec<Selector>, map: SetId) -> Statement {
    Statement::SetPriority(PriorityFrom::Map { key, map: map.name().into() })
}

fn by_class(classes: SetId) -> Statement {
    Statement::VerdictMap { key: vec![Selector::Priority], map: classes.name().into() }
}

fn ask(door: Door, frontends: SetId, classes: SetId) -> Vec<Statement> {
    vec![priority_from(key(door), frontends), by_class(classes)]
}

/// Counts a packet for a node port, and lets it go on: the kernel refuses it, unless a program of this host listens there. The map can
/// only be asked into the priority, which is none of our numbers afterwards.
fn count_node_port(protocol: Protocol) -> Vec<Statement> {
    vec![
        Statement::Match(Match::Protocol(protocol.into())),
        priority_from(key(Door::NodePort), SetId::NodePorts),
        Statement::Counter,
        Statement::SetPriority(PriorityFrom::Bits(Bits::Be(0))),
    ]
}

/// This host goes back, to use any endpoint.
fn outside_chain(classes: SetId) -> Vec<Vec<Statement>> {
    vec![
        vec![Statement::Match(Match::Local(Side::Source)), Statement::Verdict(Verdict::Return)],
        vec![by_class(classes)],
    ]
}

/// TCP is refused by a reset: ICMP errors are rate limited per client, and a lost one is a timeout.
fn refuse() -> Vec<Vec<Statement>> {
    vec![
        vec![Statement::Match(Match::Protocol(IpProtocol::TCP)), Statement::Reject(Reject::TcpReset)],
        vec![Statement::Reject(Reject::PortUnreachable)],
    ]
}

fn slot(modulus: u32, is_local: bool) -> Selector {
    Selector::Slot { modulus, offset: if is_local { LOCAL_SLOTS } else { 0 } }
}

/// A rule over all slots, then one over the first alone, where there are more.
fn once_and_first(slots: u32, rule: impl Fn(u32) -> Vec<Statement>) -> Vec<Vec<Statement>> {
    if slots == 1 { vec![rule(1)] } else { vec![rule(slots), rule(1)] }
}

fn local(is_local: bool) -> &'static str {
    if is_local { "local-" } else { "" }
}

fn pick_name(door: Door, forward: Forward) -> String {
    format!("{}pick-{}{}", door.prefix(), local(forward.is_local), forward.slots)
}

fn sticky_name(forward: Forward, seconds: u32) -> String {
    format!("sticky-{}{}-{seconds}", local(forward.is_local), forward.slots)
}

fn stick_name(is_local: bool, seconds: u32) -> String {
    format!("stick-{}{seconds}", local(is_local))
}
