//! `get services`: NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE; wide: SELECTOR.

use serde_json::Value;
use standalone::objects::Object;

use super::Style;
use crate::age;
use crate::kube::{NOT_KEPT, Port, cluster_ips, external_ips, ingress, joined, selector, service_type, text};
use crate::table::Table;
use crate::view::View;

/// The Services.
pub(super) fn table(view: &View, services: &[&Object], style: Style) -> Table {
    let usual = ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"];
    let mut table = style.table(&usual, &["SELECTOR"]);
    let is_trimmed = view.picture.is_trimmed();
    for service in services {
        let value = &service.value;
        let selector = if is_trimmed { NOT_KEPT.to_owned() } else { selector(value) };
        let usual = [
            service.key.name.to_string(),
            service_type(value).to_owned(),
            cluster_ip(value, is_trimmed),
            external_ip(value, is_trimmed),
            ports(value),
            age::of(value, view.now),
        ];
        table.push(style.row(service, usual, [selector]));
    }
    table
}

/// The first one, as kubectl shows it. Which of two that is, is not kept in a cluster: there they are both shown.
fn cluster_ip(service: &Value, is_trimmed: bool) -> String {
    let ips = cluster_ips(service);
    joined(if is_trimmed { &ips } else { &ips[..ips.len().min(1)] })
}

/// kubectl's rule: what a load balancer gave, then `spec.externalIPs`; a load balancer that gave nothing yet is pending. Names are not
/// kept in a cluster, neither those of load balancers nor those elsewhere.
fn external_ip(service: &Value, is_trimmed: bool) -> String {
    let external_ips = external_ips(service);
    match service_type(service) {
        "ExternalName" if is_trimmed => NOT_KEPT.to_owned(),
        "ExternalName" => text(service, "spec.externalName").unwrap_or("<none>").to_owned(),
        "LoadBalancer" => match [ingress(service), external_ips].concat() {
            all if all.is_empty() => if is_trimmed { "<no IP>" } else { "<pending>" }.to_owned(),
            all => joined(&all),
        },
        _ => joined(&external_ips),
    }
}

/// `80:30080/TCP,443/TCP`.
fn ports(service: &Value) -> String {
    let show = |port: &Port<'_>| match port.node_port() {
        Some(node_port) => format!("{}:{node_port}/{}", port.number(), port.protocol()),
        None => format!("{}/{}", port.number(), port.protocol()),
    };
    joined(&Port::all(service).iter().map(show).collect::<Vec<_>>())
}
