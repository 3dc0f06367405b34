//! Rules that other programs wrote, of every family, read as far as one needs to tell what they do with a packet.
//!
//! In: the base chains of a hook, the rules of one chain, one key of one set: each is asked for when it is needed. Out: a rule as
//! [`Step`]s. A step that this module does not understand is [`Step::Unknown`] and says whether it can decide a packet's way.
//!
//! Asking creates nothing and loads no module: listings and look-ups use what is in the kernel. Only the first message to a kernel
//! without `nf_tables` would load it, so the caller asks [`is_present`] before.
//!
//! Absent on purpose: writing such rules, and sets with their elements. One key is looked up by the kernel itself.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::OnceLock;

use super::error::Result;
use super::expression::{Expression, Found, Header, MetaKey, Register};
use super::netlink::Netlink;
use super::object::{HookPoint, Name, Policy, Verdict};
use super::wire::numbers::{ct_number, meta_number};
use super::wire::object::{RULE_CHAIN, RULE_EXPRESSIONS, RULE_TABLE};
use super::wire::read_expression::{self, Fields};
use super::wire::set::{
    ELEMENT_CATCH_ALL, ELEMENT_DATA, ELEMENT_FLAGS, ELEMENT_KEY, LIST_ELEMENTS, LIST_SET, LIST_TABLE,
    SET_KEY_LENGTH, SET_NAME, SET_TABLE,
};
use super::wire::{DATA_VALUE, DATA_VERDICT, LIST_ELEMENT, SUBSYSTEM, fixed, kind, read};
use crate::netlink::{self, Attribute, Attributes, Errno, MessageWriter};

/// Expressions that the kernel keeps with an element; a counter never stops a packet, a limit may.
const ELEMENT_EXPRESSION: u16 = 7;
const ELEMENT_EXPRESSIONS: u16 = 11;

/// The family of a table that can see forwarded IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableFamily {
    Inet,
    Ip,
    Ip6,
}

impl TableFamily {
    fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Inet),
            2 => Some(Self::Ip),
            10 => Some(Self::Ip6),
            _ => None,
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Inet => 1,
            Self::Ip => 2,
            Self::Ip6 => 10,
        }
    }

    /// As `nft` calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
        }
    }
}

/// A table, named as other programs name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableRef {
    pub(crate) family: TableFamily,
    pub(crate) name: Name,
}

/// A base chain on one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseChain {
    pub(crate) table: TableRef,
    pub(crate) name: Name,
    pub(crate) priority: i32,
    pub(crate) policy: Policy,
}

/// What a [`Step::Load`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Network {
        offset: u32,
        size: u32,
    },
    Transport {
        offset: u32,
        size: u32,
    },
    /// The kernel's number of a meta key.
    Meta(u32),
    /// The kernel's number of a key of the connection tracker.
    Ct(u32),
    /// Anything else: a link-layer header, a route, a random number.
    Other,
}

/// How a register is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Load {
        to: Register,
        from: Origin,
    },
    Immediate {
        to: Register,
        value: Vec<u8>,
    },
    /// Keep the bits of `mask`, then flip those of `xor`.
    Bitwise {
        from: Register,
        to: Register,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    /// Turn each number of `size` bytes between the machine's byte order and that of the network.
    SwapBytes {
        from: Register,
        to: Register,
        size: usize,
        length: usize,
    },
    /// A change of a register that is not understood.
    Forget {
        to: Register,
    },
    Compare {
        register: Register,
        how: Comparison,
        value: Vec<u8>,
    },
    Range {
        register: Register,
        is_inside: bool,
        low: Vec<u8>,
        high: Vec<u8>,
    },
    Lookup {
        key: Register,
        set: Name,
        found: Found,
    },
    SetMark {
        from: Register,
    },
    /// A match of iptables, of either program; `info` is laid out as its module reads it.
    XtMatch {
        name: String,
        revision: u32,
        info: Vec<u8>,
    },
    /// A target of iptables, likewise.
    XtTarget {
        name: String,
        revision: u32,
        info: Vec<u8>,
    },
    Verdict(Verdict),
    Reject,
    /// Counts, logs, or changes what no later rule of ours looks at; always goes on.
    Passes(&'static str),
    /// Not understood: may go on with this rule or with the next one, and may decide if `decides`.
    Unknown {
        name: String,
        decides: bool,
    },
}

/// What a set says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Member {
    Absent,
    Present {
        verdict: Option<Verdict>,
        data: Option<Vec<u8>>,
    },
    /// The kernel did not tell, or the element has a condition of its own.
    Unknown,
}

