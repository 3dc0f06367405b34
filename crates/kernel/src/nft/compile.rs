//! Turns a typed rule into the kernel's register program, exactly as nft 1.0.6 would.
//!
//! In: a [`Rule`] and the family of its table. Out: [`Expression`]s.
//!
//! Registers are handed out anew for each statement: keys from 0 upwards, each field on a 32-bit
//! boundary, so that a concatenation lies in one piece. A looked-up value is never used as a key: the
//! kernel would take it, but nft aborts when it lists such a rule.

use std::net::IpAddr;

use super::expression::{CtKey, DynsetChange, Expression, Found, Header, MetaKey, Register};
use super::object::{Family, Name};
use super::rule::{
    Bits, DnatTo, Match, Pattern, Prefix, PriorityFrom, Reject, Rule, Selector, Side, Statement,
};

const FIRST: Register = Register(0);
/// `IPS_DST_NAT`: the bit of a connection's status that says that its destination was translated.
const STATUS_DNAT: u32 = 1 << 5;
/// The bit for "new" in a connection's state.
const STATE_NEW: u32 = 1 << 3;
const STATE_INVALID: u32 = 1;
/// Where the flags are in a TCP header, and the bit of the first packet.
const TCP_FLAGS: u32 = 13;
const TCP_FIN: u8 = 1;
const TCP_SYN: u8 = 2;
const TCP_RST: u8 = 4;
/// `RTN_LOCAL`: the routing tables say that this host answers to the address.
const ROUTE_LOCAL: u32 = 2;
/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`.
const FULLY_RANDOM: u32 = 1 << 4;

impl Rule {
    /// The register program of this rule in a table of this family.
    pub fn compile(&self, family: Family) -> Vec<Expression> {
        let mut program = Program { family, expressions: Vec::new() };
        for statement in &self.statements {
            program.statement(statement);
        }
        program.expressions
    }
}

struct Program {
    family: Family,
    expressions: Vec<Expression>,
}

impl Program {
    fn add(&mut self, expression: Expression) {
        self.expressions.push(expression);
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Match(question) => self.question(question),
            Statement::Counter => self.add(Expression::Counter),
            Statement::SetMark(bits) => self.set_bits(MetaKey::Mark, *bits),
            Statement::SetPriority(PriorityFrom::Bits(bits)) => self.set_bits(MetaKey::Priority, *bits),
            Statement::SetPriority(PriorityFrom::Map { key, map }) => {
                self.lookup(key, map, Found::Load(FIRST));
                self.add(Expression::SetMeta { from: FIRST, key: MetaKey::Priority });
            }
            Statement::VerdictMap { key, map } => self.lookup(key, map, Found::Decide),
            Statement::Update { map, key, data, timeout } => {
                self.dynset(map, key, *data, DynsetChange::Update, Some(*timeout));
            }
            Statement::Delete { map, key, data } => {
                self.dynset(map, key, *data, DynsetChange::Delete, None);
            }
            Statement::Verdict(verdict) => self.add(Expression::Verdict(verdict.clone())),
            Statement::Reject(reject) => self.reject(*reject),
            Statement::Dnat(to) => self.dnat(to),
            Statement::Masquerade => self.add(Expression::Masquerade { flags: FULLY_RANDOM }),
        }
    }

    fn question(&mut self, question: &Match) {
        match question {
            Match::InSet { key, set, not } => {
                self.lookup(key, set, if *not { Found::Break } else { Found::Pass });
            }
            Match::InPrefix { side, prefix, not } => self.prefix(*side, *prefix, *not),
            Match::Protocol(protocol) => {
                self.load(Selector::Protocol, FIRST);
                self.compare(true, &[protocol.0]);
            }
            Match::InputInterface { pattern, not } => {
                self.load(Selector::InputInterface, FIRST);
                self.compare(!not, &pattern_bytes(pattern));
            }
            Match::CtStatusDnat => self.ct_bit(CtKey::Status, STATUS_DNAT),
            Match::CtStateNew => self.ct_bit(CtKey::State, STATE_NEW),
            Match::CtStateInvalid => self.ct_bit(CtKey::State, STATE_INVALID),
            Match::TcpMidStream => self.no_tcp_flag(TCP_FIN | TCP_SYN | TCP_RST),
            Match::MidStream => self.mid_stream(),
            Match::Local(side) => {
                self.add(Expression::Fib { to: FIRST, is_source: *side == Side::Source });
                self.compare(true, &ROUTE_LOCAL.to_ne_bytes());
            }
            Match::Mark { mask, value } => self.masked(Selector::Mark, *mask, *value),
            Match::Priority { mask, value } => self.masked(Selector::Priority, *mask, *value),
        }
    }

    fn lookup(&mut self, key: &[Selector], set: &Name, found: Found) {
        self.concatenate(key);
        self.add(Expression::Lookup { key: FIRST, set: set.clone(), found });
    }

    /// Loads all parts of a key into one row of registers, and returns the first free one.
    fn concatenate(&mut self, key: &[Selector]) -> Register {
        let mut register = FIRST;
        for &selector in key {
            self.load(selector, register);
            register = self.after(register, selector);
        }
        register
    }

    fn after(&self, register: Register, selector: Selector) -> Register {
        let words = selector.kind(self.family).padded_size() / 4;
        Register(register.0 + u8::try_from(words).expect("a value has at most four words"))
    }

    fn load(&mut self, selector: Selector, to: Register) {
        let meta = |key| Expression::Meta { to, key };
        let expression = match selector {
            Selector::Source => self.address(Side::Source, to),
            Selector::Destination => self.address(Side::Destination, to),
            Selector::Protocol => meta(MetaKey::Protocol),
            Selector::SourcePort => Expression::Payload { to, header: Header::Transport, offset: 0, size: 2 },
            Selector::Port => Expression::Payload { to, header: Header::Transport, offset: 2, size: 2 },
            Selector::Priority | Selector::PriorityAnd(_) => meta(MetaKey::Priority),
            Selector::Mark => meta(MetaKey::Mark),
            Selector::InputInterface => meta(MetaKey::InputInterface),
            Selector::Slot { modulus, offset } => Expression::Numgen { to, modulus, offset },
        };
        self.add(expression);
        if let Selector::PriorityAnd(mask) = selector {
            self.bitwise(to, mask, 0);
        }
    }

    fn address(&self, side: Side, to: Register) -> Expression {
        let (offset, bytes) = match (self.family, side) {
            (Family::V4, Side::Source) => (12, 4),
            (Family::V4, Side::Destination) => (16, 4),
            (Family::V6, Side::Source) => (8, 16),
            (Family::V6, Side::Destination) => (24, 16),
        };
        Expression::Payload { to, header: Header::Network, offset, size: bytes }
    }

    fn bitwise(&mut self, register: Register, mask: u32, xor: u32) {
        let (mask, xor) = (mask.to_ne_bytes().to_vec(), xor.to_ne_bytes().to_vec());
        self.add(Expression::Bitwise { register, mask, xor });
    }

    fn compare(&mut self, equal: bool, value: &[u8]) {
        self.add(Expression::Compare { register: FIRST, equal, value: value.to_vec() });
    }

    fn masked(&mut self, selector: Selector, mask: u32, value: u32) {
        self.load(selector, FIRST);
        if mask != u32::MAX {
            self.bitwise(FIRST, mask, 0);
        }
        self.compare(true, &value.to_ne_bytes());
    }

    fn ct_bit(&mut self, key: CtKey, bit: u32) {
        self.add(Expression::Ct { to: FIRST, key });
        self.bitwise(FIRST, bit, 0);
        self.compare(false, &[0; 4]);
    }

    fn no_tcp_flag(&mut self, flags: u8) {
        self.add(Expression::Payload { to: FIRST, header: Header::Transport, offset: TCP_FLAGS, size: 1 });
        self.add(Expression::Bitwise { register: FIRST, mask: vec![flags], xor: vec![0] });
        self.compare(true, &[0]);
    }

    fn mid_stream(&mut self) {
        self.no_tcp_flag(TCP_SYN);
        self.ct_bit(CtKey::State, STATE_NEW | STATE_INVALID);
    }

    /// A prefix that ends between bytes is masked; one that ends at a byte is simply compared, shorter.
    fn prefix(&mut self, side: Side, prefix: Prefix, not: bool) {
        let (network, mask) = prefix_bytes(prefix);
        let mut load = self.address(side, FIRST);
        let whole_bytes = prefix.length / 8;
        if prefix.length.is_multiple_of(8) && whole_bytes > 0 {
            if let Expression::Payload { size, .. } = &mut load {
                *size = whole_bytes.into();
            }
            self.add(load);
            return self.compare(!not, &network[..usize::from(whole_bytes).min(network.len())]);
        }
        self.add(load);
        let xor = vec![0; mask.len()];
        self.add(Expression::Bitwise { register: FIRST, mask, xor });
        self.compare(!not, &network);
    }

    fn set_bits(&mut self, key: MetaKey, bits: Bits) {
        match bits {
            Bits::Be(value) => {
                self.add(Expression::Immediate { to: FIRST, value: value.to_ne_bytes().to_vec() });
            }
            Bits::And(mask) => self.change_meta(key, mask, 0),
            Bits::Or(mask) => self.change_meta(key, !mask, mask),
            Bits::Xor(mask) => self.change_meta(key, u32::MAX, mask),
        }
        self.add(Expression::SetMeta { from: FIRST, key });
    }

    fn change_meta(&mut self, key: MetaKey, mask: u32, xor: u32) {
        self.add(Expression::Meta { to: FIRST, key });
        self.bitwise(FIRST, mask, xor);
    }

    /// The data stands behind the key, on a boundary of four registers, where nft expects it.
    fn dynset(
        &mut self,
        map: &Name,
        key: &[Selector],
        data: Selector,
        change: DynsetChange,
        timeout: Option<std::time::Duration>,
    ) {
        let free = self.concatenate(key);
        let data_register = Register(free.0.next_multiple_of(4));
        self.load(data, data_register);
        let data = Some(data_register);
        self.add(Expression::Dynset { set: map.clone(), change, key: FIRST, data, timeout });
    }

    fn reject(&mut self, reject: Reject) {
        let (kind, code) = match (reject, self.family) {
            (Reject::TcpReset, _) => (1, 0),
            (Reject::PortUnreachable, Family::V4) => (0, 3),
            (Reject::PortUnreachable, Family::V6) => (0, 4),
        };
        self.add(Expression::Reject { kind, code });
    }

    fn dnat(&mut self, to: &DnatTo) {
        match to {
            DnatTo::Map { key, map } => {
                self.lookup(key, map, Found::Load(FIRST));
                let port = self.after(FIRST, Selector::Destination);
                self.add(Expression::Dnat { address: FIRST, port: Some(port) });
            }
            DnatTo::Address { address, port } => {
                self.add(Expression::Immediate { to: FIRST, value: address_bytes(*address) });
                let port_register = Register(4);
                if let Some(port) = port {
                    let value = port.to_be_bytes().to_vec();
                    self.add(Expression::Immediate { to: port_register, value });
                }
                self.add(Expression::Dnat { address: FIRST, port: port.map(|_| port_register) });
            }
        }
    }
}

fn pattern_bytes(pattern: &Pattern) -> Vec<u8> {
    match pattern {
        Pattern::Exact(name) => {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(16, 0);
            bytes
        }
        Pattern::StartsWith(name) => name.as_bytes().to_vec(),
    }
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The network's lowest address, and its mask.
fn prefix_bytes(prefix: Prefix) -> (Vec<u8>, Vec<u8>) {
    let address = address_bytes(prefix.address);
    let mask: Vec<u8> = (0..address.len())
        .map(|index| {
            let bits = usize::from(prefix.length).saturating_sub(index * 8).min(8);
            !u8::MAX.checked_shr(u32::try_from(bits).unwrap_or(8)).unwrap_or(0)
        })
        .collect();
    (address.iter().zip(&mask).map(|(byte, mask)| byte & mask).collect(), mask)
}
