//! Bytes of which some bits are not known, and questions about them with three answers.

use std::cmp::Ordering;

use crate::nft::foreign::Comparison;

/// The answer to a question about a packet of which not everything is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Truth {
    No,
    Maybe,
    Yes,
}

impl Truth {
    /// Both must hold.
    pub(super) fn and(self, other: Self) -> Self {
        self.min(other)
    }

    /// One of them must hold.
    pub(super) fn or(self, other: Self) -> Self {
        self.max(other)
    }

    /// The same question, negated if `not`.
    pub(super) fn negated_if(self, not: bool) -> Self {
        match self {
            Self::Yes if not => Self::No,
            Self::No if not => Self::Yes,
            same => same,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// A byte and which of its bits are known. Unknown bits are 0 in `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bits {
    pub(super) value: u8,
    pub(super) known: u8,
}

impl Bits {
    pub(super) const UNKNOWN: Self = Self { value: 0, known: 0 };

    pub(super) const fn known(value: u8) -> Self {
        Self { value, known: 0xff }
    }

    /// Keeps the bits of `mask`, then flips those of `xor`. What is masked out is 0 whatever it was.
    pub(super) const fn masked(self, mask: u8, xor: u8) -> Self {
        let known = self.known | !mask;
        Self { value: ((self.value & mask) ^ xor) & known, known }
    }

    /// What is known of a byte that is either this one or the other.
    pub(super) const fn either(self, other: Self) -> Self {
        let known = self.known & other.known & !(self.value ^ other.value);
        Self { value: self.value & known, known }
    }
}

/// The bytes, if all of their bits are known.
pub(super) fn whole(bytes: &[Bits]) -> Option<Vec<u8>> {
    bytes.iter().map(|byte| (byte.known == 0xff).then_some(byte.value)).collect()
}

/// Compares bytes with a value, as `memcmp` does.
pub(super) fn compare(bytes: &[Bits], how: Comparison, value: &[u8]) -> Truth {
    let is_equal = || equals(bytes, value);
    let order = |holds: fn(Ordering) -> bool| {
        whole(bytes).map_or(Truth::Maybe, |bytes| holds(bytes.as_slice().cmp(value)).into())
    };
    match how {
        Comparison::Equal => is_equal(),
        Comparison::NotEqual => is_equal().negated_if(true),
        Comparison::Less => order(Ordering::is_lt),
        Comparison::LessOrEqual => order(Ordering::is_le),
        Comparison::Greater => order(Ordering::is_gt),
        Comparison::GreaterOrEqual => order(Ordering::is_ge),
    }
}

fn equals(bytes: &[Bits], value: &[u8]) -> Truth {
    let same = bytes.iter().zip(value).map(|(bits, value)| {
        if (bits.value ^ value) & bits.known != 0 {
            Truth::No
        } else if bits.known == 0xff {
            Truth::Yes
        } else {
            Truth::Maybe
        }
    });
    same.fold(Truth::Yes, Truth::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_bit_that_differs_settles_a_comparison() {
        let half = Bits { value: 0x20, known: 0xf0 };
        let cases = [
            (half, Comparison::Equal, 0x21, Truth::Maybe),
            (half, Comparison::Equal, 0x11, Truth::No),
            (half, Comparison::NotEqual, 0x11, Truth::Yes),
            (half.masked(0xf0, 0), Comparison::Equal, 0x20, Truth::Yes),
            (half.masked(0x0f, 0), Comparison::NotEqual, 0, Truth::Maybe),
            (half, Comparison::Less, 0x80, Truth::Maybe),
            (Bits::known(7), Comparison::Less, 8, Truth::Yes),
            (Bits::known(8), Comparison::GreaterOrEqual, 8, Truth::Yes),
        ];
        for (bits, how, value, expected) in cases {
            assert_eq!(compare(&[bits], how, &[value]), expected, "{bits:?} {how:?} {value:#x}");
        }
    }

    #[test]
    fn of_two_bytes_the_common_bits_stay_known() {
        assert_eq!(Bits::known(0b1100).either(Bits::known(0b1010)), Bits { value: 0b1000, known: !0b0110 });
        assert_eq!(Bits::known(1).either(Bits::UNKNOWN), Bits::UNKNOWN);
    }
}
