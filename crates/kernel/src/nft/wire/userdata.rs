//! Userdata: what nft keeps in the kernel for its own listings, and the kernel does not look at.
//!
//! Comments, and for sets the `typeof` of key and data. Written byte for byte as nft 1.0.6 does: what
//! later versions write for verdict maps makes 1.0.6 crash when it lists them, and a field that comes
//! from `numgen` cannot be listed at all without its typeof.
//!
//! The form is type (one byte), length (one byte), value, and nests.

use crate::nft::object::{Comment, DataFields, Family, Field, Set};

const COMMENT: u8 = 0;
const ELEMENT_FLAGS: u8 = 1;
const SET_KEY_BYTE_ORDER: u8 = 0;
const SET_DATA_BYTE_ORDER: u8 = 1;
const SET_KEY_TYPEOF: u8 = 3;
const SET_DATA_TYPEOF: u8 = 4;
const SET_DATA_INTERVAL: u8 = 6;
const SET_COMMENT: u8 = 7;
const TYPEOF_EXPRESSION: u8 = 0;
const TYPEOF_DATA: u8 = 1;
const EXPRESSION_VERDICT: u32 = 1;
const EXPRESSION_PAYLOAD: u32 = 7;
const EXPRESSION_META: u32 = 9;
const EXPRESSION_CONCATENATION: u32 = 13;
const EXPRESSION_NUMGEN: u32 = 23;
const HEADER_TRANSPORT: u32 = 11;
const HEADER_IP: u32 = 12;
const HEADER_IP6: u32 = 13;
const BYTE_ORDER_NONE: u32 = 0;
const BYTE_ORDER_HOST: u32 = 1;
const BYTE_ORDER_NETWORK: u32 = 2;
/// The interval of an element reaches up to the highest value, so it has no end in the kernel.
const ELEMENT_OPEN: u32 = 1;

/// The userdata of anything that has only a comment: tables, chains, rules.
pub(crate) fn comment(comment: &Comment) -> Vec<u8> {
    let mut userdata = Userdata::default();
    userdata.text(COMMENT, comment.as_str());
    userdata.0
}

/// The userdata of an element, or nothing if it needs none.
pub(crate) fn element(comment: Option<&Comment>, is_open: bool) -> Option<Vec<u8>> {
    let mut userdata = Userdata::default();
    if let Some(comment) = comment {
        userdata.text(COMMENT, comment.as_str());
    }
    if is_open {
        userdata.number(ELEMENT_FLAGS, ELEMENT_OPEN);
    }
    (!userdata.0.is_empty()).then_some(userdata.0)
}

/// The comment of a table, chain, rule or element.
pub(crate) fn read_comment(bytes: &[u8]) -> Option<Comment> {
    find(bytes, COMMENT).map(text)
}

/// The userdata of a set or map.
pub(crate) fn set(family: Family, set: &Set) -> Vec<u8> {
    let mut userdata = Userdata::default();
    userdata.number(SET_KEY_BYTE_ORDER, byte_order(&set.key));
    match &set.data {
        DataFields::None => userdata.nested(SET_KEY_TYPEOF, |u| u.typeof_fields(family, &set.key)),
        DataFields::Verdict => {
            userdata.number(SET_DATA_BYTE_ORDER, BYTE_ORDER_NONE);
            userdata.nested(SET_KEY_TYPEOF, |u| u.typeof_fields(family, &set.key));
            userdata.nested(SET_DATA_TYPEOF, |u| u.expression(EXPRESSION_VERDICT, |_| ()));
            userdata.number(SET_DATA_INTERVAL, 0);
        }
        DataFields::Values(fields) => {
            userdata.number(SET_DATA_BYTE_ORDER, byte_order(fields));
            userdata.nested(SET_KEY_TYPEOF, |u| u.typeof_fields(family, &set.key));
            userdata.nested(SET_DATA_TYPEOF, |u| u.typeof_fields(family, fields));
            userdata.number(SET_DATA_INTERVAL, 0);
        }
    }
    if let Some(comment) = &set.comment {
        userdata.text(SET_COMMENT, comment.as_str());
    }
    userdata.0
}

/// What a set's userdata tells about it.
#[derive(Debug, Default)]
pub(crate) struct SetNotes {
    /// The fields of the key, if all are of the kinds that we write.
    pub(crate) key: Option<Vec<Field>>,
    /// The fields of the data, if all are of the kinds that we write.
    pub(crate) data: Option<Vec<Field>>,
    /// The comment.
    pub(crate) comment: Option<Comment>,
}

/// Reads the userdata of a set; what it does not understand is absent.
pub(crate) fn read_set(bytes: &[u8]) -> SetNotes {
    SetNotes {
        key: find(bytes, SET_KEY_TYPEOF).and_then(read_fields),
        data: find(bytes, SET_DATA_TYPEOF).and_then(read_fields),
        comment: find(bytes, SET_COMMENT).map(text),
    }
}

/// Bytes of userdata, as they are written.
#[derive(Default)]
struct Userdata(Vec<u8>);

impl Userdata {
    fn nested(&mut self, kind: u8, inside: impl FnOnce(&mut Self)) {
        self.0.extend([kind, 0]);
        let start = self.0.len();
        inside(self);
        let length = self.0.len() - start;
        self.0[start - 1] = u8::try_from(length).expect("five fields and a comment of 127 bytes fit");
    }

    fn number(&mut self, kind: u8, number: u32) {
        self.nested(kind, |u| u.0.extend(number.to_ne_bytes()));
    }

    fn text(&mut self, kind: u8, text: &str) {
        self.nested(kind, |u| {
            u.0.extend(text.as_bytes());
            u.0.push(0);
        });
    }

