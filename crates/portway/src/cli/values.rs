//! Values of options: each refused with one sentence that has the value in backticks and the way out.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error, ValueEnum};
use ipnet::IpNet;
use model::NodePortAddress;
use model::net::{parse_cidr, parse_ip};

use crate::suggest::nearest;

/// Reads a value with a function whose error is a whole sentence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sentence<T>(pub(super) fn(&str) -> Result<T, String>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Sentence<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let text = value.to_string_lossy();
        self.0(&text).map_err(|sentence| refuse(command, &sentence))
    }
}

/// One of the words of `T`, called `what`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<T> {
    what: &'static str,
    of: PhantomData<fn() -> T>,
}

impl<T> Words<T> {
    /// Reads one of the words of `T`.
    pub(super) fn called(what: &'static str) -> Self {
        Self { what, of: PhantomData }
    }
}

impl<T: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for Words<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let text = value.to_string_lossy();
        T::from_str(&text, true).map_err(|_| refuse(command, &unknown::<T>(self.what, &text)))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(T::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// `` unknown mode `nftable`: did you mean `nftables`? ``
fn unknown<T: ValueEnum>(what: &str, text: &str) -> String {
    let values: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
    let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
    match nearest(text, values.iter().flat_map(PossibleValue::get_name_and_aliases)) {
        Some(word) => format!("unknown {what} `{text}`: did you mean `{word}`?"),
        None => format!("unknown {what} `{text}`: it is one of {}", names.join(", ")),
    }
}

fn refuse(command: &Command, sentence: &str) -> Error {
    let text = format!("{sentence}\n\nFor more information, try '--help'.\n");
    Error::raw(ErrorKind::InvalidValue, text).with_cmd(command)
}

/// `10.96.0.0/12`.
pub(super) fn cidr(text: &str) -> Result<IpNet, String> {
    parse_cidr(text)
        .ok_or_else(|| format!("`{text}` is no network: write it as `10.96.0.0/12` or `fd00:10:96::/112`"))
}

/// `192.0.2.10`.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    parse_ip(text)
        .ok_or_else(|| format!("`{text}` is no address: write it as `192.0.2.10` or `2001:db8::10`"))
}

/// `192.0.2.0/24`, `primary`, `localhost` or `all`.
pub(super) fn node_port_address(text: &str) -> Result<NodePortAddress, String> {
    NodePortAddress::parse(text).ok_or_else(|| {
        format!("`{text}` says nothing about node ports: write a network such as `192.0.2.0/24`, or `primary`, `localhost` or `all`")
    })
}

/// `30000-32767`.
pub(super) fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let parts = text.split_once('-').and_then(|(first, last)| {
        Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?))
    });
    match parts {
        Some((first, last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(format!(
            "`{text}` is no range of ports: write it as `30000-32767`, the smaller first, from 1 to 65535"
        )),
    }
}

/// The name of a node, of an interface, ...: not empty.
pub(super) fn name(text: &str) -> Result<String, String> {
    if model::name::is_acceptable(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{}` is no name: use letters, digits, `-`, `_` and `.`, at most 253",
            text.escape_default()
        ))
    }
}

/// `500ms`, `30s`, `5m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "" if number == "0" => Some(1),
        _ => None,
    };
    let milliseconds =
        number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    milliseconds
        .filter(|milliseconds| *milliseconds <= LONGEST)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is no time: write it as `500ms`, `30s` or `5m`, at most a day"))
}

const LONGEST: u64 = 86_400_000;

/// The name of an interface, as the kernel takes it, and a set that is called after it.
pub(super) fn interface(text: &str) -> Result<String, String> {
    let is_letter = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'"' | b':');
    if (1..=15).contains(&text.len()) && text.bytes().all(is_letter) && !matches!(text, "." | "..") {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{}` is no name of an interface: it has 1 to 15 letters, none of them a blank, a slash, a quote or a colon",
            text.escape_default()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_goes_upwards() {
        assert_eq!(port_range("30000-32767"), Ok(30_000..=32_767));
        for bad in ["", "30000", "2-1", "0-5", "1-65536", "a-b"] {
            let message = port_range(bad).unwrap_err();
            assert!(message.starts_with(&format!("`{bad}`")), "{message}");
        }
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["", "s", "30", "1.5s", "-1s", "99999999999999999999s", "5 s", "48h"] {
            assert!(duration(bad).unwrap_err().starts_with(&format!("`{bad}`")), "{bad}");
        }
    }

    #[test]
    fn interfaces_have_names_that_the_kernel_takes() {
        for good in ["kube-ipvs0", "eth0.100", "flannel.1", "a", "fifteen-letters"] {
            assert_eq!(interface(good).as_deref(), Ok(good));
        }
        for bad in ["", "..", "sixteen-letters-", "a b", "a/b", "a:1"] {
            assert!(interface(bad).unwrap_err().starts_with(&format!("`{bad}` is no name")), "{bad}");
        }
    }
}
