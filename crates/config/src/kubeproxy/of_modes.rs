//! Settings of modes in the document: each has its field, so nothing here names one.
//!
//! In: a document, or the values that a run has. Out: the other. Upstream's fixed sections map onto the settings of our modes by the
//! paths of their fields.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use dataplane::settings::{Kind, Setting, Values, milliseconds};
use dataplane::{LocalhostNodePorts, MASQUERADE_BIT, Mode, ModeSettings, registry, settings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::Document;
use super::duration::GoDuration;
use super::fields::{Change, Field, Status};
use super::kind;

/// What an empty mode means, as upstream.
pub fn default_mode() -> Mode {
    Mode::named("iptables").unwrap_or_else(registry::default_mode)
}

/// The mode and all that this document chooses for it.
pub(super) fn mode_settings(document: &Document, mode: Mode) -> ModeSettings {
    // `localhostNodePorts` is served by listening, without `route_localnet`.
    let section = mode.sections().localhost;
    let is_off = section.is_some_and(|section| json!(document)[section]["localhostNodePorts"] == false);
    let bit = masquerade(document, mode)["masqueradeBit"].as_u64();
    ModeSettings {
        mode,
        localhost_node_ports: if is_off {
            LocalhostNodePorts::Nowhere
        } else {
            LocalhostNodePorts::Listening
        },
        masquerade_bit: bit.and_then(|bit| u8::try_from(bit).ok()).unwrap_or(MASQUERADE_BIT),
        own: values_of(document, mode),
    }
}

/// The section that says whose source is hidden.
pub(super) fn masquerade(document: &Document, mode: Mode) -> Value {
    json!(document).get(mode.sections().masquerade).cloned().unwrap_or_default()
}

/// The mode's own settings.
pub fn values_of(document: &Document, mode: Mode) -> Values {
    let document = json!(document);
    let mut values = Values::default();
    for (setting, field) in fields_of(mode) {
        let texts = texts(setting, at(&document, field.path));
        if !texts.is_empty() {
            values.set(setting.flag, texts);
        }
    }
    values
}

fn texts(setting: &Setting, value: &Value) -> Vec<String> {
    let text = |value: &Value| match (setting.kind, value) {
        (_, Value::Bool(is_on)) => Some(is_on.to_string()),
        (Kind::Time, value) => GoDuration::of(value).map(|time| milliseconds(time.duration())),
        (_, Value::String(text)) if !text.is_empty() => setting.kind.parse(text).ok(),
        _ => None,
    };
    match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        value => text(value).into_iter().collect(),
    }
}

/// The mode's own settings as a document shows them, by the section of the mode.
pub fn section_of(settings: &ModeSettings) -> Value {
    let mut section = json!({});
    for (setting, field) in fields_of(settings.mode) {
        let Some((_, name)) = field.path.split_once('.') else { continue };
        section[name] = shown(setting, &settings.own);
    }
    section
}

fn shown(setting: &Setting, values: &Values) -> Value {
    match setting.kind {
        Kind::Switch => json!(values.is_on(setting.flag)),
        Kind::Time => json!(GoDuration::from(values.time(setting.flag).unwrap_or_default()).to_string()),
        Kind::Text { .. } | Kind::Word { .. } => json!(values.text(setting.flag).unwrap_or_default()),
        Kind::List { .. } => json!(values.list(setting.flag).collect::<Vec<_>>()),
    }
}

/// What is wrong with the settings of a mode: the place of the field, the value, and what it must be.
pub(super) fn objections(document: &Document, mode: Mode) -> Vec<(String, Value, String)> {
    let document = json!(document);
    let mut found = Vec::new();
    for (setting, field) in fields_of(mode) {
        let value = at(&document, field.path);
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let objection = objection(setting, field, item);
                    found.extend(
                        objection.map(|must| (format!("{}[{index}]", field.path), item.clone(), must)),
                    );
                }
            }
            value => {
                let objection = objection(setting, field, value);
                found.extend(objection.map(|must| (field.path.to_owned(), value.clone(), must)));
            }
        }
    }
    found
}

fn objection(setting: &Setting, field: settings::Field, value: &Value) -> Option<String> {
    let must = |otherwise: String| field.must.map_or(otherwise, str::to_owned);
    match (setting.kind, value) {
        (Kind::Time, value) => {
            let is_right = GoDuration::of(value).is_some_and(|time| time.0 >= 0);
            (!is_right).then(|| must("must be greater than or equal to 0".to_owned()))
        }
        (Kind::List { .. }, Value::String(text)) if text.contains(char::is_whitespace) => {
            Some(must("must have no blank".to_owned()))
        }
        (_, Value::String(text)) if !text.is_empty() || matches!(setting.kind, Kind::List { .. }) => {
            setting.kind.parse(text).err().map(must)
        }
        _ => None,
    }
}

fn fields_of(mode: Mode) -> impl Iterator<Item = (&'static Setting, settings::Field)> {
    mode.settings().iter().filter_map(|setting| Some((setting, setting.field?)))
}

fn at<'a>(document: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(document, |value, name| value.get(name)).unwrap_or(&Value::Null)
}

/// Upstream's sections of modes, each with fields of its own.
const OF_UPSTREAM: [&str; 3] = ["iptables", "ipvs", "nftables"];

/// Whether a field is in a section of a mode that upstream does not have.
#[cfg(test)]
pub(super) fn is_of_an_own_section(path: &str) -> bool {
    let section = path.split_once('.').map(|(section, _)| section);
    let is_of_a_mode = registry::MODES.iter().any(|mode| mode.has_field(path));
    is_of_a_mode && section.is_some_and(|section| !OF_UPSTREAM.contains(&section))
}

/// The sections of modes that upstream does not have: their fields and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModeSections(BTreeMap<String, Value>);

impl ModeSections {
    /// Leaves out what is no section of a mode, and gives each field that is missing the value of nothing.
    pub(super) fn complete(&mut self) {
        let given = std::mem::take(self);
        for (name, section) in &mut self.0 {
            let fields = given.0.get(name).and_then(Value::as_object).into_iter().flatten();
            for (field, value) in fields.filter(|(_, value)| !value.is_null()) {
                section[field] = value.clone();
            }
        }
    }
}

impl Default for ModeSections {
    fn default() -> Self {
        let mut sections = BTreeMap::new();
        for (setting, field) in registry::MODES.iter().flat_map(|mode| fields_of(*mode)) {
            if let Some((section, name)) = field.path.split_once('.')
                && !OF_UPSTREAM.contains(&section)
            {
                let section: &mut Value = sections.entry(section.to_owned()).or_insert_with(|| json!({}));
                section[name] = shown(setting, &Values::default());
            }
        }
        Self(sections)
    }
}

/// The fields of the sections of all modes, as rows of the table of fields.
pub(super) static FIELDS_OF_MODES: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let row = |setting: &Setting, field: settings::Field| Field {
        path: field.path,
        kind: match setting.kind {
            Kind::Switch => kind::Kind::Bool,
            Kind::Time => kind::Kind::Duration,
            Kind::Text { .. } | Kind::Word { .. } => kind::Kind::Text,
            Kind::List { .. } => kind::Kind::Texts,
        },
        change: Change::Restart,
        status: if field.is_better { Status::Better } else { Status::Same },
        why: field.why,
    };
    let all = registry::MODES.iter().flat_map(|mode| fields_of(*mode));
    all.filter(|(_, field)| field.path.contains('.')).map(|(setting, field)| row(setting, field)).collect()
});