    fn expression(&mut self, number: u32, data: impl FnOnce(&mut Self)) {
        self.number(TYPEOF_EXPRESSION, number);
        self.nested(TYPEOF_DATA, data);
    }

    fn typeof_fields(&mut self, family: Family, fields: &[Field]) {
        if let [only] = fields {
            return self.typeof_field(family, *only);
        }
        self.expression(EXPRESSION_CONCATENATION, |u| {
            for (index, field) in (0..).zip(fields) {
                u.nested(index, |u| u.typeof_field(family, *field));
            }
        });
    }

    fn typeof_field(&mut self, family: Family, field: Field) {
        match field {
            Field::Source | Field::Destination => self.payload(address_field(family, field)),
            Field::Port => self.payload((HEADER_TRANSPORT, 2)),
            Field::Protocol => self.meta(16),
            Field::Priority => self.meta(2),
            Field::Mark => self.meta(3),
            Field::InputInterface => self.meta(6),
            // Kind random, modulus 4, offset 0. Only the kind of value matters to nft, not the modulus.
            Field::Slot => self.expression(EXPRESSION_NUMGEN, |u| {
                u.number(0, 1);
                u.number(1, 4);
                u.number(2, 0);
            }),
        }
    }

    fn payload(&mut self, (header, field): (u32, u32)) {
        self.expression(EXPRESSION_PAYLOAD, |u| {
            u.number(0, header);
            u.number(1, field);
        });
    }

    fn meta(&mut self, key: u32) {
        self.expression(EXPRESSION_META, |u| u.number(0, key));
    }
}

const fn address_field(family: Family, field: Field) -> (u32, u32) {
    match (family, matches!(field, Field::Source)) {
        (Family::V4, true) => (HEADER_IP, 11),
        (Family::V4, false) => (HEADER_IP, 12),
        (Family::V6, true) => (HEADER_IP6, 8),
        (Family::V6, false) => (HEADER_IP6, 9),
    }
}

fn byte_order(fields: &[Field]) -> u32 {
    match fields {
        [Field::Source | Field::Destination | Field::Port] => BYTE_ORDER_NETWORK,
        [_] => BYTE_ORDER_HOST,
        _ => BYTE_ORDER_NONE,
    }
}

/// The entries of some userdata: type and value. Stops where a length leaves the bytes.
fn entries(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [kind, length, rest @ ..] = bytes else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        Some((*kind, value))
    })
}

fn find(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    entries(bytes).find(|entry| entry.0 == kind).map(|entry| entry.1)
}

fn find_number(bytes: &[u8], kind: u8) -> Option<u32> {
    find(bytes, kind)?.try_into().ok().map(u32::from_ne_bytes)
}

fn text(value: &[u8]) -> Comment {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    Comment::new(&String::from_utf8_lossy(&value[..end]))
}

fn read_fields(bytes: &[u8]) -> Option<Vec<Field>> {
    match find_number(bytes, TYPEOF_EXPRESSION)? {
        EXPRESSION_CONCATENATION => {
            entries(find(bytes, TYPEOF_DATA)?).map(|(_, field)| read_field(field)).collect()
        }
        _ => read_field(bytes).map(|field| vec![field]),
    }
}

fn read_field(bytes: &[u8]) -> Option<Field> {
    let data = find(bytes, TYPEOF_DATA)?;
    match find_number(bytes, TYPEOF_EXPRESSION)? {
        EXPRESSION_PAYLOAD => match (find_number(data, 0)?, find_number(data, 1)?) {
            (HEADER_IP, 11) | (HEADER_IP6, 8) => Some(Field::Source),
            (HEADER_IP, 12) | (HEADER_IP6, 9) => Some(Field::Destination),
            (HEADER_TRANSPORT, 2) => Some(Field::Port),
            _ => None,
        },
        EXPRESSION_META => match find_number(data, 0)? {
            2 => Some(Field::Priority),
            3 => Some(Field::Mark),
            6 => Some(Field::InputInterface),
            16 => Some(Field::Protocol),
            _ => None,
        },
        EXPRESSION_NUMGEN => Some(Field::Slot),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
    }

    fn frontends() -> Set {
        let key = [Field::Destination, Field::Protocol, Field::Port];
        Set { comment: Some("hello".into()), ..Set::map("frontends", &key, &[Field::Priority]) }
    }

    /// Captured from nft 1.0.6.
    #[test]
    fn a_map_is_annotated_as_nft_1_0_6_does() {
        assert_eq!(
            hex(&set(Family::V4, &frontends())),
            "000400000000010401000000034400040d000000013c0014000407000000010c00040c00000001040c000000010e000409\
             00000001060004100000000214000407000000010c00040b000000010402000000040e0004090000000106000402000000\
             060400000000070668656c6c6f00"
        );
    }

    /// Captured from nft 1.0.6. Later versions write a form that makes 1.0.6 crash when listing.
    #[test]
    fn a_verdict_map_is_annotated_as_nft_1_0_6_does() {
        let classes = Set::verdict_map("classes", &[Field::Priority]);
        assert_eq!(
            hex(&set(Family::V6, &classes)),
            "000401000000010400000000030e000409000000010600040200000004080004010000000100060400000000"
        );
    }

    #[test]
    fn annotations_are_read_back() {
        let notes = read_set(&set(Family::V6, &frontends()));
        assert_eq!(notes.key, Some(frontends().key));
        assert_eq!(notes.data, Some(vec![Field::Priority]));
        assert_eq!(notes.comment, frontends().comment);
    }
}
