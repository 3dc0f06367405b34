//! Decodes what the kernel lists: tables, chains, rules, sets, elements.
//!
//! Each function takes the attributes of one message. `Ok(None)` or an `Unknown` means: well-formed, but
//! nothing that we write. An error means broken lengths.

use std::time::Duration;

use super::object::{
    CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TABLE, CHAIN_TYPE, CHAIN_USERDATA, HOOK_NUMBER,
    HOOK_PRIORITY, RULE_CHAIN, RULE_EXPRESSIONS, RULE_HANDLE, RULE_TABLE, RULE_USERDATA, TABLE_DORMANT,
    TABLE_FLAGS, TABLE_NAME, TABLE_USERDATA, chain_type, hook_from,
};
use super::set::{
    DATA_TYPE_VERDICT, DESCRIPTION_SIZE, ELEMENT_CATCH_ALL, ELEMENT_DATA, ELEMENT_FLAGS,
    ELEMENT_INTERVAL_END, ELEMENT_KEY, ELEMENT_KEY_END, ELEMENT_TIMEOUT, ELEMENT_USERDATA, FLAG_DYNAMIC,
    FLAG_INTERVAL, FLAG_TIMEOUT, LIST_ELEMENTS, SET_COUNT, SET_DATA_TYPE, SET_DESCRIPTION, SET_FLAGS,
    SET_KEY_TYPE, SET_NAME, SET_TABLE, SET_USERDATA, flag_bits, type_numbers,
};
use super::{DATA_VALUE, DATA_VERDICT, read_expression, userdata};
use crate::netlink::{Attribute, Attributes, Error, Result};
use crate::nft::element::{Data, Element};
use crate::nft::listed::ListedRule;
use crate::nft::object::{Chain, ChainKind, DataFields, Family, Flags, Hook, Policy, Set, Table};
use crate::nft::value::{Kind, Tuple};

/// Splits the fixed part off a message: the number of its family, and its attributes.
pub(crate) fn open(body: &[u8]) -> Result<(u8, Attributes<'_>)> {
    let cut = Error::Malformed { what: "fixed part of the message cut off", offset: 0 };
    let (fixed, rest) = body.split_first_chunk::<4>().ok_or(cut)?;
    Ok((fixed[0], Attributes::new(rest)))
}

/// Reads a table.
pub(crate) fn table(family: Family, attributes: Attributes<'_>) -> Result<Table> {
    let mut table = Table { family, name: "".into(), comment: None, is_dormant: false };
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            TABLE_NAME => table.name = attribute.text().into(),
            TABLE_FLAGS => table.is_dormant = attribute.u32_be()? & TABLE_DORMANT != 0,
            TABLE_USERDATA => table.comment = userdata::read_comment(attribute.value),
            _ => {}
        }
    }
    Ok(table)
}

/// A chain of some table. Its hook may be one that we never use.
pub(crate) struct ReadChain {
    pub(crate) table: String,
    pub(crate) chain: Chain,
    pub(crate) is_known: bool,
}

/// Reads a chain.
pub(crate) fn chain(attributes: Attributes<'_>) -> Result<ReadChain> {
    let mut read = ReadChain { table: String::new(), chain: Chain::new(""), is_known: true };
    let (mut hook, mut policy, mut kind) = (None, Policy::Accept, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            CHAIN_TABLE => read.table = attribute.text(),
            CHAIN_NAME => read.chain.name = attribute.text().into(),
            CHAIN_HOOK => hook = Some(read_hook(&attribute)?),
            CHAIN_POLICY if attribute.u32_be()? == 0 => policy = Policy::Drop,
            CHAIN_TYPE => kind = chain_kind(&attribute.text()),
            CHAIN_USERDATA => read.chain.comment = userdata::read_comment(attribute.value),
            _ => {}
        }
    }
    match (hook, kind) {
        (None, _) => {}
        (Some((Some(number), priority)), Some(kind)) => match hook_from(number) {
            Some(point) => read.chain.base = Some(Hook { kind, point, priority, policy }),
            None => read.is_known = false,
        },
        (Some(_), _) => read.is_known = false,
    }
    Ok(read)
}

