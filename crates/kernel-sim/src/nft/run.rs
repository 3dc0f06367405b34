//! Executes rules for one packet.
//!
//! A [`Run`] is what the kernel keeps beside a packet while it passes: its changing destination, mark and
//! priority, and whether its connection was translated.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kernel::nft::{
    Data, DnatTo, Element, HookPoint, InterfaceName, Match, Name, Part, Pattern, Policy, PriorityFrom,
    Reject, Rule, Selector, Side, Statement, Tuple, Value, Verdict,
};

use super::packet::{Path, SimPacket};
use super::{SimElement, SimTable};

/// A packet on its way.
pub(super) struct Run<'a> {
    pub(super) packet: SimPacket,
    pub(super) destination: Option<(IpAddr, Option<u16>)>,
    pub(super) masqueraded: bool,
    now: Duration,
    random: &'a mut dyn FnMut(u32) -> u32,
}

/// How a packet ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Drop,
    Reject(Reject),
}

/// What a statement, a rule or a chain leads to.
enum Flow {
    /// The next statement, or the next rule.
    Next,
    /// This rule does not apply.
    Break,
    /// Back to the caller.
    Return,
    /// This base chain is done.
    Accept,
    /// The packet is gone.
    End(End),
    /// Into a chain and back.
    Jump(Name),
    /// Into a chain for good.
    Goto(Name),
}

impl<'a> Run<'a> {
    pub(super) fn new(packet: SimPacket, now: Duration, random: &'a mut dyn FnMut(u32) -> u32) -> Self {
        Self { packet, destination: None, masqueraded: false, now, random }
    }

    /// Whether this host answers to the address.
    pub(super) fn is_local(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.packet.local.contains(&address)
    }

    /// Whether the translation that this place decides upon is decided already.
    pub(super) fn is_translated_at(&self, point: HookPoint) -> bool {
        match point {
            HookPoint::Prerouting | HookPoint::Output => self.destination.is_some(),
            HookPoint::Postrouting | HookPoint::Input => self.masqueraded,
            HookPoint::Forward => false,
        }
    }

    /// Runs a base chain; `None` if the packet goes on.
    pub(super) fn base_chain(&mut self, table: &mut SimTable, name: &Name) -> Option<End> {
        let policy = table.chains.get(name)?.chain.base.map(|hook| hook.policy);
        match self.chain(table, name) {
            Flow::Accept => None,
            Flow::End(end) => Some(end),
            _ => (policy == Some(Policy::Drop)).then_some(End::Drop),
        }
    }

    /// Runs a chain to its end: `Return` if it fell off it or was left.
    fn chain(&mut self, table: &mut SimTable, name: &Name) -> Flow {
        let rules = table.chains.get(name).map(|chain| chain.rules.clone()).unwrap_or_default();
        for (_, rule) in rules.iter() {
            match self.rule(table, rule) {
                Flow::Next | Flow::Break => {}
                Flow::Jump(target) => match self.chain(table, &target) {
                    Flow::Return => {}
                    decided => return decided,
                },
                Flow::Goto(target) => return self.chain(table, &target),
                decided => return decided,
            }
        }
        Flow::Return
    }

    fn rule(&mut self, table: &mut SimTable, rule: &Rule) -> Flow {
        for statement in &rule.statements {
            match self.statement(table, statement) {
                Flow::Next => {}
                other => return other,
            }
        }
        Flow::Next
    }

    fn statement(&mut self, table: &mut SimTable, statement: &Statement) -> Flow {
        match statement {
            Statement::Match(question) => match self.is_true(table, question) {
                Some(true) => Flow::Next,
                _ => Flow::Break,
            },
            Statement::Counter => Flow::Next,
            Statement::SetMark(bits) => {
                self.packet.mark = bits.apply(self.packet.mark);
                Flow::Next
            }
            Statement::SetPriority(from) => self.set_priority(table, from),
            Statement::VerdictMap { key, map } => match self.look_up(table, map, key) {
                Some(Data::Verdict(verdict)) => decide(&verdict),
                _ => Flow::Break,
            },
            Statement::Update { map, key, data, timeout } => self.update(table, map, key, *data, *timeout),
            Statement::Delete { map, key, .. } => self.forget(table, map, key),
            Statement::Verdict(verdict) => decide(verdict),
            Statement::Reject(reject) => Flow::End(End::Reject(*reject)),
            Statement::Dnat(to) => self.dnat(table, to),
            Statement::Masquerade => {
                self.masqueraded = true;
                Flow::Accept
            }
        }
    }

    /// `None` where the packet has nothing to ask about, which ends the rule as a "no" does.
    fn is_true(&mut self, table: &SimTable, question: &Match) -> Option<bool> {
        Some(match question {
            Match::InSet { key, set, not } => {
                let key = self.key(key)?;
                table.sets.get(set)?.find(&key, self.now).is_some() != *not
            }
            Match::InPrefix { side, prefix, not } => {
                let (low, high) = Part::Prefix(prefix.address, prefix.length).bounds();
                let address = Value::from(self.address(*side));
                (low <= address && address <= high) != *not
            }
            Match::Protocol(protocol) => self.packet.protocol == *protocol,
            Match::InputInterface { pattern, not } => self.came_in_by(*pattern) != *not,
            Match::CtStatusDnat => self.destination.is_some(),
            Match::CtStateNew => true,
            // Only first packets are sent here.
            Match::CtStateInvalid | Match::TcpMidStream | Match::MidStream => false,
            Match::Local(side) => self.is_local(self.address(*side)),
            Match::Mark { mask, value } => self.packet.mark & mask == *value,
            Match::Priority { mask, value } => self.packet.priority & mask == *value,
        })
    }

