//! What the operator can choose for one mode: each setting is a value that the mode's folder owns.
//!
//! In: the text of a flag, of a field of the config file, or of the status of a running portway. Out: [`Values`], checked, which the
//! mode reads when it is opened. The command line, the config file and the documents walk [`Setting`]s and know none by name.
//!
//! Absent on purpose: settings that several modes share and that decide packets, such as the masquerade mark; see
//! [`ModeSettings`](crate::ModeSettings).

use std::collections::BTreeMap;
use std::time::Duration;

/// A setting of one mode, or of several that share it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The flag, without its dashes.
    pub flag: &'static str,
    pub kind: Kind,
    /// What `--help` and docs/config.md say.
    pub help: &'static str,
    /// The heading of `--help` that it stands under.
    pub heading: Option<&'static str>,
    /// The commands that take it, beside `run`.
    pub commands: Commands,
    /// The field of the config file that sets it too.
    pub field: Option<Field>,
}

/// A field of the config file.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its place: the section of the mode, a dot, and a name.
    pub path: &'static str,
    /// What docs/config.md says of it.
    pub why: &'static str,
    /// More than upstream's field of this name offers.
    pub is_better: bool,
    /// What a value must be, where the setting's own words would not do.
    pub must: Option<&'static str>,
}

/// What the value of a setting looks like. Its function returns the text in the form that the mode reads; the error is one sentence with
/// the value in backticks and the way out.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// On, or not given.
    Switch,
    /// One value.
    Text { value_name: &'static str, parse: fn(&str) -> Result<String, String> },
    /// A time, such as `30s`.
    Time,
    /// One of these words, called `what`.
    Word { value_name: &'static str, what: &'static str, words: &'static [&'static str] },
    /// Values with commas between them.
    List { value_name: &'static str, parse: fn(&str) -> Result<String, String> },
}

/// The commands that take a setting, beside `run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Those that show the rules of a mode, and those that compare them.
    pub render: bool,
    pub diff: bool,
    pub cleanup: bool,
}

impl Commands {
    pub const RUN_ONLY: Self = Self { render: false, diff: false, cleanup: false };
    /// All that render or compare rules.
    pub const RULES: Self = Self { render: true, diff: true, cleanup: false };
}

impl Kind {
    /// The text in the form that the mode reads, or what is wrong with it.
    pub fn parse(&self, text: &str) -> Result<String, String> {
        match self {
            Self::Switch if matches!(text, "true" | "false") => Ok(text.to_owned()),
            Self::Switch => Err(format!("`{text}` is neither true nor false")),
            Self::Text { parse, .. } | Self::List { parse, .. } => parse(text),
            Self::Time => duration(text).map(milliseconds),
            Self::Word { words, what, .. } => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text))
                .map(|word| (*word).to_owned())
                .ok_or_else(|| format!("unknown {what} `{text}`: it is one of {}", words.join(", "))),
        }
    }
}

/// What was chosen, by flag; each value in the form that [`Kind::parse`] returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<String, Vec<String>>);

impl Values {
    pub fn set(&mut self, flag: &str, values: Vec<String>) {
        self.0.insert(flag.to_owned(), values);
    }

    /// These, and where they say nothing, those.
    #[must_use]
    pub fn over(mut self, others: Self) -> Self {
        for (flag, values) in others.0 {
            self.0.entry(flag).or_insert(values);
        }
        self
    }

    pub fn has(&self, flag: &str) -> bool {
        self.0.contains_key(flag)
    }

    /// The flags that say something.
    pub fn given(&self) -> impl Iterator<Item = &str> {
        let says = |values: &Vec<String>| values.iter().any(|value| !value.is_empty());
        self.0.iter().filter(move |(_, values)| says(values)).map(|(flag, _)| flag.as_str())
    }

    pub fn text(&self, flag: &str) -> Option<&str> {
        self.0.get(flag)?.first().map(String::as_str)
    }

    pub fn is_on(&self, flag: &str) -> bool {
        self.text(flag) == Some("true")
    }

    pub fn list(&self, flag: &str) -> impl Iterator<Item = &str> {
        self.0.get(flag).into_iter().flatten().map(String::as_str)
    }

    /// A time that [`milliseconds`] wrote.
    pub fn time(&self, flag: &str) -> Option<Duration> {
        self.text(flag)?.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
    }
}

/// A time in the form that [`Values::time`] reads.
pub fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Reads `500ms`, `30s`, `5m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    /// A day.
    const MILLISECONDS_MAX: u64 = 86_400_000;
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
        .filter(|milliseconds| *milliseconds <= MILLISECONDS_MAX)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is no time: write it as `500ms`, `30s` or `5m`, at most a day"))
}

/// A network, for [`Kind::List`].
pub fn parse_cidr(text: &str) -> Result<String, String> {
    model::net::parse_cidr(text)
        .map(|net| net.to_string())
        .ok_or_else(|| format!("`{text}` is no network: write it as `10.96.0.0/12` or `fd00:10:96::/112`"))
}

/// The name of an interface, as the kernel takes it, and a set that is called after it.
pub fn parse_interface(text: &str) -> Result<String, String> {
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
            assert_eq!(parse_interface(good).as_deref(), Ok(good));
        }
        for bad in ["", "..", "sixteen-letters-", "a b", "a/b", "a:1"] {
            assert!(parse_interface(bad).unwrap_err().starts_with(&format!("`{bad}` is no name")), "{bad}");
        }
    }

    #[test]
    fn values_that_were_not_chosen_are_those_of_before() {
        let (mut chosen, mut before) = (Values::default(), Values::default());
        chosen.set("a", vec!["1".to_owned()]);
        before.set("a", vec!["2".to_owned()]);
        before.set("b", vec![milliseconds(Duration::from_secs(3))]);
        let values = chosen.over(before);
        assert_eq!((values.text("a"), values.time("b")), (Some("1"), Some(Duration::from_secs(3))));
    }
}
