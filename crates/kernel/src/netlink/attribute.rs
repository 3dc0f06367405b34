//! Reads the attributes of a message: length, type, value, one after the other.
//!
//! In: bytes that someone else wrote. Out: attributes whose value lies inside those bytes, or an error
//! that says where the lengths stop making sense. Nothing here panics, whatever the bytes.

use super::{Error, Result};

/// Length and type of an attribute stand before its value.
const HEADER: usize = 4;
/// The upper bits of a type say "nested" and "network byte order"; the rest is the type.
const TYPE_MASK: u16 = 0x3fff;

/// One attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// What it means; depends upon the message.
    pub kind: u16,
    /// The bytes of its value.
    pub value: &'a [u8],
}

/// The attributes in some bytes, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Attributes<'a> {
    /// Reads the attributes that fill `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    fn read(&mut self) -> Result<Attribute<'a>> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let &[l0, l1, t0, t1, ..] = rest else {
            return Err(Error::Malformed { what: "attribute header cut off", offset: self.offset });
        };
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let Some(value) = rest.get(HEADER..length) else {
            return Err(Error::Malformed { what: "attribute length out of bounds", offset: self.offset });
        };
        self.offset += length.next_multiple_of(4);
        Ok(Attribute { kind: u16::from_ne_bytes([t0, t1]) & TYPE_MASK, value })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let attribute = self.read();
        if attribute.is_err() {
            self.offset = self.bytes.len();
        }
        Some(attribute)
    }
}

impl<'a> Attribute<'a> {
    /// The attributes inside this one.
    pub fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }

    /// A one-byte number.
    pub fn u8(&self) -> Result<u8> {
        self.fixed().map(|[byte]| byte)
    }

    /// A 16-bit number in the machine's byte order.
    pub fn u16(&self) -> Result<u16> {
        self.fixed().map(u16::from_ne_bytes)
    }

    /// A 16-bit number in network byte order: a port.
    pub fn u16_be(&self) -> Result<u16> {
        self.fixed().map(u16::from_be_bytes)
    }

    /// A 32-bit number in the machine's byte order, as rtnetlink writes them.
    pub fn u32(&self) -> Result<u32> {
        self.fixed().map(u32::from_ne_bytes)
    }

    /// A 32-bit number in network byte order, as netfilter writes them.
    pub fn u32_be(&self) -> Result<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    /// A 64-bit number in network byte order, as netfilter writes them.
    pub fn u64_be(&self) -> Result<u64> {
        self.fixed().map(u64::from_be_bytes)
    }

    /// A text, with or without its closing zero. Bytes that are no UTF-8 are shown as such, not refused.
    pub fn text(&self) -> String {
        let end = self.value.iter().position(|&byte| byte == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(&self.value[..end]).into_owned()
    }

    fn fixed<const N: usize>(&self) -> Result<[u8; N]> {
        self.value
            .try_into()
            .map_err(|_| Error::Malformed { what: "attribute has an unexpected size", offset: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(bytes: &[u8]) -> Vec<Result<u16>> {
        Attributes::new(bytes).map(|attribute| attribute.map(|a| a.kind)).collect()
    }

    #[test]
    fn attributes_are_read_in_order_and_the_flag_bits_are_masked() {
        let bytes = [5, 0, 1, 0, 0xaa, 0, 0, 0, 4, 0, 2, 0x80];
        assert_eq!(kinds(&bytes), vec![Ok(1), Ok(2)]);
    }

    #[test]
    fn a_broken_length_is_an_error_and_ends_the_walk() {
        for bytes in [&[3, 0, 1, 0][..], &[9, 0, 1, 0, 1, 2, 3, 4], &[4, 0, 1], &[0, 0, 0, 0, 8, 0, 1, 0]] {
            let read = kinds(bytes);
            assert_eq!(read.len(), 1, "{bytes:?}");
            assert!(matches!(read[0], Err(Error::Malformed { .. })), "{bytes:?}");
        }
    }

    #[test]
    fn the_last_attribute_needs_no_padding() {
        assert_eq!(kinds(&[5, 0, 7, 0, 1]), vec![Ok(7)]);
    }
}
