//! A command line in the syntax of Go's pflag: `--flag=value`, `--flag value`, `--switch`, `--switch=false`, `-v 2`.
//!
//! In: words. Out: the flags that were given, in their order, or a sentence that says which word is wrong and what it may have been.

use serde_json::{Value, json};
use standalone::suggest::nearest;

use super::duration::GoDuration;
use super::flags::{FLAGS, Flag, Purpose};
use super::kind::Kind;

/// A flag with its value.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    flag: &'static Flag,
    text: &'a str,
}

/// The flags that were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    words: Vec<(&'static str, String)>,
    /// What is to be told of them.
    pub warnings: Vec<String>,
}

impl Given {
    /// Reads a command line, without the name of the program. The error is a sentence.
    pub fn parse(line: &[String]) -> Result<Self, String> {
        let mut given = Self::default();
        let mut rest = line.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            if word == "--" {
                return rest.find(|word| !word.is_empty()).map_or(Ok(given), |word| Err(after_dashes(word)));
            }
            if word.is_empty() {
                continue;
            }
            let Word { flag, text } = word_of(word, &mut rest)?;
            if flag.purpose == Purpose::Obsolete {
                given.warnings.push(format!("`--{}` has no effect any more: {}", flag.name, flag.why));
            } else {
                check(flag, text)?;
            }
            if let Some(instead) = flag.instead {
                given.warnings.push(format!("`--{}` is deprecated: use `{instead}`, as IP:port", flag.name));
            }
            given.words.push((flag.name, text.to_owned()));
        }
        Ok(given)
    }

    /// The last value of a flag.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().rev().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    /// The same; nothing where it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name).filter(|text| !text.is_empty())
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name).and_then(truth).unwrap_or(false)
    }

    /// All, in their order.
    pub(super) fn flags(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        self.words.iter().filter_map(|(name, text)| Some((Flag::named(name)?, text.as_str())))
    }

    /// Every flag of today with the value that was given, to be shown. One that sets no field and was not given is off, or empty; one that a
    /// file passes over was not given.
    pub fn shown(&self) -> Vec<(String, String)> {
        let is_shown = |flag: &&Flag| flag.purpose != Purpose::Obsolete && flag.name != "successor";
        let usual = |flag: &Flag| if flag.is_switch && flag.fields().next().is_none() { "false" } else { "" };
        let has_file = self.text("config").is_some();
        let counted = |flag: &Flag| self.value(flag.name).filter(|_| flag.beside_config || !has_file);
        let text = |flag: &Flag| counted(flag).unwrap_or(usual(flag)).to_owned();
        let mut shown: Vec<_> =
            FLAGS.iter().filter(is_shown).map(|flag| (flag.name.to_owned(), text(flag))).collect();
        shown.sort();
        shown
    }
}

fn word_of<'a>(word: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> Result<Word<'a>, String> {
    let (name, attached) = split(word)?;
    let flag = Flag::named(name).ok_or_else(|| unknown(word, name))?;
    let text = match attached {
        Some(text) => text,
        None if flag.is_switch => "true",
        None => rest.next().ok_or_else(|| format!("`--{}` needs a value: write `--{0}=VALUE`", flag.name))?,
    };
    Ok(Word { flag, text })
}

/// The name, and a value in the same word. The short ones are `-v` and `-h`.
fn split(word: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        return Ok(long.split_once('=').map_or((long, None), |(name, text)| (name, Some(text))));
    }
    match word.strip_prefix('-') {
        Some("v") => Ok(("v", None)),
        Some("h") => Ok(("help", None)),
        Some(short) if short.starts_with('v') => {
            let text = &short[1..];
            Ok(("v", Some(text.strip_prefix('=').unwrap_or(text))))
        }
        Some(short) if !short.is_empty() => Err(format!(
            "unknown flag `{word}`: write `--{}` with two dashes, or `-v`, `-h`",
            short.trim_start_matches('-')
        )),
        _ => Err(positional(word)),
    }
}

/// What comes after `--` is no flag, whatever it looks like.
fn after_dashes(word: &str) -> String {
    if word.starts_with('-') {
        return format!("`{word}` comes after `--`, where no flag is read: leave `--` out");
    }
    positional(word)
}

fn positional(word: &str) -> String {
    let hint = match truth(word) {
        Some(_) => format!("; a switch takes its value with a sign, as `--masquerade-all={word}`"),
        None => String::new(),
    };
    format!("`{word}` is no flag, and kube-proxy takes no other arguments{hint}")
}

