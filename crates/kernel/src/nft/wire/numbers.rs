//! The kernel's numbers for what expressions are made of: attributes, registers, keys.

use crate::nft::expression::{CtKey, DynsetChange, Header, MetaKey, Register};

pub(super) const NAME: u16 = 1;
pub(super) const DATA: u16 = 2;
pub(super) const VERDICT_CODE: u16 = 1;
pub(super) const VERDICT_CHAIN: u16 = 2;
/// The register that holds the verdict.
pub(super) const VERDICT_REGISTER: u32 = 0;
pub(super) const FIB_RESULT_ADDRESS_TYPE: u32 = 3;
pub(super) const FIB_SOURCE: u32 = 1;
pub(super) const FIB_DESTINATION: u32 = 2;
pub(super) const NAT_DESTINATION: u32 = 1;
pub(super) const NUMGEN_RANDOM: u32 = 1;
pub(super) const LOOKUP_INVERTED: u32 = 1;

/// The kernel knows registers of 16 bytes as 1 to 4 and of 4 bytes as 8 to 23; where both name the same
/// place it lists the former.
pub(super) fn register_number(register: Register) -> u32 {
    let word = u32::from(register.0);
    if word % 4 == 0 { 1 + word / 4 } else { 8 + word }
}

pub(super) fn register_from(number: u32) -> Option<Register> {
    let word = match number {
        1..=4 => (number - 1) * 4,
        8..=23 => number - 8,
        _ => return None,
    };
    u8::try_from(word).ok().map(Register)
}

pub(super) const fn header_number(header: Header) -> u32 {
    match header {
        Header::Network => 1,
        Header::Transport => 2,
    }
}

pub(crate) const fn meta_number(key: MetaKey) -> u32 {
    match key {
        MetaKey::Priority => 2,
        MetaKey::Mark => 3,
        MetaKey::InputInterface => 6,
        MetaKey::Protocol => 16,
    }
}

pub(super) const fn meta_from(number: u32) -> Option<MetaKey> {
    match number {
        2 => Some(MetaKey::Priority),
        3 => Some(MetaKey::Mark),
        6 => Some(MetaKey::InputInterface),
        16 => Some(MetaKey::Protocol),
        _ => None,
    }
}

pub(crate) const fn ct_number(key: CtKey) -> u32 {
    match key {
        CtKey::State => 0,
        CtKey::Status => 2,
    }
}

pub(super) const fn dynset_number(change: DynsetChange) -> u32 {
    match change {
        DynsetChange::Add => 0,
        DynsetChange::Update => 1,
        DynsetChange::Delete => 2,
    }
}
