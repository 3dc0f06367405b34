//! `get nodes`: NAME STATUS ROLES AGE VERSION; wide: addresses and versions. In a cluster this node alone is watched, for its addresses.

use serde_json::Value;
use standalone::objects::Object;

use super::Style;
use crate::age;
use crate::kube::{NOT_KEPT, at, items, joined, text};
use crate::table::Table;
use crate::view::View;

const ROLE: &str = "node-role.kubernetes.io/";

/// The Nodes.
pub(super) fn table(view: &View, nodes: &[&Object], style: Style) -> Table {
    let usual = ["NAME", "STATUS", "ROLES", "AGE", "VERSION"];
    let wide = ["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"];
    let mut table = style.table(&usual, &wide);
    let kept = |text: String| if view.picture.is_trimmed() { NOT_KEPT.to_owned() } else { text };
    for node in nodes {
        let value = &node.value;
        let info = |field: &str, otherwise: &str| {
            kept(text(value, &format!("status.nodeInfo.{field}")).unwrap_or(otherwise).to_owned())
        };
        let usual = [
            node.key.name.to_string(),
            kept(status(value)),
            kept(roles(value)),
            kept(age::of(value, view.now)),
            info("kubeletVersion", "<none>"),
        ];
        let wide = [
            address(value, "InternalIP"),
            kept(address(value, "ExternalIP")),
            info("osImage", "<unknown>"),
            info("kernelVersion", "<unknown>"),
            info("containerRuntimeVersion", "<unknown>"),
        ];
        table.push(style.row(node, usual, wide));
    }
    table
}

fn status(node: &Value) -> String {
    let ready = items(node, "status.conditions").iter().find(|item| text(item, "type") == Some("Ready"));
    let word = match ready.and_then(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_closed = at(node, "spec.unschedulable").and_then(Value::as_bool) == Some(true);
    format!("{word}{}", if is_closed { ",SchedulingDisabled" } else { "" })
}

fn roles(node: &Value) -> String {
    let labels = at(node, "metadata.labels").and_then(Value::as_object);
    let roles: Vec<&str> =
        labels.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix(ROLE)).collect();
    joined(&roles)
}

fn address(node: &Value, kind: &str) -> String {
    let found = items(node, "status.addresses").iter().find(|item| text(item, "type") == Some(kind));
    found.and_then(|item| text(item, "address")).unwrap_or("<none>").to_owned()
}