    fn address(&self, side: Side) -> IpAddr {
        match side {
            Side::Source => self.packet.source,
            Side::Destination => self.packet.destination,
        }
    }

    /// The name of the interface; a packet of this host's own has an empty one.
    fn interface(&self) -> &str {
        match &self.packet.path {
            Path::Arrives(interface) => interface,
            Path::Output => "",
        }
    }

    fn came_in_by(&self, pattern: Pattern) -> bool {
        match pattern {
            Pattern::Exact(name) => self.interface().as_bytes() == name.as_bytes(),
            Pattern::StartsWith(name) => self.interface().as_bytes().starts_with(name.as_bytes()),
        }
    }

    /// The key for a lookup; `None` if the packet lacks a part of it.
    fn key(&mut self, key: &[Selector]) -> Option<Tuple> {
        let values: Option<Vec<_>> = key.iter().map(|selector| self.value(*selector)).collect();
        values.map(|values| Tuple::new(&values))
    }

    fn value(&mut self, selector: Selector) -> Option<Value> {
        Some(match selector {
            Selector::Source => self.packet.source.into(),
            Selector::Destination => self.packet.destination.into(),
            Selector::Protocol => Value::Protocol(self.packet.protocol),
            // No packet here has one.
            Selector::SourcePort => return None,
            Selector::Port => Value::Port(self.packet.port?),
            Selector::Priority => Value::Priority(self.packet.priority),
            Selector::PriorityAnd(mask) => Value::Priority(self.packet.priority & mask),
            Selector::Mark => Value::Mark(self.packet.mark),
            Selector::InputInterface => Value::Interface(InterfaceName::new(self.interface())?),
            Selector::Slot { modulus, offset } => Value::Slot(offset.wrapping_add((self.random)(modulus))),
        })
    }

    fn look_up(&mut self, table: &SimTable, map: &Name, key: &[Selector]) -> Option<Data> {
        let key = self.key(key)?;
        table.sets.get(map)?.find(&key, self.now).map(|element| element.data.clone())
    }

    fn set_priority(&mut self, table: &SimTable, from: &PriorityFrom) -> Flow {
        let priority = match from {
            PriorityFrom::Bits(bits) => Some(bits.apply(self.packet.priority)),
            PriorityFrom::Map { key, map } => match self.look_up(table, map, key) {
                Some(Data::Values(values)) => values.values().find_map(|value| match value {
                    Value::Priority(number) => Some(number),
                    _ => None,
                }),
                _ => None,
            },
        };
        let Some(priority) = priority else { return Flow::Break };
        self.packet.priority = priority;
        Flow::Next
    }

    /// Remembers, or refreshes the time of what is remembered, whose data stays. A full map ends the rule.
    fn update(
        &mut self,
        table: &mut SimTable,
        map: &Name,
        key: &[Selector],
        data: Selector,
        timeout: Duration,
    ) -> Flow {
        let (Some(key), Some(data)) = (self.key(key), self.value(data)) else { return Flow::Break };
        let Some(set) = table.sets.get_mut(map).map(Arc::make_mut) else { return Flow::Break };
        set.elements.retain(|_, found| found.is_alive(self.now));
        let expires = Some(self.now + timeout);
        if let Some(found) = set.elements.get_mut(&key) {
            found.expires = expires;
            return Flow::Next;
        }
        if set.set.size.is_some_and(|size| set.elements.len() >= usize::try_from(size).unwrap_or(usize::MAX))
        {
            return Flow::Break;
        }
        let data = Data::Values(Tuple::new(&[data]));
        let element = Element { key, end: None, data, comment: None, timeout: Some(timeout) };
        set.elements.insert(key, SimElement { element, expires });
        Flow::Next
    }

    fn forget(&mut self, table: &mut SimTable, map: &Name, key: &[Selector]) -> Flow {
        let Some(key) = self.key(key) else { return Flow::Break };
        if let Some(set) = table.sets.get_mut(map) {
            Arc::make_mut(set).elements.remove(&key);
        }
        Flow::Next
    }

    fn dnat(&mut self, table: &SimTable, to: &DnatTo) -> Flow {
        let (address, port) = match to {
            DnatTo::Address { address, port } => (*address, *port),
            DnatTo::Map { key, map } => match self.look_up(table, map, key) {
                Some(Data::Values(values)) => match endpoint(&values) {
                    Some(endpoint) => endpoint,
                    None => return Flow::Break,
                },
                _ => return Flow::Break,
            },
        };
        self.packet.destination = address;
        self.packet.port = port.or(self.packet.port);
        self.destination = Some((address, self.packet.port));
        Flow::Accept
    }
}

fn decide(verdict: &Verdict) -> Flow {
    match verdict {
        Verdict::Accept => Flow::Accept,
        Verdict::Drop => Flow::End(End::Drop),
        Verdict::Return => Flow::Return,
        Verdict::Jump(chain) => Flow::Jump(chain.clone()),
        Verdict::Goto(chain) => Flow::Goto(chain.clone()),
    }
}

fn endpoint(values: &Tuple) -> Option<(IpAddr, Option<u16>)> {
    let mut values = values.values();
    let address = values.next()?.ip()?;
    let port = match values.next() {
        Some(Value::Port(port)) => Some(port),
        _ => None,
    };
    Some((address, port))
}
