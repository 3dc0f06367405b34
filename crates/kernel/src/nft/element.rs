//! The elements of sets and maps.
//!
//! There may be hundreds of thousands, so an element is small and, but for ranges and comments, has no
//! heap part.

use std::net::IpAddr;
use std::time::Duration;

use super::object::{Comment, Verdict};
use super::value::{Tuple, Value};

/// What one element carries beside its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Data {
    /// Nothing.
    None,
    /// A verdict.
    Verdict(Verdict),
    /// Values.
    Values(Tuple),
}

/// One field of an interval key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// This value and no other.
    Exact(Value),
    /// All addresses with these leading bits.
    Prefix(IpAddr, u8),
    /// From the first to the last, both included.
    Range(Value, Value),
}

/// One element of a set or map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    /// The key, or the lowest one of a range.
    pub key: Tuple,
    /// The highest key of a range; every element of an interval set has it, and no other.
    pub end: Option<Box<Tuple>>,
    /// What a map holds for the key.
    pub data: Data,
    /// What it is for.
    pub comment: Option<Comment>,
    /// How long it lives from its last refresh; only in sets with timeout.
    pub timeout: Option<Duration>,
}

impl Element {
    /// An element with this key, of a set.
    pub fn new(key: &[Value]) -> Self {
        Self { key: Tuple::new(key), end: None, data: Data::None, comment: None, timeout: None }
    }

    /// An element of an interval set.
    pub fn interval(parts: &[Part]) -> Self {
        let (low, high): (Vec<_>, Vec<_>) = parts.iter().map(|part| part.bounds()).unzip();
        Self { end: Some(Box::new(Tuple::new(&high))), ..Self::new(&low) }
    }

    /// The same, holding values.
    #[must_use]
    pub fn values(self, values: &[Value]) -> Self {
        Self { data: Data::Values(Tuple::new(values)), ..self }
    }

    /// The same, holding a verdict.
    #[must_use]
    pub fn verdict(self, verdict: Verdict) -> Self {
        Self { data: Data::Verdict(verdict), ..self }
    }

    /// The same, with a comment.
    #[must_use]
    pub fn comment(self, comment: &Comment) -> Self {
        Self { comment: Some(comment.clone()), ..self }
    }

    /// Whether the tuple lies in the element's key or range, field by field.
    pub fn covers(&self, key: &Tuple) -> bool {
        match &self.end {
            None => self.key == *key,
            Some(end) => {
                let bounds = self.key.values().zip(end.values());
                bounds.zip(key.values()).all(|((low, high), value)| low <= value && value <= high)
            }
        }
    }
}

impl Part {
    /// The lowest and the highest value.
    pub fn bounds(self) -> (Value, Value) {
        match self {
            Self::Exact(value) => (value, value),
            Self::Range(low, high) => (low, high),
            Self::Prefix(IpAddr::V4(ip), length) => {
                let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                let bits = ip.to_bits();
                (Value::Ipv4((bits & !host).into()), Value::Ipv4((bits | host).into()))
            }
            Self::Prefix(IpAddr::V6(ip), length) => {
                let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
                let bits = ip.to_bits();
                (Value::Ipv6((bits & !host).into()), Value::Ipv6((bits | host).into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_a_lowest_and_a_highest_address() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        for (address, length, low, high) in [
            ("10.1.2.3", 8, "10.0.0.0", "10.255.255.255"),
            ("10.1.2.3", 32, "10.1.2.3", "10.1.2.3"),
            ("10.1.2.3", 0, "0.0.0.0", "255.255.255.255"),
            ("fd00::1", 64, "fd00::", "fd00::ffff:ffff:ffff:ffff"),
            ("fd00::1", 128, "fd00::1", "fd00::1"),
        ] {
            let bounds = Part::Prefix(ip(address), length).bounds();
            assert_eq!(bounds, (ip(low).into(), ip(high).into()), "{address}/{length}");
        }
    }
}
