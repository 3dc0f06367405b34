//! Builds a JSON value from any format, within an allowance.
//!
//! In: a deserializer of YAML or JSON. Out: the value, or an error as soon as the allowance is spent, so that a small
//! file cannot become a large tree: aliases copy what they name, and each node costs far more than its byte of text.
//!
//! A key that stands twice is an error here, for both formats: whichever of the two won, half of the readers of the file
//! would be surprised. Where upstream reads the same file and takes the last, that is done and noted.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The fewest bytes of text for each key, scalar, list and map of a real manifest: compact JSON has about 5, and YAML more.
/// What is denser is made to cost memory.
const BYTES_PER_NODE_MIN: usize = 4;

/// Values that a file may hold however short it is, by aliases: about 10 MiB of memory.
const NODES_MIN: usize = 100_000;

/// What is said about more.
const TOO_MANY_VALUES: &str =
    "holds more values than a manifest of its length can: remove the part that is none";

/// What is said about aliases that copy too much.
pub(super) const TOO_MANY_ALIASES: &str =
    "its aliases make it many times larger than it is written: write out what they stand for";

/// Text that aliases may add to a file of any size.
const ALIASED_BYTES: usize = 64 * 1024;

/// What a file may still use.
#[derive(Debug)]
pub(super) struct Allowance {
    nodes: usize,
    bytes: usize,
    objection: Option<&'static str>,
    /// Keys that stood twice, where that is no error.
    twice: Option<Vec<String>>,
}

impl Allowance {
    /// The allowance of a file of so many bytes. Without aliases a value has no more text than its file; twice as much
    /// is room for escapes that are shorter than what they stand for.
    pub(super) fn of_file(bytes: usize) -> Self {
        Self {
            nodes: (bytes / BYTES_PER_NODE_MIN).saturating_add(NODES_MIN),
            bytes: bytes.saturating_mul(2).saturating_add(ALIASED_BYTES),
            objection: None,
            twice: None,
        }
    }

    /// Of a key that stands twice the last one counts, and it is noted.
    pub(super) fn noting_twice(self) -> Self {
        Self { twice: Some(Vec::new()), ..self }
    }

    /// The keys that were noted.
    pub(super) fn into_twice(self) -> Vec<String> {
        self.twice.unwrap_or_default()
    }

    /// Why building stopped, when it was not the parser that stopped it.
    pub(super) fn objection(&self) -> Option<&'static str> {
        self.objection
    }

    fn spend_node<E: Error>(&mut self) -> Result<(), E> {
        let left = self.nodes.checked_sub(1);
        self.nodes = left.ok_or_else(|| self.object(TOO_MANY_VALUES))?;
        Ok(())
    }

    fn spend_text<E: Error>(&mut self, text: &str) -> Result<(), E> {
        self.spend_node()?;
        let left = self.bytes.checked_sub(text.len());
        self.bytes = left.ok_or_else(|| self.object(TOO_MANY_ALIASES))?;
        Ok(())
    }

    fn object<E: Error>(&mut self, objection: &'static str) -> E {
        self.objection = Some(objection);
        E::custom(objection)
    }
}

impl<'de> DeserializeSeed<'de> for &mut Allowance {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Allowance {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false, null, a list or a map")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend_node()?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.spend_node()?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.spend_node()?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.spend_node()?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.spend_node()?;
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend_text(value)?;
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.spend_text(&value)?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.spend_node()?;
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(&mut *self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.spend_node()?;
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.spend_text(&key)?;
            if values.contains_key(&key) {
                let Some(twice) = &mut self.twice else {
                    return Err(A::Error::custom(format_args!("the key `{key}` stands twice: remove one")));
                };
                twice.push(key.clone());
            }
            let value = map.next_value_seed(&mut *self)?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}
