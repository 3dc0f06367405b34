//! What values of fields look like, and the words for one that looks otherwise.

use serde_json::Value;

use super::duration::GoDuration;

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits.
    Int,
    /// A number.
    Float,
    /// A time: `30s`.
    Duration,
    /// The same, or a whole number of nanoseconds.
    Nanoseconds,
    /// A list of texts.
    Texts,
    /// Names with `true` or `false`.
    Gates,
    /// A list of `filePattern` and `verbosity`.
    Vmodule,
    /// A size: `64Ki`.
    Quantity,
}

impl Kind {
    /// What is wrong with a value of a file, in words that go after its place.
    pub(super) fn objection(self, value: &Value) -> Option<String> {
        let is_right = match self {
            Kind::Text => value.is_string(),
            Kind::Bool => value.is_boolean(),
            Kind::Int => is_int(value),
            Kind::Float => value.is_number(),
            // A number without a unit would be nanoseconds, which nobody means.
            Kind::Duration => (value.is_string() || *value == 0) && GoDuration::of(value).is_some(),
            Kind::Nanoseconds => GoDuration::of(value).is_some(),
            Kind::Quantity => is_quantity(value),
            Kind::Texts => items(value).is_some_and(|items| items.iter().all(Value::is_string)),
            Kind::Gates => value.as_object().is_some_and(|gates| gates.values().all(Value::is_boolean)),
            Kind::Vmodule => items(value).is_some_and(|items| items.iter().all(is_module)),
        };
        (!is_right).then(|| format!("`{value}` is not {}", self.words()))
    }

    /// What it should look like.
    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::Text => "a text",
            Kind::Bool => "true or false",
            Kind::Int => "a whole number of 32 bits",
            Kind::Float => "a number",
            Kind::Duration => "a time such as `30s` or `1h30m`",
            Kind::Nanoseconds => "a time such as `5s`, or a number of nanoseconds",
            Kind::Quantity => "a size such as `0` or `64Ki`",
            Kind::Texts => "a list of texts",
            Kind::Gates => "a map of names to true or false",
            Kind::Vmodule => "a list of `filePattern` and `verbosity`",
        }
    }
}

fn items(value: &Value) -> Option<&Vec<Value>> {
    value.as_array()
}

fn is_int(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn is_module(value: &Value) -> bool {
    value.get("filePattern").is_some_and(Value::is_string) && value.get("verbosity").is_some_and(is_int)
}

/// Digits, perhaps with a fraction, and one of the units of Kubernetes.
fn is_quantity(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return value.is_u64() };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let units = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    digits.parse::<f64>().is_ok_and(|number| number >= 0.0) && units.contains(&unit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_of_another_kind_is_refused_in_words() {
        for (kind, value, is_right) in [
            (Kind::Text, json!("a"), true),
            (Kind::Text, json!(1), false),
            (Kind::Int, json!(2_147_483_648_i64), false),
            (Kind::Int, json!(1.5), false),
            (Kind::Duration, json!("1m"), true),
            (Kind::Duration, json!(0), true),
            (Kind::Duration, json!(30), false),
            (Kind::Nanoseconds, json!(5_000_000_000_i64), true),
            (Kind::Duration, json!("soon"), false),
            (Kind::Quantity, json!("64Ki"), true),
            (Kind::Quantity, json!("0"), true),
            (Kind::Quantity, json!("much"), false),
            (Kind::Texts, json!(["a"]), true),
            (Kind::Texts, json!(["a", 1]), false),
            (Kind::Gates, json!({"A": true}), true),
            (Kind::Gates, json!({"A": "true"}), false),
            (Kind::Vmodule, json!([{"filePattern": "a", "verbosity": 1}]), true),
            (Kind::Vmodule, json!([{"filePattern": "a"}]), false),
        ] {
            assert_eq!(kind.objection(&value).is_none(), is_right, "{kind:?} {value}");
        }
    }
}
