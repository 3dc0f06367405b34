//! Objects: read into facts at once, so that nothing else of them is kept.

use std::borrow::Cow;
use std::fmt;

use model::facts::Fact;
use model::object::Read;
use model::{Event, Family, Report, ServiceName};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::news::{Trigger, Watched};

/// Fields that decide nothing and are often longer than the rest.
const LEFT_OUT: [&str; 3] = ["managedFields", "ownerReferences", "images"];

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// Of one in a namespace; the string is the model's own, so it is there once.
    Namespaced(ServiceName),
    /// Of one in none.
    Plain(Box<str>),
}

/// An object that was read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) name: Name,
    pub(crate) version: Option<u64>,
    pub(crate) fact: Fact,
    /// When what it tells of happened.
    pub(crate) trigger: Option<Trigger>,
}

/// Reads an object of this kind.
pub(crate) fn read(of: Watched, object: &Value) -> Result<Seen, Report> {
    let version = version_of(object);
    match model::object::read_as(of.kind(), object) {
        Read::Fact(fact) => {
            let trigger = trigger(of, object);
            Ok(Seen { name: name_of(&fact), version: number(version), fact, trigger })
        }
        Read::Refused(report) => Err(report),
        Read::OtherKind => Err(Report::new(
            model::ObjectRef { kind: of.kind(), name: "(unknown)".into() },
            "kind",
            "",
            "is no kind that decides packets; the object is left out",
        )),
    }
}

/// The controller of slices writes here when what a slice tells of has happened.
fn trigger(of: Watched, object: &Value) -> Option<Trigger> {
    if of != Watched::EndpointSlices {
        return None;
    }
    let family = match object.get("addressType").and_then(Value::as_str)? {
        "IPv4" => Family::V4,
        "IPv6" => Family::V6,
        _ => return None,
    };
    let written = object.get("metadata")?.get("annotations")?.get(TRIGGER)?.as_str()?;
    written.parse().ok().map(|at| (family, at))
}

/// The version of an object, a list or a bookmark; empty when it has none.
pub(crate) fn version_of(object: &Value) -> &str {
    object.get("metadata").and_then(|m| m.get("resourceVersion")).and_then(Value::as_str).unwrap_or_default()
}

/// Versions are numbers that grow, also by Kubernetes' word (KEP-5504). One that is none cannot be compared.
pub(crate) fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// The event that an object is gone.
pub(crate) fn gone(of: Watched, name: Name) -> Event {
    match (of, name) {
        (Watched::Services, Name::Namespaced(name)) => Event::DeleteService(name),
        (_, Name::Namespaced(name)) => Event::DeleteSlice(name),
        (Watched::Node, Name::Plain(name)) => Event::DeleteNode(name),
        (_, Name::Plain(name)) => Event::DeleteServiceCidr(name),
    }
}

fn name_of(fact: &Fact) -> Name {
    match fact {
        Fact::Service(service) => Name::Namespaced(service.name.clone()),
        Fact::EndpointSlice(slice) => Name::Namespaced(slice.name.clone()),
        Fact::Node(node) => Name::Plain(node.name.clone()),
        Fact::ServiceCidr(cidr) => Name::Plain(cidr.name.clone()),
    }
}

/// Any JSON value, without the fields that are left out.
#[derive(Debug, Default)]
pub(crate) struct Pruned(pub(crate) Value);

impl<'de> Deserialize<'de> for Pruned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Pruning).map(Pruned)
    }
}

struct Pruning;

impl<'de> Visitor<'de> for Pruning {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<Cow<'de, str>>()? {
            if LEFT_OUT.contains(&&*key) {
                access.next_value::<IgnoredAny>()?;
            } else {
                map.insert(key.into_owned(), access.next_value::<Pruned>()?.0);
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Pruned>()? {
            items.push(item.0);
        }
        Ok(Value::Array(items))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_decides_nothing_is_not_even_parsed_into_memory() {
        let text =
            r#"{"metadata": {"name": "a", "managedFields": [{"x": 1}]}, "n": [1, -2, 0.5, true, null, "x"]}"#;
        let Pruned(value) = serde_json::from_str(text).unwrap();
        assert_eq!(value, json!({"metadata": {"name": "a"}, "n": [1, -2, 0.5, true, null, "x"]}));
    }

    #[test]
    fn an_object_in_a_list_needs_no_kind() {
        let seen =
            read(Watched::Services, &json!({"metadata": {"name": "web", "resourceVersion": "7"}})).unwrap();
        assert_eq!(
            (seen.name, seen.version),
            (Name::Namespaced(ServiceName::new("default", "web")), Some(7))
        );
    }

    #[test]
    fn an_object_without_a_name_is_reported() {
        for strange in [json!(null), json!(7), json!({"metadata": "x"}), json!({"metadata": {"name": ["a"]}})]
        {
            let report = read(Watched::Node, &strange).unwrap_err();
            assert_eq!(&*report.field, "metadata.name", "{strange}");
        }
    }
}
