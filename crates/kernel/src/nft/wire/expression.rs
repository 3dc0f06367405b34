//! Register programs as netlink attributes.

use std::time::Duration;

use super::numbers::{
    DATA, FIB_DESTINATION, FIB_RESULT_ADDRESS_TYPE, FIB_SOURCE, LOOKUP_INVERTED, NAME, NAT_DESTINATION,
    NUMGEN_RANDOM, VERDICT_CHAIN, VERDICT_CODE, VERDICT_REGISTER, ct_number, dynset_number, header_number,
    meta_number, register_number,
};
use super::{DATA_VALUE, DATA_VERDICT, LIST_ELEMENT, family_number};
use crate::netlink::MessageWriter;
use crate::nft::expression::{Expression, Found, Register};
use crate::nft::object::{Family, Verdict};

/// Writes a register program as a list of expressions.
pub(crate) fn write_all(m: &mut MessageWriter, kind: u16, family: Family, program: &[Expression]) {
    m.nested(kind, |m| {
        for expression in program {
            m.nested(LIST_ELEMENT, |m| {
                m.text(NAME, name(expression));
                m.nested(DATA, |m| write(m, family, expression));
            });
        }
    });
}

fn name(expression: &Expression) -> &str {
    match expression {
        Expression::Payload { .. } => "payload",
        Expression::Meta { .. } | Expression::SetMeta { .. } => "meta",
        Expression::Ct { .. } => "ct",
        Expression::Bitwise { .. } => "bitwise",
        Expression::Compare { .. } => "cmp",
        Expression::Lookup { .. } => "lookup",
        Expression::Immediate { .. } | Expression::Verdict(_) => "immediate",
        Expression::Numgen { .. } => "numgen",
        Expression::Fib { .. } => "fib",
        Expression::Dnat { .. } => "nat",
        Expression::Masquerade { .. } => "masq",
        Expression::Reject { .. } => "reject",
        Expression::Dynset { .. } => "dynset",
        Expression::Counter => "counter",
        Expression::Unknown(name) => name,
    }
}

fn write(m: &mut MessageWriter, family: Family, expression: &Expression) {
    match expression {
        Expression::Payload { to, header, offset, size } => {
            m.u32_be(1, register_number(*to));
            m.u32_be(2, header_number(*header));
            m.u32_be(3, *offset);
            m.u32_be(4, *size);
        }
        Expression::Meta { to, key } => {
            m.u32_be(2, meta_number(*key));
            m.u32_be(1, register_number(*to));
        }
        Expression::SetMeta { from, key } => {
            m.u32_be(2, meta_number(*key));
            m.u32_be(3, register_number(*from));
        }
        Expression::Ct { to, key } => {
            m.u32_be(2, ct_number(*key));
            m.u32_be(1, register_number(*to));
        }
        Expression::Bitwise { register, mask, xor } => {
            m.u32_be(1, register_number(*register));
            m.u32_be(2, register_number(*register));
            m.u32_be(3, u32::try_from(mask.len()).expect("a mask has at most 16 bytes"));
            m.nested(4, |m| m.attribute(DATA_VALUE, mask));
            m.nested(5, |m| m.attribute(DATA_VALUE, xor));
        }
        Expression::Compare { register, equal, value } => {
            m.u32_be(1, register_number(*register));
            m.u32_be(2, u32::from(!equal));
            m.nested(3, |m| m.attribute(DATA_VALUE, value));
        }
        Expression::Lookup { key, set, found } => write_lookup(m, *key, set, *found),
        Expression::Immediate { to, value } => {
            m.u32_be(1, register_number(*to));
            m.nested(2, |m| m.attribute(DATA_VALUE, value));
        }
        Expression::Verdict(verdict) => {
            m.u32_be(1, VERDICT_REGISTER);
            m.nested(2, |m| write_verdict(m, verdict));
        }
        Expression::Numgen { to, modulus, offset } => {
            m.u32_be(1, register_number(*to));
            m.u32_be(2, *modulus);
            m.u32_be(3, NUMGEN_RANDOM);
            m.u32_be(4, *offset);
        }
        Expression::Fib { to, is_source } => {
            m.u32_be(3, if *is_source { FIB_SOURCE } else { FIB_DESTINATION });
            m.u32_be(2, FIB_RESULT_ADDRESS_TYPE);
            m.u32_be(1, register_number(*to));
        }
        Expression::Dnat { address, port } => {
            m.u32_be(1, NAT_DESTINATION);
            m.u32_be(2, family_number(family).into());
            m.u32_be(3, register_number(*address));
            if let Some(port) = port {
                m.u32_be(5, register_number(*port));
            }
        }
        Expression::Masquerade { flags } => m.u32_be(1, *flags),
        Expression::Reject { kind, code } => {
            m.u32_be(1, *kind);
            m.attribute(2, &[*code]);
        }
        Expression::Dynset { set, change, key, data, timeout } => {
            m.u32_be(4, register_number(*key));
            if let Some(data) = data {
                m.u32_be(5, register_number(*data));
            }
            m.u32_be(3, dynset_number(*change));
            if let Some(timeout) = timeout {
                m.u64_be(6, milliseconds(*timeout));
            }
            m.text(1, set);
        }
        Expression::Counter => {
            m.u64_be(1, 0);
            m.u64_be(2, 0);
        }
        Expression::Unknown(_) => {}
    }
}

fn write_lookup(m: &mut MessageWriter, key: Register, set: &str, found: Found) {
    m.text(1, set);
    m.u32_be(2, register_number(key));
    match found {
        Found::Pass => {}
        Found::Break => m.u32_be(5, LOOKUP_INVERTED),
        Found::Load(register) => m.u32_be(3, register_number(register)),
        Found::Decide => m.u32_be(3, VERDICT_REGISTER),
    }
}

/// Writes a verdict where data is expected.
pub(crate) fn write_verdict(m: &mut MessageWriter, verdict: &Verdict) {
    m.nested(DATA_VERDICT, |m| {
        let code: i32 = match verdict {
            Verdict::Drop => 0,
            Verdict::Accept => 1,
            Verdict::Jump(_) => -3,
            Verdict::Goto(_) => -4,
            Verdict::Return => -5,
        };
        m.u32_be(VERDICT_CODE, code.cast_unsigned());
        if let Some(chain) = verdict.target() {
            m.text(VERDICT_CHAIN, chain);
        }
    });
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
