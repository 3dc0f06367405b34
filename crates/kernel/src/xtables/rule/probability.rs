//! How often a rule is taken by chance.
//!
//! The kernel keeps a whole number of 2³¹ parts, and `iptables-save` prints that with eleven digits. So a probability is
//! printed by the fraction that it was made of, and compared by what the kernel keeps.

use std::cmp::Ordering;
use std::fmt;

/// The parts that the kernel counts in.
const PARTS: u32 = 1 << 31;

/// A fraction between 0 and 1.
#[derive(Debug, Clone, Copy)]
pub struct Probability {
    slots: u32,
    of: u32,
    parts: u32,
}

impl Probability {
    /// `slots` of `of`.
    ///
    /// # Panics
    ///
    /// If it is more than all or of none.
    pub fn new(slots: u32, of: u32) -> Self {
        assert!(of > 0 && slots <= of, "{slots} of {of} is no probability");
        let printed: f64 = format!("{:.10}", f64::from(slots) / f64::from(of)).parse().unwrap_or(0.0);
        Self { slots, of, parts: parts(printed).unwrap_or(0) }
    }

    /// One of so many.
    ///
    /// # Panics
    ///
    /// If it is of none.
    pub fn one_in(of: u32) -> Self {
        Self::new(1, of)
    }

    /// The fraction that it was made of: how many, of how many. Of one that was parsed it is the simplest that gives the same.
    pub fn fraction(self) -> (u32, u32) {
        (self.slots, self.of)
    }

    /// What the kernel keeps: so many of 2³¹.
    pub fn parts(self) -> u32 {
        self.parts
    }

    /// Reads `0.3333333333` as the programs do.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        parts(text.parse().ok()?).map(Self::of_parts)
    }

    /// The simplest fraction of which the kernel keeps this. That is the one it was made of, for all that anybody writes:
    /// fractions with denominators of up to some 30,000 are farther apart than the kernel's parts.
    fn of_parts(parts: u32) -> Self {
        // Rounding to ten digits and then to parts moves a fraction by up to 0.5 + 0.11 parts.
        let near = |hundredths: u64| {
            let (middle, whole) = (u64::from(parts) * 100, u64::from(PARTS) * 100);
            let (slots, of) =
                simplest((middle.saturating_sub(hundredths), whole), (whole.min(middle + hundredths), whole));
            let found = Self::new(slots.try_into().ok()?, of.try_into().ok()?);
            (found.parts == parts).then_some(found)
        };
        let exact = Self { slots: parts, of: PARTS, parts };
        [61, 50, 39].into_iter().find_map(near).unwrap_or(exact)
    }
}

/// The fraction with the smallest denominator between two others, by their continued fractions.
fn simplest(low: (u64, u64), high: (u64, u64)) -> (u64, u64) {
    let whole = low.0 / low.1;
    if low.0 == whole * low.1 {
        return (whole, 1);
    }
    if whole < high.0 / high.1 {
        return (whole + 1, 1);
    }
    let (over, under) = simplest((high.1, high.0 - whole * high.1), (low.1, low.0 - whole * low.1));
    (whole * over + under, over)
}

/// What the programs make of a number before they hand it to the kernel.
fn parts(number: f64) -> Option<u32> {
    let parts = (number * f64::from(PARTS)).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the line above it has looked"
    )]
    (0.0..=1.0).contains(&number).then_some(parts as u32)
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.10}", f64::from(self.slots) / f64::from(self.of))
    }
}

impl PartialEq for Probability {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Probability {}

impl PartialOrd for Probability {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Probability {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts.cmp(&other.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_and_what_is_saved_are_the_same() {
        let cases = [
            (1, 3, "0.3333333333", "0.33333333349"),
            (1, 2, "0.5000000000", "0.50000000000"),
            (2, 7, "0.2857142857", "0.28571428591"),
        ];
        for (slots, of, printed, saved) in cases {
            let probability = Probability::new(slots, of);
            assert_eq!(probability.to_string(), printed);
            assert_eq!(Some(probability), Probability::parse(printed));
            assert_eq!(Some(probability), Probability::parse(saved));
        }
    }

    #[test]
    fn every_number_that_the_kernel_can_keep_survives_printing() {
        for parts in (0..=PARTS).step_by(104_729) {
            let probability = Probability { slots: parts, of: PARTS, parts };
            assert_eq!(Probability::parse(&probability.to_string()), Some(probability), "{parts}");
        }
    }

    #[test]
    fn the_fraction_comes_back_from_what_was_printed() {
        let fractions =
            (1..=5000).map(|of| (1, of)).chain((2..=200).flat_map(|of| (1..of).map(move |n| (n, of))));
        for (slots, of) in fractions {
            let made = Probability::new(slots, of);
            let (found, whole) = Probability::parse(&made.to_string()).unwrap().fraction();
            assert_eq!(found * of, slots * whole, "{slots} of {of}");
        }
    }

    #[test]
    fn what_is_no_probability_is_none() {
        for text in ["", "x", "1.1", "-0.1", "NaN", "inf"] {
            assert_eq!(Probability::parse(text), None, "{text}");
        }
    }
}
