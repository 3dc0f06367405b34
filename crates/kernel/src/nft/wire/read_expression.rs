//! Register programs, read back from netlink attributes.
//!
//! What we never write becomes [`Expression::Unknown`]; what is broken is an error.

use std::time::Duration;

use super::numbers::{
    DATA, FIB_DESTINATION, FIB_RESULT_ADDRESS_TYPE, FIB_SOURCE, LOOKUP_INVERTED, NAME, NAT_DESTINATION,
    NUMGEN_RANDOM, VERDICT_CHAIN, VERDICT_CODE, VERDICT_REGISTER, meta_from, register_from,
};
use super::{DATA_VALUE, DATA_VERDICT};
use crate::netlink::{Attribute, Error, Result};
use crate::nft::expression::{CtKey, DynsetChange, Expression, Found, Header, Register};
use crate::nft::object::Verdict;

/// Reads what stands inside a verdict attribute; `None` for one that we never write.
pub(crate) fn read_verdict(attribute: &Attribute<'_>) -> Result<Option<Verdict>> {
    let (mut code, mut chain) = (None, None);
    for attribute in attribute.nested() {
        let attribute = attribute?;
        match attribute.kind {
            VERDICT_CODE => code = Some(attribute.u32_be()?.cast_signed()),
            VERDICT_CHAIN => chain = Some(attribute.text().into()),
            _ => {}
        }
    }
    Ok(match (code, chain) {
        (Some(0), None) => Some(Verdict::Drop),
        (Some(1), None) => Some(Verdict::Accept),
        (Some(-3), Some(chain)) => Some(Verdict::Jump(chain)),
        (Some(-4), Some(chain)) => Some(Verdict::Goto(chain)),
        (Some(-5), None) => Some(Verdict::Return),
        _ => None,
    })
}

/// Reads one entry of a list of expressions. What we never write becomes [`Expression::Unknown`].
pub(crate) fn read(entry: &Attribute<'_>) -> Result<Expression> {
    let (name, fields) = open(entry)?;
    Ok(interpret(&name, &fields)?.unwrap_or(Expression::Unknown(name)))
}

/// The name of an expression, and its attributes.
pub(crate) fn open<'a>(entry: &Attribute<'a>) -> Result<(String, Fields<'a>)> {
    let (mut name, mut data) = (String::new(), None);
    for attribute in entry.nested() {
        let attribute = attribute?;
        match attribute.kind {
            NAME => name = attribute.text(),
            DATA => data = Some(attribute),
            _ => {}
        }
    }
    let fields = match data {
        Some(data) => Fields::read(&data)?,
        None => Fields::default(),
    };
    Ok((name, fields))
}

/// The attributes of one expression, by number.
#[derive(Default)]
pub(crate) struct Fields<'a>([Option<Attribute<'a>>; 10]);

impl<'a> Fields<'a> {
    fn read(data: &Attribute<'a>) -> Result<Self> {
        let mut fields = Self::default();
        for attribute in data.nested() {
            let attribute = attribute?;
            if let Some(slot) = fields.0.get_mut(usize::from(attribute.kind)) {
                *slot = Some(attribute);
            }
        }
        Ok(fields)
    }

    pub(crate) fn get(&self, kind: usize) -> Option<&Attribute<'a>> {
        self.0.get(kind).and_then(Option::as_ref)
    }

    pub(crate) fn number(&self, kind: usize) -> Result<Option<u32>> {
        self.get(kind).map(Attribute::u32_be).transpose()
    }

    pub(crate) fn number_or(&self, kind: usize, absent: u32) -> Result<u32> {
        Ok(self.number(kind)?.unwrap_or(absent))
    }

    pub(crate) fn register(&self, kind: usize) -> Result<Option<Register>> {
        Ok(self.number(kind)?.and_then(register_from))
    }

    /// The bytes inside a data attribute.
    pub(crate) fn bytes(&self, kind: usize) -> Result<Option<Vec<u8>>> {
        let Some(attribute) = self.get(kind) else { return Ok(None) };
        for inner in attribute.nested() {
            let inner = inner?;
            if inner.kind == DATA_VALUE {
                return Ok(Some(inner.value.to_vec()));
            }
        }
        Ok(None)
    }

    fn text(&self, kind: usize) -> Result<String> {
        let missing = Error::Malformed { what: "expression without a set's name", offset: 0 };
        self.get(kind).map(Attribute::text).ok_or(missing)
    }
}

/// `None` for what we never write; an error for what is broken.
fn interpret(name: &str, fields: &Fields<'_>) -> Result<Option<Expression>> {
    match name {
        "payload" => read_payload(fields),
        "meta" => read_meta(fields),
        "ct" => read_ct(fields),
        "bitwise" => read_bitwise(fields),
        "cmp" => read_compare(fields),
        "lookup" => read_lookup(fields),
        "immediate" => read_immediate(fields),
        "numgen" => read_numgen(fields),
        "fib" => read_fib(fields),
        "nat" => read_nat(fields),
        "masq" => Ok(Some(Expression::Masquerade { flags: fields.number_or(1, 0)? })),
        "reject" => {
            let code = fields.get(2).map(Attribute::u8).transpose()?.unwrap_or(0);
            Ok(Some(Expression::Reject { kind: fields.number_or(1, 0)?, code }))
        }
        "dynset" => read_dynset(fields),
        "counter" => Ok(Some(Expression::Counter)),
        _ => Ok(None),
    }
}

