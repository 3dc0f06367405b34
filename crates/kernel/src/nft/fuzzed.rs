//! What the fuzz test needs to see of this folder: bytes of a transaction, and every decoder.

use std::collections::VecDeque;

use super::batch::{Batch, Ending};
use super::foreign;
use super::monitor;
use super::object::Family;
use super::packets;
use super::transaction::Transaction;
use super::value::Kind;
use super::wire::{SUBSYSTEM, kind, read};
use crate::netlink::{Header, Result};

/// The bytes of a transaction.
pub(crate) fn encoded(transaction: &Transaction) -> Vec<u8> {
    Batch::encode(transaction, 1, Ending::Commit).bytes().to_vec()
}

/// Tries every decoder on the body of a message; whether the one that it is meant for understands it.
pub(crate) fn decodes(header: Header, body: &[u8]) -> bool {
    let results = [
        (kind::NEW_TABLE, table(body)),
        (kind::NEW_CHAIN, chain(body)),
        (kind::NEW_RULE, rule(body)),
        (kind::NEW_SET, set(body)),
        (kind::NEW_ELEMENTS, elements(body)),
    ];
    results.into_iter().any(|(kind, result)| header.kind == SUBSYSTEM << 8 | kind && result.is_ok())
}

/// Reads bytes as notifications.
pub(crate) fn hear(bytes: &[u8]) {
    let _unread = monitor::hear(bytes, &mut VecDeque::new());
}

fn table(body: &[u8]) -> Result<()> {
    read::table(Family::V4, read::open(body)?.1).map(drop)
}

fn chain(body: &[u8]) -> Result<()> {
    read::chain(read::open(body)?.1).map(drop)
}

fn rule(body: &[u8]) -> Result<()> {
    // Rules of other programs are read from the same bytes, by a decoder that knows more expressions.
    foreign::rule(read::open(body)?.1)?;
    packets::rule(read::open(body)?.1)?;
    read::rule(read::open(body)?.1).map(drop)
}

fn set(body: &[u8]) -> Result<()> {
    read::set(Family::V6, read::open(body)?.1).map(drop)
}

/// Elements are read by the shape of their set; one of these fits, the others must fail in peace.
fn elements(body: &[u8]) -> Result<()> {
    let frontend = vec![Kind::Ipv4, Kind::Protocol, Kind::Port];
    let shapes = [
        read::Shape { key: vec![Kind::Ipv4], data: vec![] },
        read::Shape { key: vec![Kind::Port], data: vec![] },
        read::Shape { key: vec![Kind::Ipv6, Kind::Ipv6], data: vec![Kind::Priority] },
        read::Shape { key: frontend, data: vec![Kind::Priority] },
        read::Shape { key: vec![Kind::Priority], data: vec![] },
    ];
    let mut result = Ok(());
    for shape in shapes {
        let read = read::elements(&shape, read::open(body)?.1);
        result = read.map(|entries| drop(read::join(&shape, entries, shape.key.len() == 1)));
        if result.is_ok() {
            break;
        }
    }
    result
}
