//! The rules of iptables: a few that ask sets, the same for all service ports; and one for each place whose outside has endpoints of
//! its own.

use std::collections::BTreeMap;

use kernel::IpProtocol;
use kernel::xtables::{Is, Match, Rule, Side, State, Table, Target};
use model::net::IpNet;
use model::table::NodeView;
use model::{Family, ForwardingTable, ServicePort};

use crate::ipvs::Options;
use crate::ipvs::items::Place;
use crate::ipvs::names::{self, MARKS, MARKS_MAX, SetId, WORDS, chain};
use crate::xtables::{
    self, Base, CANARY, Chain, Jump, Order, Place as At, Pods, PortRules, Shared, Style, states,
};

/// Nobody has rules of his own here; the machinery wants names for it.
const NOWHERE: Shared = Shared { table: Table::Nat, name: names::SERVICES, order: Order::Any };

/// How this mode's rules look.
#[derive(Clone, Debug)]
pub(in crate::ipvs) struct Rules {
    /// The bit that says: hide the source of this connection.
    pub(in crate::ipvs) masquerade_mark: u32,
    /// What comes to these places from outside gets these marks.
    pub(in crate::ipvs) outside: BTreeMap<Place, u32>,
}

impl Rules {
    /// Rules of these options, with these marks.
    pub(in crate::ipvs) fn new(options: &Options, outside: BTreeMap<Place, u32>) -> Self {
        Self { masquerade_mark: options.masquerade_mark, outside }
    }
}

impl Style for Rules {
    type Renderer<'a> = OfFamily<'a>;

    const SHARED: &'static [Shared] = &[];
    const ADDRESSES: Shared = NOWHERE;
    const NODE_PORTS: Shared = NOWHERE;
    const LANDMARKS: &'static [(Table, &'static str)] =
        &[(Table::Filter, names::FILTER), (Table::Nat, names::SERVICES), (Table::Mangle, names::GUARD)];

    fn renderer<'a>(&'a self, table: &'a ForwardingTable, family: Family) -> OfFamily<'a> {
        OfFamily { rules: self, node: table.node(), family, pods: Pods::of(&table.node().pods, family) }
    }

    fn is_of_a_service_port(_chain: &str) -> bool {
        false
    }

    fn leads(&self, _rule: &Rule) -> bool {
        false
    }
}

/// Renders for one family.
#[derive(Debug)]
pub(in crate::ipvs) struct OfFamily<'a> {
    rules: &'a Rules,
    node: &'a NodeView,
    family: Family,
    pods: Pods,
}

impl xtables::Renderer for OfFamily<'_> {
    fn base(&self) -> Base {
        let canary = || Chain::new(CANARY, Vec::new());
        Base {
            filter: vec![self.filter(), forward(), canary()],
            nat: vec![
                self.services(),
                self.host(),
                self.others(),
                self.mark_masquerade(),
                self.postrouting(),
                canary(),
            ],
            mangle: vec![self.guard(), self.ranges(), self.outside(), self.unmark(), canary()],
            last: Vec::new(),
            jumps: self.jumps(),
        }
    }

    fn of_port(&self, _port: &ServicePort) -> PortRules {
        PortRules::default()
    }
}

