//! Objects as JSON or YAML.

use clap::ValueEnum;
use serde_json::{Value, json};
use standalone::objects::Object;

use super::said::Failure;

/// `-o`: a table with more columns, or a format in which a program can read the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Wide,
    Json,
    Yaml,
}

/// A format in which a program can read the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Structured {
    Json,
    Yaml,
}

impl Format {
    /// The format, unless it is a table.
    pub(super) fn structured(self) -> Option<Structured> {
        match self {
            Format::Wide => None,
            Format::Json => Some(Structured::Json),
            Format::Yaml => Some(Structured::Yaml),
        }
    }
}

/// The one object that was asked for by name, or a `List` of all that were found.
pub(super) fn objects(objects: &[&Object], is_one: bool, format: Structured) -> Result<String, Failure> {
    match objects {
        [object] if is_one => value(&in_its_namespace(object), format),
        _ => list(&objects.iter().map(|object| in_its_namespace(object)).collect::<Vec<_>>(), format),
    }
}

/// The object, with the namespace that it is in where its manifest leaves that to be understood.
fn in_its_namespace(object: &Object) -> Value {
    let mut value = (*object.value).clone();
    if object.key.kind.is_namespaced()
        && let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("namespace".to_owned(), (&*object.key.namespace).into());
    }
    value
}

/// A `List`.
pub(super) fn list(items: &[Value], format: Structured) -> Result<String, Failure> {
    value(&json!({ "apiVersion": "v1", "kind": "List", "items": items }), format)
}

/// Any value.
pub(super) fn value(value: &Value, format: Structured) -> Result<String, Failure> {
    match format {
        Structured::Json => Ok(format!("{value:#}\n")),
        Structured::Yaml => serde_saphyr::to_string(value)
            .map_err(|error| Failure::refused(format!("cannot write this as YAML: {error}; try `-o json`"))),
    }
}