/// Whether this kernel has `nf_tables` now. Asking `nf_tables` itself would load its module.
pub fn is_present() -> bool {
    /// What is built in stays; a module may be loaded at any time.
    static IS_BUILT_IN: OnceLock<bool> = OnceLock::new();
    Path::new("/sys/module/nf_tables").exists()
        || *IS_BUILT_IN.get_or_init(|| {
            // A kernel that hides its symbols may have it built in, and then asking loads nothing.
            fs::File::open("/proc/kallsyms").map_or(true, |file| {
                BufReader::new(file)
                    .lines()
                    .map_while(std::io::Result::ok)
                    .any(|line| line.ends_with(" nft_do_chain"))
            })
        })
}

impl Netlink {
    /// The base chains of a hook in all tables that are not dormant, in the order in which the kernel runs them.
    pub(crate) fn base_chains(&mut self, point: HookPoint) -> Result<Vec<BaseChain>> {
        let tables = self.dump_foreign(
            "tables",
            kind::GET_TABLE,
            0,
            |_| {},
            |family, attributes| {
                // The typed reader wants one of our families; of the table only its name and its flags are used.
                read::table(super::Family::V4, attributes).map(|table| (family, table))
            },
        )?;
        let is_awake = |chain: &BaseChain| {
            let is_its_table = |(family, table): &(TableFamily, super::Table)| {
                *family == chain.table.family && table.name == chain.table.name && !table.is_dormant
            };
            tables.iter().any(is_its_table)
        };
        let chains = self.dump_foreign(
            "chains",
            kind::GET_CHAIN,
            0,
            |_| {},
            |family, attributes| {
                let read = read::chain(attributes)?;
                let table = TableRef { family, name: read.table.as_str().into() };
                let hook = read.chain.base.filter(|hook| hook.point == point);
                Ok(hook.map(|hook| BaseChain {
                    table,
                    name: read.chain.name,
                    priority: hook.priority,
                    policy: hook.policy,
                }))
            },
        )?;
        let mut chains: Vec<_> = chains.into_iter().flatten().filter(is_awake).collect();
        chains.sort_by_key(|chain| chain.priority);
        Ok(chains)
    }

    /// The rules of a chain, in order.
    pub(crate) fn foreign_rules(&mut self, table: &TableRef, chain: &str) -> Result<Vec<Vec<Step>>> {
        let names = |m: &mut MessageWriter| {
            m.text(RULE_TABLE, &table.name);
            m.text(RULE_CHAIN, chain);
        };
        let rules =
            self.dump_foreign("rules", kind::GET_RULE, table.family.number(), names, |_, attributes| {
                rule(attributes).map(|(of, steps)| (of == chain).then_some(steps))
            })?;
        Ok(rules.into_iter().flatten().collect())
    }

    /// How many bytes the keys of a set have.
    pub(crate) fn key_length(&mut self, table: &TableRef, set: &str) -> Result<Option<usize>> {
        let request = |m: &mut MessageWriter| {
            fixed(m, table.family.number());
            m.text(SET_TABLE, &table.name);
            m.text(SET_NAME, set);
        };
        let length = self.client.ask("show a set", SUBSYSTEM << 8 | kind::GET_SET, request, |body| {
            for attribute in read::open(body)?.1 {
                let attribute = attribute?;
                if attribute.kind == SET_KEY_LENGTH {
                    return attribute.u32_be().map(|length| usize::try_from(length).ok());
                }
            }
            Ok(None)
        })?;
        Ok(length)
    }

