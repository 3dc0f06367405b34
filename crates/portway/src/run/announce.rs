//! What the loop has to say to the cluster: a Kubernetes Event, as a value.
//!
//! In: what happened. Out: reason, tone, what it is about, and a sentence. Reasons and actions are upstream's where upstream says
//! the same, so that alerts on them keep working.
//!
//! Absent on purpose: the API server. Who has one sends these; without one they are a line at level debug.

use model::ServiceName;

use super::listeners::Listener;

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Why, in one word: `reason`.
    pub reason: &'static str,
    /// How it is meant: `type`.
    pub tone: Tone,
    /// What was being done: `action`.
    pub action: &'static str,
    /// What it is about.
    pub regarding: Regarding,
    /// The sentence: `note`.
    pub note: String,
}

/// How something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// For information.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    /// This node.
    Node,
    /// A Service.
    Service(ServiceName),
}

/// What we do while we start.
const STARTING: &str = "StartKubeProxy";

impl Announcement {
    /// Without an API server, nobody else hears it.
    pub(super) fn log(&self) {
        tracing::debug!(reason = self.reason, regarding = ?self.regarding, "{}", self.note);
    }

    /// This portway has started.
    pub fn started() -> Self {
        let (reason, note) = ("Starting", String::new());
        Self { reason, tone: Tone::Normal, action: STARTING, regarding: Regarding::Node, note }
    }

    /// Nobody can be answered at this port. Upstream says this of its own ports only before it gives up.
    pub fn not_listening(node: &str, listener: &Listener, why: &str) -> Self {
        let of_node = |reason, name: &str| Self {
            reason,
            tone: Tone::Warning,
            action: STARTING,
            regarding: Regarding::Node,
            note: format!("failed to start {name} on {}: {why}", listener.address()),
        };
        match listener {
            Listener::Health(_) => of_node("FailedToStartProxierHealthcheck", "proxy healthz"),
            Listener::Metrics(_) => of_node("FailedToStartMetricServer", "the metrics server"),
            Listener::Balancers(service, address) => Self {
                reason: "FailedToStartServiceHealthcheck",
                tone: Tone::Warning,
                action: "Listen",
                regarding: Regarding::Service(service.clone()),
                note: format!(
                    "node {node} failed to start healthcheck \"{service}\" on port {}: {why}",
                    address.port()
                ),
            },
        }
    }

    /// The kernel refused a port of this Service. Upstream has no such Event: there, one refusal stops all Services.
    pub fn refused(service: ServiceName, note: String) -> Self {
        let regarding = Regarding::Service(service);
        Self { reason: "ServicePortRefused", tone: Tone::Warning, action: "Sync", regarding, note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_check_that_cannot_be_answered_is_told_as_upstream_does() {
        let service = ServiceName::new("default", "web");
        let listener = Listener::Balancers(service.clone(), ([0, 0, 0, 0], 30000).into());
        let said = Announcement::not_listening("a", &listener, "address in use");
        assert_eq!((said.reason, said.action), ("FailedToStartServiceHealthcheck", "Listen"));
        assert_eq!((said.tone, said.regarding), (Tone::Warning, Regarding::Service(service)));
        assert_eq!(
            said.note,
            "node a failed to start healthcheck \"default/web\" on port 30000: address in use"
        );
    }

    #[test]
    fn our_own_ports_are_told_of_the_node() {
        let listener = Listener::Metrics(([127, 0, 0, 1], 10249).into());
        let said = Announcement::not_listening("a", &listener, "address in use");
        assert_eq!((said.reason, said.action), ("FailedToStartMetricServer", "StartKubeProxy"));
        assert_eq!(said.regarding, Regarding::Node);
        assert_eq!(said.note, "failed to start the metrics server on 127.0.0.1:10249: address in use");
    }
}