fn read_payload(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let header = match fields.number(2)? {
        Some(1) => Header::Network,
        Some(2) => Header::Transport,
        _ => return Ok(None),
    };
    let (Some(to), Some(offset), Some(size)) = (fields.register(1)?, fields.number(3)?, fields.number(4)?)
    else {
        return Ok(None);
    };
    Ok(Some(Expression::Payload { to, header, offset, size }))
}

fn read_meta(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let Some(key) = fields.number(2)?.and_then(meta_from) else { return Ok(None) };
    Ok(match (fields.register(1)?, fields.register(3)?) {
        (Some(to), None) => Some(Expression::Meta { to, key }),
        (None, Some(from)) => Some(Expression::SetMeta { from, key }),
        _ => None,
    })
}

fn read_ct(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let key = match fields.number(2)? {
        Some(0) => CtKey::State,
        Some(2) => CtKey::Status,
        _ => return Ok(None),
    };
    Ok(fields.register(1)?.map(|to| Expression::Ct { to, key }))
}

fn read_bitwise(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let is_in_place = fields.register(1)? == fields.register(2)?;
    let is_mask_and_xor = fields.number_or(6, 0)? == 0;
    Ok(match (fields.register(1)?, fields.bytes(4)?, fields.bytes(5)?) {
        (Some(register), Some(mask), Some(xor)) if is_in_place && is_mask_and_xor => {
            Some(Expression::Bitwise { register, mask, xor })
        }
        _ => None,
    })
}

fn read_compare(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let equal = match fields.number(2)? {
        Some(0) => true,
        Some(1) => false,
        _ => return Ok(None),
    };
    Ok(match (fields.register(1)?, fields.bytes(3)?) {
        (Some(register), Some(value)) => Some(Expression::Compare { register, equal, value }),
        _ => None,
    })
}

fn read_lookup(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let is_inverted = fields.number_or(5, 0)? & LOOKUP_INVERTED != 0;
    let found = match (fields.number(3)?, is_inverted) {
        (None, false) => Found::Pass,
        (None, true) => Found::Break,
        (Some(VERDICT_REGISTER), false) => Found::Decide,
        (Some(number), false) => match register_from(number) {
            Some(register) => Found::Load(register),
            None => return Ok(None),
        },
        (Some(_), true) => return Ok(None),
    };
    let set = fields.text(1)?.into();
    Ok(fields.register(2)?.map(|key| Expression::Lookup { key, set, found }))
}

fn read_immediate(fields: &Fields<'_>) -> Result<Option<Expression>> {
    if fields.number(1)? == Some(VERDICT_REGISTER) {
        let Some(data) = fields.get(2) else { return Ok(None) };
        for inner in data.nested() {
            let inner = inner?;
            if inner.kind == DATA_VERDICT {
                return Ok(read_verdict(&inner)?.map(Expression::Verdict));
            }
        }
        return Ok(None);
    }
    Ok(match (fields.register(1)?, fields.bytes(2)?) {
        (Some(to), Some(value)) => Some(Expression::Immediate { to, value }),
        _ => None,
    })
}

fn read_numgen(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let is_random = fields.number(3)? == Some(NUMGEN_RANDOM);
    Ok(match (fields.register(1)?, fields.number(2)?) {
        (Some(to), Some(modulus)) if is_random => {
            Some(Expression::Numgen { to, modulus, offset: fields.number_or(4, 0)? })
        }
        _ => None,
    })
}

fn read_fib(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let is_source = match (fields.number(2)?, fields.number(3)?) {
        (Some(FIB_RESULT_ADDRESS_TYPE), Some(FIB_SOURCE)) => true,
        (Some(FIB_RESULT_ADDRESS_TYPE), Some(FIB_DESTINATION)) => false,
        _ => return Ok(None),
    };
    Ok(fields.register(1)?.map(|to| Expression::Fib { to, is_source }))
}

fn read_nat(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let is_destination = fields.number(1)? == Some(NAT_DESTINATION);
    Ok(match fields.register(3)? {
        Some(address) if is_destination => Some(Expression::Dnat { address, port: fields.register(5)? }),
        _ => None,
    })
}

fn read_dynset(fields: &Fields<'_>) -> Result<Option<Expression>> {
    let change = match fields.number(3)? {
        Some(0) => DynsetChange::Add,
        Some(1) => DynsetChange::Update,
        Some(2) => DynsetChange::Delete,
        _ => return Ok(None),
    };
    let timeout = fields.get(6).map(Attribute::u64_be).transpose()?.filter(|&ms| ms > 0);
    let (set, data) = (fields.text(1)?.into(), fields.register(5)?);
    let timeout = timeout.map(Duration::from_millis);
    Ok(fields.register(4)?.map(|key| Expression::Dynset { set, change, key, data, timeout }))
}
