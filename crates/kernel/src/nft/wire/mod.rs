//! Every object as netlink bytes, and back.
//!
//! Writing is for the kernels and nft versions that we support: attributes as nft 1.0.6 sends them.
//! Reading trusts nothing: unknown attributes are passed over, unknown objects are reported as such,
//! broken lengths are errors.

pub(super) mod expression;
pub(super) mod numbers;
pub(super) mod object;
pub(super) mod read;
pub(super) mod read_expression;
pub(super) mod set;
pub(super) mod userdata;

use crate::netlink::{Header, MessageWriter};
use crate::nft::object::Family;

/// The messages of `nf_tables`, by their number in the subsystem.
pub(super) mod kind {
    pub(crate) const NEW_TABLE: u16 = 0;
    pub(crate) const GET_TABLE: u16 = 1;
    pub(crate) const DEL_TABLE: u16 = 2;
    pub(crate) const NEW_CHAIN: u16 = 3;
    pub(crate) const GET_CHAIN: u16 = 4;
    pub(crate) const DEL_CHAIN: u16 = 5;
    pub(crate) const NEW_RULE: u16 = 6;
    pub(crate) const GET_RULE: u16 = 7;
    pub(crate) const DEL_RULE: u16 = 8;
    pub(crate) const NEW_SET: u16 = 9;
    pub(crate) const GET_SET: u16 = 10;
    pub(crate) const DEL_SET: u16 = 11;
    pub(crate) const NEW_ELEMENTS: u16 = 12;
    pub(crate) const GET_ELEMENTS: u16 = 13;
    pub(crate) const DEL_ELEMENTS: u16 = 14;
    pub(crate) const NEW_GENERATION: u16 = 15;
    pub(crate) const GET_GENERATION: u16 = 16;
}

/// The number of `nf_tables` among netfilter's subsystems.
pub(super) const SUBSYSTEM: u16 = 10;
/// An entry of any list.
pub(super) const LIST_ELEMENT: u16 = 1;
/// Bytes, where an attribute may hold bytes or a verdict.
pub(super) const DATA_VALUE: u16 = 1;
/// A verdict, where an attribute may hold bytes or a verdict.
pub(super) const DATA_VERDICT: u16 = 2;

/// The family's number in messages.
pub(super) const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// The family with this number, if it is one of ours.
pub(super) const fn family_from(number: u8) -> Option<Family> {
    match number {
        2 => Some(Family::V4),
        10 => Some(Family::V6),
        _ => None,
    }
}

/// The head of an `nf_tables` message.
pub(super) const fn header(kind: u16, flags: u16, sequence: u32) -> Header {
    Header { kind: SUBSYSTEM << 8 | kind, flags, sequence, port: 0 }
}

/// The fixed part that every `nf_tables` message begins with.
pub(super) fn fixed(message: &mut MessageWriter, family: u8) {
    message.raw(&[family, 0, 0, 0]);
}
