//! Walks a first packet through rendered rules, as netfilter does, and says where it can end and how likely.

use std::collections::BTreeMap;
use std::net::IpAddr;

use dataplane::iptables::Tables;
use kernel::xtables::{Is, Match, Protocol, Recent, Rule, Side, State, Table, Target};
use model::Packet;

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Untouched,
    Rejected,
    Dropped,
    At { to: (IpAddr, u16), masqueraded: bool },
}

/// Each end with its share, in millionths.
pub(crate) type Ends = BTreeMap<End, u64>;

/// A share in millionths, rounded: rules are written with ten digits.
pub(crate) fn millionths(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is small and positive"
    )]
    let rounded = (share * 1e6).round() as u64;
    rounded
}

/// Where `packet` ends. `is_own` knows the addresses of this host.
pub(crate) fn ends(tables: &Tables, packet: &Packet, is_own: &dyn Fn(IpAddr) -> bool) -> Ends {
    let from_here = is_own(packet.source);
    let start = Way {
        source: packet.source,
        to: packet.destination,
        transport: packet.payload.transport(),
        interface: packet.interface.clone(),
        mark: 0,
        dnat: None,
        share: 1.0,
    };
    let walker = Walker { tables, is_own };
    let mut found: BTreeMap<End, f64> = BTreeMap::new();
    for way in walker.nat(start, if from_here { "OUTPUT" } else { "PREROUTING" }) {
        let end = walker.filter(&way, from_here);
        *found.entry(end).or_default() += way.share;
    }
    found.into_iter().map(|(end, share)| (end, millionths(share))).collect()
}

#[derive(Clone, Debug)]
struct Way {
    source: IpAddr,
    to: IpAddr,
    transport: Option<(model::Protocol, u16)>,
    interface: Option<String>,
    mark: u32,
    dnat: Option<(IpAddr, u16)>,
    share: f64,
}

struct Walker<'a> {
    tables: &'a Tables,
    is_own: &'a dyn Fn(IpAddr) -> bool,
}

/// How a packet leaves a chain.
enum Left {
    Back(Way),
    Ended(Way, Verdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Dropped,
    Rejected,
    Translated,
    Masqueraded,
}

impl Walker<'_> {
    /// The ways through `nat`, each with its destination and mark behind it.
    fn nat(&self, start: Way, hook: &str) -> Vec<Way> {
        let left = self.hook(start, Table::Nat, hook);
        left.into_iter()
            .map(|left| match left {
                Left::Back(way) | Left::Ended(way, _) => way,
            })
            .collect()
    }

    fn filter(&self, way: &Way, from_here: bool) -> End {
        let is_for_here = (self.is_own)(way.to);
        let hooks: &[&str] = match (from_here, is_for_here) {
            (true, true) => &["OUTPUT", "INPUT"],
            (true, false) => &["OUTPUT"],
            (false, true) => &["INPUT"],
            (false, false) => &["FORWARD"],
        };
        for hook in hooks {
            for left in self.hook(way.clone(), Table::Filter, hook) {
                match left {
                    Left::Ended(_, Verdict::Dropped) => return End::Dropped,
                    Left::Ended(_, Verdict::Rejected) => return End::Rejected,
                    Left::Back(_) | Left::Ended(..) => {}
                }
            }
        }
        let Some(to) = way.dnat else { return End::Untouched };
        let leaves = from_here || !is_for_here;
        End::At { to, masqueraded: leaves && self.is_masqueraded(way) }
    }

    fn is_masqueraded(&self, way: &Way) -> bool {
        let left = self.hook(way.clone(), Table::Nat, "POSTROUTING");
        left.iter().any(|left| matches!(left, Left::Ended(_, Verdict::Masqueraded)))
    }

    /// The jumps of a hook: each was put in front of those before it.
    fn hook(&self, way: Way, table: Table, hook: &str) -> Vec<Left> {
        let jumps = self.tables.jumps.iter().rev();
        let rules: Vec<&Rule> = jumps
            .filter(|jump| jump.table == table && jump.from.as_str() == hook)
            .map(|jump| &jump.rule)
            .collect();
        self.rules(way, table, &rules)
    }

