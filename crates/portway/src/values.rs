//! Values of options: each refused with one sentence that has the value in backticks and the way out.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error, ValueEnum};
use ipnet::IpNet;
use model::NodePortAddress;
use model::net::{parse_cidr, parse_ip};

use standalone::suggest::nearest;

pub(super) use dataplane::settings::duration;

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
        let values: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let words: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        T::from_str(&text, true).map_err(|_| refuse(command, &unknown(self.what, &text, &words)))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(T::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// `` unknown mode `nftable`: did you mean `nftables`? ``
pub(super) fn unknown(what: &str, text: &str, words: &[&str]) -> String {
    match nearest(text, words.iter().copied()) {
        Some(word) => format!("unknown {what} `{text}`: did you mean `{word}`?"),
        None => format!("unknown {what} `{text}`: it is one of {}", words.join(", ")),
    }
}

pub(super) fn refuse(command: &Command, sentence: &str) -> Error {
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
}