fn unknown(word: &str, name: &str) -> String {
    let written = word.split('=').next().unwrap_or(word);
    let name = name.replace('_', "-");
    let near = nearest(&name, FLAGS.iter().map(|flag| flag.name));
    let hint =
        near.map_or_else(|| "`--help` lists all".to_owned(), |near| format!("did you mean `--{near}`?"));
    format!("unknown flag `{written}`: {hint}")
}

/// Every value is read once here, so that a malformed one is told with the name of its flag.
fn check(flag: &Flag, text: &str) -> Result<(), String> {
    let kind = match flag.purpose {
        Purpose::Sets(_) => flag.fields().next().map_or(Kind::Text, |field| field.kind),
        _ if flag.name == "version" && text == "raw" => return Ok(()),
        _ if flag.is_switch => Kind::Bool,
        _ if matches!(flag.name, "healthz-port" | "metrics-port" | "successor") => Kind::Int,
        _ => Kind::Text,
    };
    match value(kind, text) {
        Some(_) => Ok(()),
        None => Err(format!("`--{}={text}`: `{text}` is not {}", flag.name, words(kind))),
    }
}

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Texts => "a list, separated by commas",
        Kind::Gates => "a list such as `A=true,B=false`",
        Kind::Vmodule => "a list such as `file=2,other*=3`",
        kind => kind.words(),
    }
}

/// What a text stands for.
pub(super) fn value(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Text => Some(json!(text)),
        Kind::Bool => truth(text).map(Value::Bool),
        Kind::Int => whole(text.trim()).map(Value::from),
        Kind::Float => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
        Kind::Duration | Kind::Nanoseconds => GoDuration::parse(text).map(|time| json!(time.to_string())),
        Kind::Quantity => kind.objection(&json!(text)).is_none().then(|| json!(text)),
        Kind::Texts => Some(json!(parts(text).collect::<Vec<_>>())),
        Kind::Gates => parts(text).map(gate).collect::<Option<serde_json::Map<_, _>>>().map(Value::Object),
        Kind::Vmodule => parts(text).map(module).collect::<Option<Vec<_>>>().map(Value::Array),
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn gate(text: &str) -> Option<(String, Value)> {
    let (name, value) = text.split_once('=')?;
    Some((name.trim().to_owned(), Value::Bool(truth(value.trim())?)))
}

fn module(text: &str) -> Option<Value> {
    let (pattern, verbosity) = text.split_once('=').filter(|(pattern, _)| !pattern.is_empty())?;
    Some(json!({ "filePattern": pattern, "verbosity": verbosity.parse::<u16>().ok()? }))
}

/// A whole number as Go reads it: `14`, `0x0e`, `0o16`, `016`, `0b1110`.
fn whole(text: &str) -> Option<i32> {
    let (sign, plain) = text.strip_prefix('-').map_or(("", text), |plain| ("-", plain));
    let (base, digits) = match plain.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &plain[2..]),
        [b'0', b'o' | b'O', ..] => (8, &plain[2..]),
        [b'0', b'b' | b'B', ..] => (2, &plain[2..]),
        [b'0', _, ..] => (8, &plain[1..]),
        _ => return text.parse().ok(),
    };
    let has_sign = digits.starts_with(['-', '+']);
    i32::from_str_radix(&format!("{sign}{digits}"), base).ok().filter(|_| !has_sign)
}