    fn rules(&self, way: Way, table: Table, rules: &[&Rule]) -> Vec<Left> {
        let Some((rule, rest)) = rules.split_first() else { return vec![Left::Back(way)] };
        let chance = self.chance(rule, &way);
        let mut left = Vec::new();
        if chance < 1.0 {
            let missed = Way { share: way.share * (1.0 - chance), ..way.clone() };
            left.extend(self.rules(missed, table, rest));
        }
        if chance > 0.0 {
            let met = Way { share: way.share * chance, ..way };
            left.extend(self.target(met, table, rule, rest));
        }
        left
    }

    fn target(&self, mut way: Way, table: Table, rule: &Rule, rest: &[&Rule]) -> Vec<Left> {
        let verdict = match &rule.target {
            Some(Target::Jump(chain)) => {
                let found = self.tables.chains(table).iter().find(|found| found.name == *chain);
                let rules: Vec<&Rule> =
                    found.unwrap_or_else(|| panic!("no chain {chain}")).rules.iter().collect();
                let left = self.rules(way, table, &rules).into_iter();
                return left
                    .flat_map(|left| match left {
                        Left::Back(way) => self.rules(way, table, rest),
                        ended @ Left::Ended(..) => vec![ended],
                    })
                    .collect();
            }
            Some(Target::Return) => return vec![Left::Back(way)],
            None => return self.rules(way, table, rest),
            Some(Target::OrMark(bits)) => {
                way.mark |= bits;
                return self.rules(way, table, rest);
            }
            Some(Target::XorMark(bits)) => {
                way.mark ^= bits;
                return self.rules(way, table, rest);
            }
            Some(Target::Dnat(address, Some(port))) => {
                (way.to, way.dnat) = (*address, Some((*address, *port)));
                way.transport = way.transport.map(|(protocol, _)| (protocol, *port));
                Verdict::Translated
            }
            Some(Target::Accept) => Verdict::Accepted,
            Some(Target::Drop) => Verdict::Dropped,
            Some(Target::Reject) => Verdict::Rejected,
            Some(Target::Masquerade { .. }) => Verdict::Masqueraded,
            Some(other) => panic!("{other} is not written by this mode"),
        };
        vec![Left::Ended(way, verdict)]
    }

    fn chance(&self, rule: &Rule, way: &Way) -> f64 {
        rule.parts.iter().map(|part| self.holds(part, way)).product()
    }

    fn holds(&self, part: &Match, way: &Way) -> f64 {
        let holds = match part {
            Match::Comment(_) | Match::Recent(Recent::Set { .. }) => true,
            // Every client is a new one.
            Match::Recent(Recent::Check { .. }) => false,
            Match::Protocol(protocol) => way.transport.is_some_and(|(has, _)| number(has) == *protocol),
            Match::DestinationPort(wanted) => way.transport.is_some_and(|(_, has)| has == *wanted),
            Match::Source(is, net) => net.contains(&way.source) == (*is == Is::Equal),
            Match::Destination(is, net) => net.contains(&way.to) == (*is == Is::Equal),
            Match::InInterface(is, name) => {
                let has = way.interface.as_deref();
                let fits = match name.strip_suffix('+') {
                    Some(prefix) => has.is_some_and(|has| has.starts_with(prefix)),
                    None => has == Some(name),
                };
                fits == (*is == Is::Equal)
            }
            Match::Local(side, is) => {
                let address = if *side == Side::Source { way.source } else { way.to };
                (self.is_own)(address) == (*is == Is::Equal)
            }
            Match::Mark { is, value, mask } => (way.mark & mask == *value) == (*is == Is::Equal),
            Match::State(is, states) => {
                let holds =
                    states.contains(&State::New) || way.dnat.is_some() && states.contains(&State::Dnat);
                holds == (*is == Is::Equal)
            }
            Match::Random(probability) => {
                let (slots, of) = probability.fraction();
                return f64::from(slots) / f64::from(of);
            }
            other => panic!("{other} is not written by this mode"),
        };
        f64::from(u8::from(holds))
    }
}

fn number(protocol: model::Protocol) -> Protocol {
    match protocol {
        model::Protocol::Tcp => Protocol::TCP,
        model::Protocol::Udp => Protocol::UDP,
        model::Protocol::Sctp => Protocol::SCTP,
    }
}
