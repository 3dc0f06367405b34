//! Short ways into JSON values that may have any shape. What has the wrong shape is absent here; the model reports it.

use serde_json::Value;

/// The entries of a list; none when it is something else.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text here; an empty one is as good as none.
pub(crate) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The port number here.
pub(crate) fn port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| *n != 0)
}

/// The object's field `key` as an object, made where it is absent. `None` when something else stands there.
pub(crate) fn object<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let field = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(serde_json::Map::new());
    }
    field.is_object().then_some(field)
}

/// Takes the field `key` away.
pub(crate) fn remove(value: &mut Value, key: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(key);
    }
}