/// What Go takes for true and for false.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Given, String> {
        Given::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_written_in_every_way_that_go_takes() {
        for (line, name, value) in [
            ("--proxy-mode=ipvs", "proxy-mode", Some("ipvs")),
            ("--proxy-mode ipvs", "proxy-mode", Some("ipvs")),
            ("--proxy_mode ipvs", "proxy-mode", Some("ipvs")),
            ("--proxy-mode=a --proxy-mode=b", "proxy-mode", Some("b")),
            ("--masquerade-all", "masquerade-all", Some("true")),
            ("--masquerade-all=false", "masquerade-all", Some("false")),
            ("--masquerade-all=0 --cleanup", "masquerade-all", Some("0")),
            ("-v 4", "v", Some("4")),
            ("-v=4", "v", Some("4")),
            ("-v4", "v", Some("4")),
            ("--v=4", "v", Some("4")),
            ("--oom-score-adj -5", "oom-score-adj", Some("-5")),
            ("--version=raw", "version", Some("raw")),
            ("-h", "help", Some("true")),
            ("--oom-score-adj=-0x10", "oom-score-adj", Some("-0x10")),
            ("--v=4 --", "v", Some("4")),
            ("", "v", None),
        ] {
            assert_eq!(parse(line).expect(line).value(name), value, "{line}");
        }
        assert_eq!(parse("--config=").expect("it is a flag").text("config"), None, "nothing is no file");
    }

    #[test]
    fn what_is_wrong_is_said_with_the_way_out() {
        for (line, words) in [
            ("--proxy-mod=ipvs", "unknown flag `--proxy-mod`: did you mean `--proxy-mode`?"),
            ("--porxy_mode=ipvs", "unknown flag `--porxy_mode`: did you mean `--proxy-mode`?"),
            ("--PROXY-MODE=ipvs", "unknown flag `--PROXY-MODE`: did you mean `--proxy-mode`?"),
            ("--Cluster_CIDR=10.0.0.0/8", "unknown flag `--Cluster_CIDR`: did you mean `--cluster-cidr`?"),
            ("--something-else", "unknown flag `--something-else`: `--help` lists all"),
            ("--proxy-mode", "`--proxy-mode` needs a value"),
            ("iptables", "`iptables` is no flag"),
            ("--masquerade-all false", "as `--masquerade-all=false`"),
            ("--masquerade-all=perhaps", "`perhaps` is not true or false"),
            ("--iptables-sync-period=30", "`30` is not a time"),
            ("--oom-score-adj=high", "`high` is not a whole number"),
            ("--feature-gates=A", "`A` is not a list such as `A=true,B=false`"),
            ("--vmodule=a", "`a` is not a list such as"),
            ("-x", "unknown flag `-x`"),
            ("-- iptables", "`iptables` is no flag"),
            ("--v=4 -- --cleanup", "`--cleanup` comes after `--`, where no flag is read"),
            ("--oom-score-adj=0x", "`0x` is not a whole number"),
            ("--oom-score-adj=0x-1", "`0x-1` is not a whole number"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn obsolete_flags_are_taken_and_told() {
        let given =
            parse("--logtostderr --alsologtostderr=true --proxy-port-range=0-0").expect("they are taken");
        assert_eq!(given.warnings.len(), 3);
        assert!(given.warnings[2].contains("`--proxy-port-range` has no effect any more"), "{given:?}");
    }

    #[test]
    fn deprecated_flags_and_those_of_libraries_are_taken_and_told_what_to_write() {
        for (line, warning) in [
            ("--healthz-port=7", "`--healthz-port` is deprecated: use `--healthz-bind-address`, as IP:port"),
            ("--metrics-port 7", "`--metrics-port` is deprecated: use `--metrics-bind-address`, as IP:port"),
            (
                "--conntrack-max=0",
                "`--conntrack-max` has no effect any more: use --conntrack-max-per-core and --conntrack-min",
            ),
            (
                "--docker unix:///run/docker.sock",
                "`--docker` has no effect any more: it was never kube-proxy's: leave it out",
            ),
            (
                "--log_cadvisor_usage --v=4",
                "`--log-cadvisor-usage` has no effect any more: it was never kube-proxy's: leave it out",
            ),
        ] {
            assert_eq!(parse(line).expect(line).warnings, [warning], "{line}");
        }
    }

    /// Templates of manifests leave them behind.
    #[test]
    fn an_empty_word_says_nothing() {
        let line = ["", "--v=4", ""].map(str::to_owned);
        assert_eq!(Given::parse(&line).expect("it is passed over").value("v"), Some("4"));
    }

    #[test]
    fn whole_numbers_are_written_in_every_base_that_go_takes() {
        for (text, number) in
            [("14", 14), ("0x0e", 14), ("0o16", 14), ("016", 14), ("0b1110", 14), ("-0x10", -16), ("0", 0)]
        {
            assert_eq!(value(Kind::Int, text), Some(json!(number)), "{text}");
        }
    }

    #[test]
    fn lists_and_gates_are_separated_by_commas() {
        assert_eq!(value(Kind::Texts, "a, b,,c"), Some(json!(["a", "b", "c"])));
        assert_eq!(value(Kind::Texts, ""), Some(json!([])));
        assert_eq!(value(Kind::Gates, "A=true,B=0"), Some(json!({"A": true, "B": false})));
        assert_eq!(value(Kind::Vmodule, "a*=2"), Some(json!([{"filePattern": "a*", "verbosity": 2}])));
    }
}