    /// Looks one key up, in a set with or without intervals.
    pub(crate) fn member(&mut self, table: &TableRef, set: &str, key: &[u8]) -> Member {
        match self.element(table, set, Some(key)) {
            // The default element, which is `*` in nft, is asked for by a flag. Kernels before 5.13 have none and refuse.
            Ok(Member::Absent) => self.element(table, set, None).unwrap_or(Member::Absent),
            Ok(member) => member,
            Err(_) => Member::Unknown,
        }
    }

    /// One element, by its key, or the default one.
    fn element(&mut self, table: &TableRef, set: &str, key: Option<&[u8]>) -> netlink::Result<Member> {
        let request = |m: &mut MessageWriter| {
            fixed(m, table.family.number());
            m.text(LIST_TABLE, &table.name);
            m.text(LIST_SET, set);
            m.nested(LIST_ELEMENTS, |m| {
                m.nested(LIST_ELEMENT, |m| match key {
                    Some(key) => m.nested(ELEMENT_KEY, |m| m.attribute(DATA_VALUE, key)),
                    None => m.u32_be(ELEMENT_FLAGS, ELEMENT_CATCH_ALL),
                });
            });
        };
        let what = "look a key up";
        match self.client.ask(what, SUBSYSTEM << 8 | kind::GET_ELEMENTS, request, member) {
            Err(error) if error.errno() == Some(Errno(libc::ENOENT)) => Ok(Member::Absent),
            answer => answer,
        }
    }

    /// Lists objects of all families that see IP packets, or of one (`number` is 0 for all).
    fn dump_foreign<T>(
        &mut self,
        what: &'static str,
        kind: u16,
        number: u8,
        names: impl Fn(&mut MessageWriter),
        mut decode: impl FnMut(TableFamily, Attributes<'_>) -> netlink::Result<T>,
    ) -> Result<Vec<T>> {
        let request = |m: &mut MessageWriter| {
            fixed(m, number);
            names(m);
        };
        let found = self.client.list(what, SUBSYSTEM << 8 | kind, request, |head, body| {
            let (number, attributes) = read::open(body)?;
            match TableFamily::from_number(number).filter(|_| head.kind >> 8 == SUBSYSTEM) {
                Some(family) => decode(family, attributes).map(Some),
                None => Ok(None),
            }
        })?;
        Ok(found)
    }
}

/// Reads a rule: the name of its chain, and its steps.
pub(crate) fn rule(attributes: Attributes<'_>) -> netlink::Result<(String, Vec<Step>)> {
    let (mut chain, mut steps) = (String::new(), Vec::new());
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RULE_CHAIN => chain = attribute.text(),
            RULE_EXPRESSIONS => {
                for entry in attribute.nested() {
                    steps.push(step(&entry?)?);
                }
            }
            _ => {}
        }
    }
    Ok((chain, steps))
}

/// Reads the element of an answer.
fn member(body: &[u8]) -> netlink::Result<Member> {
    for attribute in read::open(body)?.1 {
        let attribute = attribute?;
        if attribute.kind == LIST_ELEMENTS
            && let Some(entry) = attribute.nested().next()
        {
            return element(&entry?);
        }
    }
    Ok(Member::Unknown)
}

