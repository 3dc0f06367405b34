//! An Event as JSON: events.k8s.io/v1, in the words of upstream's recorder.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Announcement, Regarding, Tone};

/// Alerts know kube-proxy's Events by this.
const CONTROLLER: &str = "kube-proxy";
/// What the server accepts of a note, in bytes, and of an instance.
const NOTE_MAX: usize = 1024;
const INSTANCE_MAX: usize = 128;

/// An Event that goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) said: Announcement,
    /// A number that no other has.
    pub(super) stamp: i128,
    pub(super) first: Timestamp,
    /// It was said more than once.
    pub(super) series: Option<Series>,
}

/// How often it was said, and when last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) count: u64,
    pub(super) last: Timestamp,
}

impl Letter {
    /// The path under which Events of its namespace are made.
    pub(super) fn path(&self) -> String {
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace())
    }

    /// The path of the Event itself.
    pub(super) fn own_path(&self, node: &str) -> String {
        format!("{}/{}", self.path(), self.name(node))
    }

    /// The whole Event.
    pub(super) fn event(&self, node: &str) -> Value {
        let said = &self.said;
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": self.name(node), "namespace": self.namespace()},
            "eventTime": micro(self.first),
            "reportingController": CONTROLLER,
            "reportingInstance": cut(&format!("{CONTROLLER}-{node}"), INSTANCE_MAX),
            "action": said.action, "reason": said.reason, "note": cut(&said.note, NOTE_MAX),
            "type": match said.tone { Tone::Normal => "Normal", Tone::Warning => "Warning" },
            "regarding": self.regarding(node),
        });
        if let Some(series) = self.series_value() {
            event["series"] = series;
        }
        event
    }

    /// What changes in an Event that is there.
    pub(super) fn patch(&self) -> Option<Value> {
        self.series_value().map(|series| json!({"series": series}))
    }

    fn series_value(&self) -> Option<Value> {
        let Series { count, last } = self.series?;
        Some(json!({"count": count, "lastObservedTime": micro(last)}))
    }

    /// What has no namespace is told of in `default`.
    fn namespace(&self) -> &str {
        match &self.said.regarding {
            Regarding::Node => "default",
            Regarding::Service(service) => service.namespace(),
        }
    }

    fn name(&self, node: &str) -> String {
        let about = match &self.said.regarding {
            Regarding::Node => node,
            Regarding::Service(service) => service.name(),
        };
        format!("{about}.{:x}", self.stamp)
    }

    /// As upstream writes it since 1.35: with the version of the API, and without a `uid`, which neither knows.
    fn regarding(&self, node: &str) -> Value {
        match &self.said.regarding {
            Regarding::Node => json!({"apiVersion": "v1", "kind": "Node", "name": node}),
            Regarding::Service(service) => json!({
                "apiVersion": "v1", "kind": "Service", "namespace": service.namespace(), "name": service.name(),
            }),
        }
    }
}

/// Times of the kind `MicroTime`.
fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ServiceName;

    fn letter(regarding: Regarding, series: Option<Series>) -> Letter {
        let said = Announcement {
            reason: "FailedToStartServiceHealthcheck",
            tone: Tone::Warning,
            action: "Listen",
            regarding,
            note: "ü".repeat(600),
        };
        Letter { said, stamp: 0x17_0000, first: Timestamp::UNIX_EPOCH, series }
    }

    #[test]
    fn an_event_has_the_fields_that_upstreams_recorder_writes() {
        let event = letter(Regarding::Service(ServiceName::new("shop", "web")), None).event("a");
        assert_eq!(
            event["metadata"],
            json!({"name": "web.170000", "namespace": "shop"}),
            "the namespace is that of the Service"
        );
        assert_eq!(event["eventTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            event["regarding"],
            json!({"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web"})
        );
        assert_eq!((&event["type"], &event["series"]), (&json!("Warning"), &Value::Null));
        assert_eq!(event["reportingInstance"], "kube-proxy-a");
        assert_eq!(event["note"].as_str().unwrap().len(), NOTE_MAX, "no more is accepted");
    }

    #[test]
    fn a_node_has_no_namespace_and_its_events_are_in_default() {
        let letter = letter(Regarding::Node, Some(Series { count: 7, last: Timestamp::UNIX_EPOCH }));
        assert_eq!(letter.own_path("a"), "/apis/events.k8s.io/v1/namespaces/default/events/a.170000");
        assert_eq!(letter.event("a")["regarding"], json!({"apiVersion": "v1", "kind": "Node", "name": "a"}));
        assert_eq!(letter.event("a")["series"]["count"], 7);
        assert_eq!(letter.patch().unwrap()["series"], letter.event("a")["series"]);
    }
}
