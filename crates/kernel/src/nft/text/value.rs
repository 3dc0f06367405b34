//! Values, keys and times as nft prints them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::nft::value::{Tuple, Value};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(ip) => ip.fmt(f),
            Self::Ipv6(ip) => ip.fmt(f),
            Self::Protocol(protocol) => protocol.fmt(f),
            Self::Port(port) => port.fmt(f),
            Self::Slot(number) => number.fmt(f),
            Self::Priority(number) => f.write_str(&priority(*number)),
            Self::Mark(number) => write!(f, "{number:#010x}"),
            Self::Interface(name) => write!(f, "{name:?}"),
        }
    }
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.values().map(|value| value.to_string()).collect();
        f.write_str(&texts.join(" . "))
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A priority as a traffic class, `major:minor` in hexadecimal digits.
pub(super) fn priority(number: u32) -> String {
    if number == 0 { "none".to_owned() } else { format!("{:x}:{:x}", number >> 16, number & 0xffff) }
}

/// A key of an interval set: prefixes where they are some, ranges otherwise.
pub(super) fn interval(low: &Tuple, high: &Tuple) -> String {
    let texts: Vec<_> = low.values().zip(high.values()).map(|(low, high)| range(low, high)).collect();
    texts.join(" . ")
}

fn range(low: Value, high: Value) -> String {
    if low == high {
        return low.to_string();
    }
    let length = match (low, high) {
        (Value::Ipv4(low), Value::Ipv4(high)) => prefix_length(low.into(), high.into()),
        (Value::Ipv6(low), Value::Ipv6(high)) => prefix_length(low.into(), high.into()),
        _ => None,
    };
    length.map_or_else(|| format!("{low}-{high}"), |length| format!("{low}/{length}"))
}

/// The length of the prefix that is exactly this range.
fn prefix_length(low: IpAddr, high: IpAddr) -> Option<u32> {
    let (low, high, width) = match (low, high) {
        (IpAddr::V4(low), IpAddr::V4(high)) => (low.to_bits().into(), high.to_bits().into(), Ipv4Addr::BITS),
        (IpAddr::V6(low), IpAddr::V6(high)) => (low.to_bits(), high.to_bits(), Ipv6Addr::BITS),
        _ => return None,
    };
    let differing: u128 = low ^ high;
    let is_prefix = differing & differing.wrapping_add(1) == 0 && low & differing == 0;
    is_prefix.then(|| width - differing.count_ones())
}

/// A time as nft prints it: `3h`, `1m30s`, `500ms`.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
        (duration.subsec_millis().into(), "ms"),
    ];
    let present = parts.iter().filter(|part| part.0 > 0);
    let text = present.map(|(number, unit)| format!("{number}{unit}")).collect::<Vec<_>>().concat();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_nft_prints_them() {
        for (seconds, text) in [(10_800, "3h"), (2, "2s"), (90, "1m30s"), (86_400, "1d"), (0, "0s")] {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn ranges_are_prefixes_where_they_can_be() {
        let v4 = |text: &str| Value::Ipv4(text.parse().unwrap());
        assert_eq!(range(v4("10.0.0.0"), v4("10.255.255.255")), "10.0.0.0/8");
        assert_eq!(range(v4("0.0.0.0"), v4("255.255.255.255")), "0.0.0.0/0");
        assert_eq!(range(v4("10.0.0.1"), v4("10.0.0.2")), "10.0.0.1-10.0.0.2");
        assert_eq!(range(v4("10.0.0.1"), v4("10.0.0.1")), "10.0.0.1");
        let all = range(Value::Ipv6(Ipv6Addr::UNSPECIFIED), Value::Ipv6(Ipv6Addr::from_bits(u128::MAX)));
        assert_eq!(all, "::/0");
    }

    #[test]
    fn priorities_are_traffic_classes() {
        assert_eq!(priority(0x7057_0004), "7057:4");
        assert_eq!(priority(0), "none");
    }
}
