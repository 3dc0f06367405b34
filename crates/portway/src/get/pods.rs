//! `get pods`: NAME READY STATUS RESTARTS AGE; wide: IP NODE NOMINATED NODE READINESS GATES.
//!
//! Manifests often have no status. Then a Pod with an address counts as running and ready, as it does for its endpoints.

use model::time::Timestamp;
use serde_json::Value;
use standalone::objects::Object;

use super::Style;
use crate::age;
use crate::kube::{at, items, number, pod_ips, text};
use crate::table::Table;
use crate::view::View;

/// The Pods.
pub(super) fn table(view: &View, pods: &[&Object], style: Style) -> Table {
    let usual = ["NAME", "READY", "STATUS", "RESTARTS", "AGE"];
    let mut table = style.table(&usual, &["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]);
    for pod in pods {
        let value = &pod.value;
        let usual = [
            pod.key.name.to_string(),
            ready(value),
            status(value),
            restarts(value).to_string(),
            age::of(value, view.now),
        ];
        let or_none = |text: Option<&str>| text.unwrap_or("<none>").to_owned();
        let wide = [
            or_none(pod_ips(value).first().copied()),
            or_none(text(value, "spec.nodeName")),
            or_none(text(value, "status.nominatedNodeName")),
            readiness_gates(value),
        ];
        table.push(style.row(pod, usual, wide));
    }
    table
}

/// `1/1`: ready containers of all containers.
fn ready(pod: &Value) -> String {
    let statuses = items(pod, "status.containerStatuses");
    let all = items(pod, "spec.containers").len().max(statuses.len()).max(1);
    let is_ready = |status: &&Value| at(status, "ready").and_then(Value::as_bool) == Some(true);
    let ready = match statuses {
        [] if has_ready_condition(pod) && !has_ended(pod) => all,
        [] => 0,
        _ => statuses.iter().filter(is_ready).count(),
    };
    format!("{ready}/{all}")
}

/// The condition `Ready`; a Pod without it is ready when it has an address.
fn has_ready_condition(pod: &Value) -> bool {
    match condition(pod, "Ready") {
        Some(status) => status == "True",
        None => !pod_ips(pod).is_empty(),
    }
}

/// Nothing of it runs any more.
fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "status.phase"), Some("Succeeded" | "Failed"))
}

/// The status of a condition.
fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = items(pod, "status.conditions");
    conditions.iter().find(|item| text(item, "type") == Some(kind)).and_then(|item| text(item, "status"))
}

/// Terminating, why a container waits, the reason, the phase: the first of them that is there.
fn status(pod: &Value) -> String {
    if text(pod, "metadata.deletionTimestamp").and_then(Timestamp::parse).is_some() {
        return "Terminating".to_owned();
    }
    let waiting = items(pod, "status.containerStatuses").iter().find_map(|status| {
        text(status, "state.waiting.reason").or_else(|| text(status, "state.terminated.reason"))
    });
    let by_address = if pod_ips(pod).is_empty() { "Pending" } else { "Running" };
    let phase = text(pod, "status.phase").map(|phase| match phase {
        // What the statuses of containers would say.
        "Succeeded" => "Completed",
        "Failed" => "Error",
        other => other,
    });
    waiting.or_else(|| text(pod, "status.reason")).or(phase).unwrap_or(by_address).to_owned()
}

fn restarts(pod: &Value) -> u64 {
    items(pod, "status.containerStatuses").iter().map(|status| number(status, "restartCount")).sum()
}

/// `1/2`: conditions that are true of those that count, or `<none>`.
fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "spec.readinessGates");
    let is_true =
        |gate: &&Value| text(gate, "conditionType").and_then(|kind| condition(pod, kind)) == Some("True");
    match gates.len() {
        0 => "<none>".to_owned(),
        all => format!("{}/{all}", gates.iter().filter(is_true).count()),
    }
}