fn element(entry: &Attribute<'_>) -> netlink::Result<Member> {
    let (mut verdict, mut data) = (None, None);
    for attribute in entry.nested() {
        let attribute = attribute?;
        match attribute.kind {
            ELEMENT_DATA => {
                for inner in attribute.nested() {
                    let inner = inner?;
                    match inner.kind {
                        DATA_VALUE => data = Some(inner.value.to_vec()),
                        DATA_VERDICT => match read_expression::read_verdict(&inner)? {
                            Some(read) => verdict = Some(read),
                            None => return Ok(Member::Unknown),
                        },
                        _ => {}
                    }
                }
            }
            ELEMENT_EXPRESSION if !is_counter(&attribute)? => return Ok(Member::Unknown),
            ELEMENT_EXPRESSIONS => {
                for inner in attribute.nested() {
                    if !is_counter(&inner?)? {
                        return Ok(Member::Unknown);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Member::Present { verdict, data })
}

fn is_counter(expression: &Attribute<'_>) -> netlink::Result<bool> {
    Ok(read_expression::read(expression)? == Expression::Counter)
}

/// One expression: by the reader of our own rules where it knows it, else by what other programs use beside.
pub(super) fn step(entry: &Attribute<'_>) -> netlink::Result<Step> {
    let expression = read_expression::read(entry)?;
    if let Expression::Unknown(name) = expression {
        let (_, fields) = read_expression::open(entry)?;
        return Ok(others(&name, &fields)?.unwrap_or_else(|| unknown(name)));
    }
    Ok(known(expression))
}

pub(super) fn known(expression: Expression) -> Step {
    match expression {
        Expression::Payload { to, header: Header::Network, offset, size } => {
            Step::Load { to, from: Origin::Network { offset, size } }
        }
        Expression::Payload { to, header: Header::Transport, offset, size } => {
            Step::Load { to, from: Origin::Transport { offset, size } }
        }
        Expression::Meta { to, key } => Step::Load { to, from: Origin::Meta(meta_number(key)) },
        Expression::SetMeta { from, key: MetaKey::Mark } => Step::SetMark { from },
        Expression::SetMeta { .. } => Step::Passes("meta"),
        Expression::Ct { to, key } => Step::Load { to, from: Origin::Ct(ct_number(key)) },
        Expression::Bitwise { register, mask, xor } => {
            Step::Bitwise { from: register, to: register, mask, xor }
        }
        Expression::Compare { register, equal, value } => {
            let how = if equal { Comparison::Equal } else { Comparison::NotEqual };
            Step::Compare { register, how, value }
        }
        Expression::Lookup { key, set, found } => Step::Lookup { key, set, found },
        Expression::Immediate { to, value } => Step::Immediate { to, value },
        Expression::Verdict(verdict) => Step::Verdict(verdict),
        Expression::Numgen { to, .. } | Expression::Fib { to, .. } => Step::Load { to, from: Origin::Other },
        Expression::Reject { .. } => Step::Reject,
        Expression::Counter => Step::Passes("counter"),
        // A full set, or a limit kept with the element, ends the rule.
        Expression::Dynset { .. } => Step::Unknown { name: "dynset".to_owned(), decides: false },
        Expression::Dnat { .. } => Step::Unknown { name: "nat".to_owned(), decides: true },
        Expression::Masquerade { .. } => Step::Unknown { name: "masq".to_owned(), decides: true },
        Expression::Unknown(name) => Step::Unknown { name, decides: true },
    }
}

/// What other programs write beside what we write; `None` for what is not understood.
fn others(name: &str, fields: &Fields<'_>) -> netlink::Result<Option<Step>> {
    let load = |from: Origin, to: Option<Register>| to.map(|to| Step::Load { to, from });
    Ok(match name {
        // Without a destination register it writes to the packet, which no later rule is asked about.
        "payload" => Some(load(Origin::Other, fields.register(1)?).unwrap_or(Step::Passes("payload"))),
        "meta" => match (fields.register(1)?, fields.number(2)?) {
            (Some(to), Some(key)) => load(Origin::Meta(key), Some(to)),
            _ => Some(Step::Passes("meta")),
        },
        "ct" => match (fields.register(1)?, fields.number(2)?) {
            (Some(to), Some(key)) => load(Origin::Ct(key), Some(to)),
            _ => Some(Step::Passes("ct")),
        },
        "bitwise" => bitwise(fields)?,
        "byteorder" => byteorder(fields)?,
        "cmp" => comparison(fields)?,
        "range" => range(fields)?,
        "match" => xt(fields)?.map(|(name, revision, info)| Step::XtMatch { name, revision, info }),
        "target" => xt(fields)?.map(|(name, revision, info)| Step::XtTarget { name, revision, info }),
        "log" => Some(Step::Passes("log")),
        "notrack" => Some(Step::Passes("notrack")),
        "dup" => Some(Step::Passes("dup")),
        "last" => Some(Step::Passes("last")),
        _ => None,
    })
}

fn bitwise(fields: &Fields<'_>) -> netlink::Result<Option<Step>> {
    let (Some(from), Some(to)) = (fields.register(1)?, fields.register(2)?) else { return Ok(None) };
    let is_mask_and_xor = fields.number_or(6, 0)? == 0;
    Ok(Some(match (fields.bytes(4)?, fields.bytes(5)?) {
        (Some(mask), Some(xor)) if is_mask_and_xor => Step::Bitwise { from, to, mask, xor },
        _ => Step::Forget { to },
    }))
}

fn byteorder(fields: &Fields<'_>) -> netlink::Result<Option<Step>> {
    let number = |kind| -> netlink::Result<Option<usize>> {
        Ok(fields.number(kind)?.and_then(|number| usize::try_from(number).ok()))
    };
    let (from, to) = (fields.register(1)?, fields.register(2)?);
    let (Some(from), Some(to), Some(length), Some(size)) = (from, to, number(4)?, number(5)?) else {
        return Ok(None);
    };
    let is_whole = matches!(size, 2 | 4 | 8) && length <= 64 && length % size == 0;
    Ok(Some(if is_whole { Step::SwapBytes { from, to, size, length } } else { Step::Forget { to } }))
}

fn comparison(fields: &Fields<'_>) -> netlink::Result<Option<Step>> {
    let how = match fields.number(2)? {
        Some(2) => Comparison::Less,
        Some(3) => Comparison::LessOrEqual,
        Some(4) => Comparison::Greater,
        Some(5) => Comparison::GreaterOrEqual,
        _ => return Ok(None),
    };
    Ok(fields.register(1)?.zip(fields.bytes(3)?).map(|(register, value)| Step::Compare {
        register,
        how,
        value,
    }))
}

fn range(fields: &Fields<'_>) -> netlink::Result<Option<Step>> {
    let is_inside = match fields.number(2)? {
        Some(0) => true,
        Some(1) => false,
        _ => return Ok(None),
    };
    let bounds = fields.bytes(3)?.zip(fields.bytes(4)?);
    Ok(fields.register(1)?.zip(bounds).map(|(register, (low, high))| Step::Range {
        register,
        is_inside,
        low,
        high,
    }))
}

fn xt(fields: &Fields<'_>) -> netlink::Result<Option<(String, u32, Vec<u8>)>> {
    let (Some(name), Some(info)) = (fields.get(1), fields.get(3)) else { return Ok(None) };
    Ok(Some((name.text(), fields.number_or(2, 0)?, info.value.to_vec())))
}

/// What is not understood may end the rule, or decide. Those that never decide are named.
fn unknown(name: String) -> Step {
    const CONDITIONS: [&str; 18] = [
        "limit",
        "quota",
        "connlimit",
        "objref",
        "flow_offload",
        "socket",
        "osf",
        "dynset",
        "lookup",
        "cmp",
        "exthdr",
        "hash",
        "rt",
        "numgen",
        "xfrm",
        "tunnel",
        "fib",
        "inner",
    ];
    let decides = !CONDITIONS.contains(&&*name);
    Step::Unknown { name, decides }
}