fn read_hook(attribute: &Attribute<'_>) -> Result<(Option<u32>, i32)> {
    let (mut number, mut priority) = (None, 0);
    for attribute in attribute.nested() {
        let attribute = attribute?;
        match attribute.kind {
            HOOK_NUMBER => number = Some(attribute.u32_be()?),
            HOOK_PRIORITY => priority = attribute.u32_be()?.cast_signed(),
            _ => {}
        }
    }
    Ok((number, priority))
}

fn chain_kind(name: &str) -> Option<ChainKind> {
    [ChainKind::Filter, ChainKind::Nat].into_iter().find(|kind| chain_type(*kind) == name)
}

/// Reads a rule: the names of its table and chain, and what it does.
pub(crate) fn rule(attributes: Attributes<'_>) -> Result<(String, String, ListedRule)> {
    let (mut table, mut chain) = (String::new(), String::new());
    let mut rule = ListedRule { handle: 0, program: Vec::new(), comment: None };
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RULE_TABLE => table = attribute.text(),
            RULE_CHAIN => chain = attribute.text(),
            RULE_HANDLE => rule.handle = attribute.u64_be()?,
            RULE_EXPRESSIONS => {
                rule.program = attribute
                    .nested()
                    .map(|entry| entry.and_then(|entry| read_expression::read(&entry)))
                    .collect::<Result<_>>()?;
            }
            RULE_USERDATA => rule.comment = userdata::read_comment(attribute.value),
            _ => {}
        }
    }
    Ok((table, chain, rule))
}

/// A set of some table; `None` in `set` if it is not of a shape that we write.
pub(crate) struct ReadSet {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) set: Option<Set>,
    /// How many elements it has, where the kernel tells.
    pub(crate) count: Option<u32>,
}

/// Reads a set or map.
pub(crate) fn set(family: Family, attributes: Attributes<'_>) -> Result<ReadSet> {
    let (mut table, mut name, mut bits) = (String::new(), String::new(), 0);
    let (mut key_type, mut data_type, mut size, mut count) = (0, None, None, None);
    let mut notes = userdata::SetNotes::default();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            SET_TABLE => table = attribute.text(),
            SET_NAME => name = attribute.text(),
            SET_FLAGS => bits = attribute.u32_be()?,
            SET_KEY_TYPE => key_type = attribute.u32_be()?,
            SET_DATA_TYPE => data_type = Some(attribute.u32_be()?),
            SET_DESCRIPTION => size = read_size(&attribute)?,
            SET_COUNT => count = Some(attribute.u32_be()?),
            SET_USERDATA => notes = userdata::read_set(attribute.value),
            _ => {}
        }
    }
    let data = match data_type {
        None => Some(DataFields::None),
        Some(DATA_TYPE_VERDICT) => Some(DataFields::Verdict),
        Some(_) => notes.data.map(DataFields::Values),
    };
    let set = notes.key.zip(data).map(|(key, data)| Set {
        name: name.as_str().into(),
        key,
        data,
        flags: Flags {
            interval: bits & FLAG_INTERVAL != 0,
            dynamic: bits & FLAG_DYNAMIC != 0,
            timeout: bits & FLAG_TIMEOUT != 0,
        },
        size,
        comment: notes.comment,
    });
    // The notes are anybody's to write; they count only if the kernel's own view of the set agrees.
    let set = set.filter(|set| {
        let agrees = |fields: Vec<Kind>, number| type_numbers(&fields) == number;
        flag_bits(set) == bits
            && agrees(set.key_kinds(family), key_type)
            && (!matches!(set.data, DataFields::Values(_))
                || agrees(set.data_kinds(family), data_type.unwrap_or(0)))
    });
    Ok(ReadSet { table, name, set, count })
}

