//! Sets, maps and their elements as netlink attributes.

use std::time::Duration;

use super::expression::write_verdict;
use super::{DATA_VALUE, LIST_ELEMENT, userdata};
use crate::netlink::MessageWriter;
use crate::nft::element::{Data, Element};
use crate::nft::object::{DataFields, Family, Set};
use crate::nft::value::{Kind, Tuple, wire_size};

pub(crate) const SET_TABLE: u16 = 1;
pub(crate) const SET_NAME: u16 = 2;
pub(crate) const SET_FLAGS: u16 = 3;
pub(crate) const SET_KEY_TYPE: u16 = 4;
pub(crate) const SET_KEY_LENGTH: u16 = 5;
pub(crate) const SET_DATA_TYPE: u16 = 6;
pub(crate) const SET_DATA_LENGTH: u16 = 7;
pub(crate) const SET_DESCRIPTION: u16 = 9;
pub(crate) const SET_ID: u16 = 10;
pub(crate) const SET_USERDATA: u16 = 13;
pub(crate) const SET_COUNT: u16 = 20;
pub(crate) const DESCRIPTION_SIZE: u16 = 1;
const DESCRIPTION_FIELDS: u16 = 2;
const FIELD_LENGTH: u16 = 1;
pub(crate) const DATA_TYPE_VERDICT: u32 = 0xffff_ff00;

pub(crate) const FLAG_INTERVAL: u32 = 0x4;
pub(crate) const FLAG_MAP: u32 = 0x8;
pub(crate) const FLAG_TIMEOUT: u32 = 0x10;
pub(crate) const FLAG_DYNAMIC: u32 = 0x20;
pub(crate) const FLAG_CONCATENATION: u32 = 0x80;

pub(crate) const LIST_TABLE: u16 = 1;
pub(crate) const LIST_SET: u16 = 2;
pub(crate) const LIST_ELEMENTS: u16 = 3;
pub(crate) const ELEMENT_KEY: u16 = 1;
pub(crate) const ELEMENT_DATA: u16 = 2;
pub(crate) const ELEMENT_FLAGS: u16 = 3;
pub(crate) const ELEMENT_TIMEOUT: u16 = 4;
pub(crate) const ELEMENT_USERDATA: u16 = 6;
pub(crate) const ELEMENT_KEY_END: u16 = 10;
pub(crate) const ELEMENT_INTERVAL_END: u32 = 1;
pub(crate) const ELEMENT_CATCH_ALL: u32 = 2;

/// The number by which nft knows a kind of value.
const fn type_number(kind: Kind) -> u32 {
    match kind {
        Kind::Slot => 4,
        Kind::Ipv4 => 7,
        Kind::Ipv6 => 8,
        Kind::Protocol => 12,
        Kind::Port => 13,
        Kind::Mark => 19,
        Kind::Priority => 23,
        Kind::Interface => 41,
    }
}

/// The types of some fields in one number, six bits each.
pub(crate) fn type_numbers(kinds: &[Kind]) -> u32 {
    kinds.iter().fold(0, |types, kind| types << 6 | type_number(*kind))
}

/// The flags of a set as the kernel knows them.
pub(crate) fn flag_bits(set: &Set) -> u32 {
    let is_concatenated_interval = set.flags.interval && set.key.len() > 1;
    [
        (set.flags.interval, FLAG_INTERVAL),
        (set.data != DataFields::None, FLAG_MAP),
        (set.flags.timeout, FLAG_TIMEOUT),
        (set.flags.dynamic, FLAG_DYNAMIC),
        (is_concatenated_interval, FLAG_CONCATENATION),
    ]
    .into_iter()
    .filter(|flag| flag.0)
    .fold(0, |bits, flag| bits | flag.1)
}

