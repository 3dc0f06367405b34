//! What the loop has to say to the cluster, as Kubernetes Events.
//!
//! In: what happened. Out: reason, tone, what it is about, and a sentence. Reasons and actions are upstream's where upstream says
//! the same, so that alerts on them keep working. Without an API server they are a line at level debug.
//!
//! Absent on purpose: how they are sent. The loop hands them over and goes on.

use apiserver::{Announcement, Regarding, Tone};
use config::kubeproxy;
use dataplane::Mode;
use model::ServiceName;
use observe::listeners::Listener;

/// What we do while we start.
const STARTING: &str = "StartKubeProxy";

/// What is said at the start, in upstream's order.
pub(crate) fn greetings(mode: Mode, is_default_mode: bool) -> Vec<Announcement> {
    is_default_mode.then(|| default_mode(mode)).into_iter().chain([started()]).collect()
}

/// This portway has started.
fn started() -> Announcement {
    let (reason, note) = ("Starting", String::new());
    Announcement { reason, tone: Tone::Normal, action: STARTING, regarding: Regarding::Node, note }
}

/// Nobody chose a mode, and upstream's next default is another one.
fn default_mode(mode: Mode) -> Announcement {
    let note = kubeproxy::note_of_default(mode);
    Announcement {
        reason: "KubeProxyDefaultMode",
        tone: Tone::Warning,
        action: STARTING,
        regarding: Regarding::Node,
        note,
    }
}

/// Nobody can be answered at this port. Upstream says this of its own ports only before it gives up.
pub(crate) fn not_listening(node: &str, listener: &Listener, why: &str) -> Announcement {
    let of_node = |reason, name: &str| Announcement {
        reason,
        tone: Tone::Warning,
        action: STARTING,
        regarding: Regarding::Node,
        note: format!("failed to start {name} on {}: {why}", listener.address()),
    };
    match listener {
        Listener::Health(_) => of_node("FailedToStartProxierHealthcheck", "proxy healthz"),
        Listener::Metrics(_) => of_node("FailedToStartMetricServer", "the metrics server"),
        Listener::Balancers(service, address) => Announcement {
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
pub(crate) fn refused(service: ServiceName, note: String) -> Announcement {
    let regarding = Regarding::Service(service);
    Announcement { reason: "ServicePortRefused", tone: Tone::Warning, action: "Sync", regarding, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_check_that_cannot_be_answered_is_told_as_upstream_does() {
        let service = ServiceName::new("default", "web");
        let listener = Listener::Balancers(service.clone(), ([0, 0, 0, 0], 30000).into());
        let said = not_listening("a", &listener, "address in use");
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
        let said = not_listening("a", &listener, "address in use");
        assert_eq!((said.reason, said.action), ("FailedToStartMetricServer", "StartKubeProxy"));
        assert_eq!(said.regarding, Regarding::Node);
        assert_eq!(said.note, "failed to start the metrics server on 127.0.0.1:10249: address in use");
    }
}
