//! Label and field selectors, as far as service proxies use them.
//!
//! Labels: `key`, `!key`, `key=value`, `key!=value`, separated by commas. Fields: `path=value`, `path!=value`.

use serde_json::Value;

/// What a request wants to see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    wishes: Vec<Wish>,
}

#[derive(Clone, Debug)]
struct Wish {
    path: Vec<String>,
    value: Option<String>,
    is_negative: bool,
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn read(labels: &str, fields: &str) -> Self {
        let labels =
            parts(labels).map(|part| wish(part, |key| vec!["metadata".into(), "labels".into(), key.into()]));
        let fields = parts(fields).map(|part| wish(part, |key| key.split('.').map(Into::into).collect()));
        Self { wishes: labels.chain(fields).collect() }
    }

    /// Does it pick this object?
    pub(crate) fn picks(&self, object: &Value) -> bool {
        self.wishes.iter().all(|wish| wish.is_met(object))
    }
}

impl Wish {
    fn is_met(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str);
        let is_there = match &self.value {
            None => found.is_some(),
            Some(value) => found.unwrap_or_default() == value,
        };
        is_there != self.is_negative
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn wish(part: &str, path: impl Fn(&str) -> Vec<String>) -> Wish {
    if let Some((key, value)) = part.split_once("!=") {
        return Wish { path: path(key), value: Some(value.into()), is_negative: true };
    }
    if let Some((key, value)) = part.split_once('=') {
        return Wish {
            path: path(key),
            value: Some(value.trim_start_matches('=').into()),
            is_negative: false,
        };
    }
    let key = part.trim_start_matches('!');
    Wish { path: path(key), value: None, is_negative: part.starts_with('!') }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_pick_by_labels_and_fields() {
        let object =
            json!({"metadata": {"name": "a", "labels": {"x.io/y": "1"}}, "spec": {"clusterIP": "None"}});
        let picks = |labels, fields| Selector::read(labels, fields).picks(&object);
        assert!(picks("", "") && picks("x.io/y", "") && picks("x.io/y=1", "metadata.name=a"));
        assert!(!picks("!x.io/y", "") && !picks("x.io/y=2", "") && !picks("", "spec.clusterIP!=None"));
        assert!(picks("!other,x.io/y!=2", "metadata.name!=b"));
    }
}
