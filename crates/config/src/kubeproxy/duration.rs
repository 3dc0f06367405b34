//! Times as Go writes them: `30s`, `1h30m`, `1.5s`, `-1m`.
//!
//! In: text of a file or a flag. Out: nanoseconds, which may be negative: it is validation that says that they must not be.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

impl GoDuration {
    /// So many seconds.
    pub const fn seconds(count: i64) -> Self {
        Self(count * 1_000_000_000)
    }

    /// So many milliseconds.
    pub const fn milliseconds(count: i64) -> Self {
        Self(count * 1_000_000)
    }

    /// Reads what Go's `time.ParseDuration` reads.
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut sum: i128 = 0;
        while !rest.is_empty() {
            let (part, after) = part(rest)?;
            sum = sum.checked_add(part)?;
            rest = after;
        }
        i64::try_from(sign * sum).ok().map(Self)
    }

    /// Reads a value of a document: a text, or, as Go's older files have it, a number of nanoseconds.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            value => value.as_i64().map(Self),
        }
    }

    /// The same, where it is not negative; else nothing.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<Duration> for GoDuration {
    fn from(time: Duration) -> Self {
        Self(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// One number with its unit, in nanoseconds, and the rest.
fn part(text: &str) -> Option<(i128, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let fraction = &fraction[..fraction.len().min(15)];
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some((digits(whole)?.checked_mul(*unit)?.checked_add(digits(fraction)? * unit / scale)?, rest))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        match ns {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{sign}{ns}ns"),
            1_000..1_000_000 => write!(f, "{sign}{}µs", decimal(ns, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{sign}{}ms", decimal(ns, 1_000_000)),
            _ => {
                f.write_str(sign)?;
                let (minutes, rest) = (ns / 60_000_000_000, decimal(ns % 60_000_000_000, 1_000_000_000));
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{rest}s"),
                    (0, minutes) => write!(f, "{minutes}m{rest}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{rest}s"),
                }
            }
        }
    }
}

/// `1.5` for 1,500 of 1,000.
fn decimal(count: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", count / unit, count % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::of(&value).ok_or_else(|| serde::de::Error::custom(format!("{value} is no time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_go_does() {
        for (text, nanoseconds, written) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("30s", 30_000_000_000, "30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("1h", 3_600_000_000_000, "1h0m0s"),
            ("24h0m0s", 86_400_000_000_000, "24h0m0s"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            (".5s", 500_000_000, "500ms"),
            ("50ms", 50_000_000, "50ms"),
            ("1.25ms", 1_250_000, "1.25ms"),
            ("7us", 7_000, "7µs"),
            ("7µs", 7_000, "7µs"),
            ("3ns", 3, "3ns"),
            ("-1m", -60_000_000_000, "-1m0s"),
            ("+1m", 60_000_000_000, "1m0s"),
        ] {
            let read = GoDuration::parse(text);
            assert_eq!(read, Some(GoDuration(nanoseconds)), "{text}");
            assert_eq!(read.map(|time| time.to_string()).as_deref(), Some(written));
        }
        for bad in ["", "s", "30", "1x", "1.2.3s", ".s", "-", "99999999999h", "1s 2s", "soon"] {
            assert_eq!(GoDuration::parse(bad), None, "{bad}");
        }
    }
}