impl OfFamily<'_> {
    /// Who may not come, whatever is there. In `mangle`, since IPVS takes what this host sends before `filter` sees it.
    fn guard(&self) -> Chain {
        let rules = vec![
            Rule::new([self.dialled(SetId::Drop)], Target::Drop),
            Rule::new([self.dialled(SetId::Guarded)], Target::Jump(chain(names::RANGES))),
        ];
        Chain::new(names::GUARD, rules)
    }

    fn ranges(&self) -> Chain {
        let allowed = self.set(SetId::Sources, &[Side::Destination, Side::Destination, Side::Source]);
        let rules = vec![Rule::new([allowed], Target::Return), Rule::new([], Target::Drop)];
        Chain::new(names::RANGES, rules)
    }

    /// Pods go where this host goes. All others get the mark of their virtual server; where a place has none, there is no
    /// endpoint here.
    fn outside(&self) -> Chain {
        let mut rules = self.pods.inside(&[], &Target::Return);
        let of_family = self.rules.outside.iter().filter(|(place, _)| Family::of(place.ip) == self.family);
        rules.extend(of_family.map(|(place, mark)| {
            let parts = [
                Match::Protocol(place.protocol),
                Match::Destination(Is::Equal, IpNet::from(place.ip)),
                Match::DestinationPort(place.port),
            ];
            Rule::new(parts, Target::SetMark(*mark))
        }));
        let unmarked = [self.of_ours(Is::Not), states(Is::Equal, &[State::New])];
        rules.push(Rule::new(unmarked, Target::Drop));
        Chain::new(names::OUTSIDE, rules)
    }

    /// Whose source is hidden, wherever it comes from.
    fn services(&self) -> Chain {
        let all = Rule::new([self.dialled(SetId::Masquerade)], Target::Jump(chain(names::MARK_MASQ)));
        let others = Rule::new([self.dialled(SetId::ClusterIps)], Target::Jump(chain(names::OTHERS)));
        let has_detector = self.node.pods.works_for(self.family);
        Chain::new(names::SERVICES, [all].into_iter().chain(has_detector.then_some(others)).collect())
    }

    /// What this host sends. Since it has the address that it dials, it sends from that very address, to which no endpoint could
    /// answer.
    fn host(&self) -> Chain {
        let own = [self.dialled(SetId::ClusterIps), self.set(SetId::Addresses, &[Side::Source])];
        let rules = vec![
            Rule::new([self.dialled(SetId::Local)], Target::Jump(chain(names::OTHERS))),
            Rule::new(own, Target::Jump(chain(names::MARK_MASQ))),
        ];
        Chain::new(names::HOST, rules)
    }

    fn others(&self) -> Chain {
        let mut rules = self.pods.inside(&[], &Target::Return);
        rules.push(Rule::new([], Target::Jump(chain(names::MARK_MASQ))));
        Chain::new(names::OTHERS, rules)
    }

    fn mark_masquerade(&self) -> Chain {
        Chain::new(names::MARK_MASQ, vec![Rule::new([], Target::OrMark(self.rules.masquerade_mark))])
    }

    /// The mark goes before, so that a packet which comes around again is not masqueraded twice.
    fn postrouting(&self) -> Chain {
        let mark = self.rules.masquerade_mark;
        let unmarked = Match::Mark { is: Is::Not, value: mark, mask: mark };
        let to_itself = self.set(SetId::Hairpin, &[Side::Destination, Side::Destination, Side::Source]);
        let masquerade = Target::Masquerade { random_fully: true };
        let rules = vec![
            Rule::new([unmarked.clone(), Match::Ipvs, to_itself], masquerade.clone()),
            Rule::new([unmarked], Target::Return),
            Rule::new([], Target::XorMark(mark)),
            Rule::new([], masquerade),
        ];
        Chain::new(names::POSTROUTING, rules)
    }

    /// An address that this host has for Services answers at their ports only. Pings are answered, as upstream does.
    fn filter(&self) -> Chain {
        let health =
            [Match::PlainProtocol(IpProtocol::TCP), self.set(SetId::HealthChecks, &[Side::Destination])];
        let mut rules = vec![Rule::new(health, Target::Accept)];
        for served in [SetId::ClusterIps, SetId::Masquerade, SetId::Local] {
            rules.push(Rule::new([self.dialled(served)], Target::Return));
        }
        for protocol in model::Protocol::ALL.map(IpProtocol::from) {
            let parts = [
                Match::PlainProtocol(protocol),
                states(Is::Equal, &[State::New]),
                self.set(SetId::Addresses, &[Side::Destination]),
            ];
            rules.push(Rule::new(parts, Target::Reject));
        }
        Chain::new(names::FILTER, rules)
    }

    fn jumps(&self) -> Vec<Jump> {
        let new = states(Is::Equal, &[State::New]);
        vec![
            jump(Table::Filter, "INPUT", &[], names::FILTER),
            jump(Table::Filter, "FORWARD", &[], names::FORWARD),
            jump(Table::Nat, "OUTPUT", &[], names::HOST),
            jump(Table::Nat, "OUTPUT", &[], names::SERVICES),
            jump(Table::Nat, "PREROUTING", &[to_this_host()], names::SERVICES),
            jump(Table::Nat, "POSTROUTING", &[], names::POSTROUTING),
            jump(
                Table::Mangle,
                "PREROUTING",
                &[from_elsewhere(), self.dialled(SetId::Local)],
                names::OUTSIDE,
            ),
            jump(Table::Mangle, "PREROUTING", &[from_elsewhere(), new.clone()], names::GUARD),
            jump(Table::Mangle, "OUTPUT", &[new], names::GUARD),
            jump(Table::Mangle, "POSTROUTING", &[self.of_ours(Is::Equal)], names::UNMARK),
        ]
    }

    /// No mark of ours goes out: it would mean something else to others.
    fn unmark(&self) -> Chain {
        let unmark = Target::Xmark { value: 0, mask: !self.rules.masquerade_mark };
        Chain::new(names::UNMARK, vec![Rule::new([], unmark)])
    }

    /// A mark of ours, whatever its number, and whether its source is to be hidden or not.
    fn of_ours(&self, is: Is) -> Match {
        let numbers = u32::from(MARKS_MAX) - 1;
        Match::Mark { is, value: MARKS, mask: !(numbers | self.rules.masquerade_mark) }
    }

    /// A place of this set is dialled.
    fn dialled(&self, set: SetId) -> Match {
        self.set(set, &[Side::Destination, Side::Destination])
    }

    fn set(&self, set: SetId, sides: &[Side]) -> Match {
        Match::Set { is: Is::Equal, name: set.name(self.family), sides: sides.to_vec() }
    }
}

/// Answers, where nothing is forwarded by default. What is asked does not pass there: IPVS takes it on its way in.
fn forward() -> Chain {
    let answers = states(Is::Equal, &[State::Related, State::Established]);
    Chain::new(names::FORWARD, vec![Rule::new([answers], Target::Accept)])
}

/// As long as this host has not got an address, or has it no more, its packets pass by as they are. What this host itself sends IPVS
/// takes all the same.
fn to_this_host() -> Match {
    Match::Local(Side::Destination, Is::Equal)
}

/// What this host sends to itself has passed OUTPUT.
fn from_elsewhere() -> Match {
    Match::InInterface(Is::Not, "lo".to_owned())
}

fn jump(table: Table, from: &str, parts: &[Match], to: &str) -> Jump {
    let words = [Match::Comment(WORDS.to_owned())];
    let rule = Rule::new(words.into_iter().chain(parts.iter().cloned()), Target::Jump(chain(to)));
    Jump { table, from: chain(from), place: At::First, rule }
}