fn read_size(attribute: &Attribute<'_>) -> Result<Option<u32>> {
    for attribute in attribute.nested() {
        let attribute = attribute?;
        if attribute.kind == DESCRIPTION_SIZE {
            return attribute.u32_be().map(Some);
        }
    }
    Ok(None)
}

/// The kinds of a set's fields, to read its elements by.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) key: Vec<Kind>,
    pub(crate) data: Vec<Kind>,
}

/// One entry of a set as the kernel lists it: an element, or the end of a simple interval.
pub(crate) enum Entry {
    Element(Element),
    End(Tuple),
}

/// Reads the elements of one message.
pub(crate) fn elements(shape: &Shape, attributes: Attributes<'_>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == LIST_ELEMENTS {
            for entry in attribute.nested() {
                entries.extend(element(shape, &entry?)?);
            }
        }
    }
    Ok(entries)
}

fn element(shape: &Shape, entry: &Attribute<'_>) -> Result<Option<Entry>> {
    let (mut key, mut end, mut flags) = (None, None, 0);
    let (mut data, mut comment, mut timeout) = (Data::None, None, None);
    for attribute in entry.nested() {
        let attribute = attribute?;
        match attribute.kind {
            ELEMENT_KEY => key = Some(tuple(&shape.key, &attribute)?),
            ELEMENT_KEY_END => end = Some(Box::new(tuple(&shape.key, &attribute)?)),
            ELEMENT_DATA => data = element_data(shape, &attribute)?,
            ELEMENT_FLAGS => flags = attribute.u32_be()?,
            ELEMENT_TIMEOUT => timeout = Some(Duration::from_millis(attribute.u64_be()?)),
            ELEMENT_USERDATA => comment = userdata::read_comment(attribute.value),
            _ => {}
        }
    }
    Ok(match key {
        None => None,
        Some(_) if flags & ELEMENT_CATCH_ALL != 0 => None,
        Some(key) if flags & ELEMENT_INTERVAL_END != 0 => Some(Entry::End(key)),
        Some(key) => Some(Entry::Element(Element { key, end, data, comment, timeout })),
    })
}

fn element_data(shape: &Shape, attribute: &Attribute<'_>) -> Result<Data> {
    for inner in attribute.nested() {
        let inner = inner?;
        if inner.kind == DATA_VERDICT {
            return Ok(read_expression::read_verdict(&inner)?.map_or(Data::None, Data::Verdict));
        }
    }
    tuple(&shape.data, attribute).map(Data::Values)
}

fn tuple(kinds: &[Kind], attribute: &Attribute<'_>) -> Result<Tuple> {
    for inner in attribute.nested() {
        let inner = inner?;
        if inner.kind == DATA_VALUE {
            let unexpected = Error::Malformed { what: "element's length differs from its set's", offset: 0 };
            return Tuple::from_bytes(kinds, inner.value).ok_or(unexpected);
        }
    }
    Err(Error::Malformed { what: "element without a value", offset: 0 })
}

/// Puts the ends of simple intervals to their beginnings.
///
/// The kernel lists them in any order. An end is the first key behind the interval; a beginning without
/// an end reaches up to the highest key.
pub(crate) fn join(shape: &Shape, entries: Vec<Entry>, is_simple_interval: bool) -> Vec<Element> {
    let (mut elements, mut ends) = (Vec::with_capacity(entries.len()), std::collections::BTreeSet::new());
    for entry in entries {
        match entry {
            Entry::Element(element) => elements.push(element),
            Entry::End(key) => drop(ends.insert(key)),
        }
    }
    if is_simple_interval {
        for element in &mut elements {
            let behind = ends.range(element.key..).find(|end| **end != element.key);
            let last = behind.and_then(Tuple::predecessor).or_else(|| highest(&shape.key));
            element.end = last.map(Box::new);
        }
    }
    elements
}

fn highest(kinds: &[Kind]) -> Option<Tuple> {
    Tuple::from_bytes(kinds, &vec![0xff; crate::nft::value::wire_size(kinds)])
}
