//! Events that clients write: made by POST, and patched by PATCH, as the documents of events.k8s.io/v1 say.
//!
//! The fields that an Event must have, and their lengths, are those that the real server refuses it for.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::http::{self, Request, Way};
use crate::lock;
use crate::refusal::refuse;
use crate::shared::Shared;

/// Where an Event lies: its namespace, and its name where it is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    namespace: String,
    name: Option<String>,
}

/// The place that this path names.
pub(crate) fn place(path: &str) -> Option<Place> {
    let rest = path.strip_prefix("/apis/events.k8s.io/v1/namespaces/")?;
    let (namespace, rest) = rest.split_once("/events")?;
    let name = match rest {
        "" => None,
        rest => Some(rest.strip_prefix('/')?.to_owned()),
    };
    Some(Place { namespace: namespace.to_owned(), name })
}

/// Answers a write.
pub(crate) fn answer(
    shared: &Shared,
    place: Place,
    request: &Request,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return refuse(out, 400, "BadRequest", "the object provided is unrecognized", &[]);
    };
    match (&*request.method, place.name) {
        ("POST", None) => make(shared, &place.namespace, body, out),
        ("PATCH", Some(name)) => patch(shared, &place.namespace, &name, &body, out),
        _ => refuse(out, 405, "MethodNotAllowed", "the server does not allow this method", &[]),
    }
}

fn make(shared: &Shared, namespace: &str, event: Value, out: &mut dyn Write) -> io::Result<()> {
    if let Some(wrong) = wrong_with(namespace, &event) {
        return refuse(out, 422, "Invalid", &format!("Event.events.k8s.io is invalid: {wrong}"), &[]);
    }
    let mut events = lock(&shared.events);
    if events.iter().any(|known| known["metadata"] == event["metadata"]) {
        return refuse(out, 409, "AlreadyExists", "it already exists", &[]);
    }
    let text = event.to_string();
    events.push(event);
    http::send(out, 201, &[], text.as_bytes(), Way::default())
}

fn patch(shared: &Shared, namespace: &str, name: &str, patch: &Value, out: &mut dyn Write) -> io::Result<()> {
    let mut events = lock(&shared.events);
    let metadata = json!({"name": name, "namespace": namespace});
    let Some(event) = events.iter_mut().find(|known| known["metadata"] == metadata) else {
        return refuse(out, 404, "NotFound", &format!("events.events.k8s.io \"{name}\" not found"), &[]);
    };
    for (field, value) in patch.as_object().into_iter().flatten() {
        event[field] = value.clone();
    }
    http::send(out, 200, &[], event.to_string().as_bytes(), Way::default())
}

/// What the real server would not accept.
fn wrong_with(namespace: &str, event: &Value) -> Option<String> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let limits = [("reportingController", 253), ("reportingInstance", 128), ("action", 128), ("reason", 128)];
    for (field, longest) in limits {
        if text(field).is_empty() || text(field).len() > longest {
            return Some(format!("{field}: Required value, at most {longest} characters"));
        }
    }
    let about = event["regarding"]["namespace"].as_str().unwrap_or("default");
    [
        (event["metadata"]["namespace"] != namespace, "metadata.namespace: does not match the path"),
        (about != namespace, "regarding.namespace: does not match event.namespace"),
        (text("eventTime").len() != "2026-01-31T12:00:00.000000Z".len(), "eventTime: Required value"),
        (text("note").len() > 1024, "note: can have at most 1024 characters"),
        (!matches!(text("type"), "Normal" | "Warning"), "type: has invalid value"),
        (
            !is_name(event["metadata"]["name"].as_str().unwrap_or_default()),
            "metadata.name: a lowercase RFC 1123 subdomain",
        ),
    ]
    .into_iter()
    .find_map(|(is_wrong, what)| is_wrong.then(|| what.to_owned()))
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty() && name.len() <= 253 && name.chars().all(|c| is_letter(c) || matches!(c, '-' | '.'))
}