/// Writes a set. `id` tells sets of one batch apart; they are named by name.
pub(crate) fn write(m: &mut MessageWriter, family: Family, table: &str, set: &Set, id: u32) {
    let kinds = set.key_kinds(family);
    let bits = flag_bits(set);
    m.text(SET_TABLE, table);
    m.text(SET_NAME, &set.name);
    m.u32_be(SET_FLAGS, bits);
    m.u32_be(SET_KEY_TYPE, type_numbers(&kinds));
    m.u32_be(SET_KEY_LENGTH, length(wire_size(&kinds)));
    match &set.data {
        DataFields::None => {}
        DataFields::Verdict => m.u32_be(SET_DATA_TYPE, DATA_TYPE_VERDICT),
        DataFields::Values(_) => {
            let kinds = set.data_kinds(family);
            m.u32_be(SET_DATA_TYPE, type_numbers(&kinds));
            m.u32_be(SET_DATA_LENGTH, length(wire_size(&kinds)));
        }
    }
    m.u32_be(SET_ID, id);
    m.nested(SET_DESCRIPTION, |m| {
        if let Some(size) = set.size {
            m.u32_be(DESCRIPTION_SIZE, size);
        }
        if bits & FLAG_CONCATENATION != 0 {
            m.nested(DESCRIPTION_FIELDS, |m| write_fields(m, &kinds));
        }
    });
    m.attribute(SET_USERDATA, &userdata::set(family, set));
}

fn write_fields(m: &mut MessageWriter, kinds: &[Kind]) {
    for kind in kinds {
        m.nested(LIST_ELEMENT, |m| m.u32_be(FIELD_LENGTH, length(kind.size())));
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a key is shorter than 4 GiB")
}

/// Writes as many `elements` as one message takes, and returns how many. Deletions need no data.
pub(crate) fn write_elements(m: &mut MessageWriter, elements: &[Element], with_data: bool) -> usize {
    // The list's own length is a 16-bit number, and one element with the longest comment has 500 bytes.
    const LIST_BYTES_MAX: usize = 63 << 10;
    let start = m.len();
    let mut written = 0;
    m.nested(LIST_ELEMENTS, |m| {
        for element in elements {
            if m.len() - start > LIST_BYTES_MAX {
                break;
            }
            write_element(m, element, with_data);
            written += 1;
        }
    });
    written
}

/// How many list entries [`write_elements`] writes for one element: a simple interval has two ends.
pub(crate) fn entries_of(element: &Element) -> usize {
    1 + usize::from(simple_interval(element).is_some_and(|end| end.is_some()))
}

/// For an interval of a single field: the first key behind it, or nothing where it reaches up to the
/// highest. Such intervals are two entries in the kernel. With several fields each entry has both ends.
#[expect(clippy::option_option, reason = "no simple interval; an open one; one with an end")]
fn simple_interval(element: &Element) -> Option<Option<Tuple>> {
    let end = element.end.as_deref().filter(|_| element.key.kinds().count() == 1)?;
    Some(end.successor())
}

fn write_element(m: &mut MessageWriter, element: &Element, with_data: bool) {
    let behind = simple_interval(element);
    let is_open = behind == Some(None);
    m.nested(LIST_ELEMENT, |m| {
        m.nested(ELEMENT_KEY, |m| m.attribute(DATA_VALUE, element.key.bytes()));
        if let (Some(end), None) = (&element.end, behind) {
            m.nested(ELEMENT_KEY_END, |m| m.attribute(DATA_VALUE, end.bytes()));
        }
        if with_data {
            write_element_data(m, element, is_open);
        }
    });
    if let Some(Some(behind)) = behind {
        m.nested(LIST_ELEMENT, |m| {
            m.u32_be(ELEMENT_FLAGS, ELEMENT_INTERVAL_END);
            m.nested(ELEMENT_KEY, |m| m.attribute(DATA_VALUE, behind.bytes()));
        });
    }
}

fn write_element_data(m: &mut MessageWriter, element: &Element, is_open: bool) {
    match &element.data {
        Data::None => {}
        Data::Verdict(verdict) => m.nested(ELEMENT_DATA, |m| write_verdict(m, verdict)),
        Data::Values(values) => m.nested(ELEMENT_DATA, |m| m.attribute(DATA_VALUE, values.bytes())),
    }
    if let Some(timeout) = element.timeout {
        m.u64_be(ELEMENT_TIMEOUT, milliseconds(timeout));
    }
    if let Some(userdata) = userdata::element(element.comment.as_ref(), is_open) {
        m.attribute(ELEMENT_USERDATA, &userdata);
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
