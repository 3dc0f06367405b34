//! `get services`: NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE; wide: SELECTOR.

use serde_json::Value;

use super::Style;
use crate::cli::age;
use crate::cli::kube::{Port, cluster_ips, external_ips, ingress, joined, selector, service_type, text};
use crate::cli::table::Table;
use crate::cli::view::View;
use crate::objects::Object;

/// The Services.
pub(super) fn table(view: &View, services: &[&Object], style: Style) -> Table {
    let usual = ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"];
    let mut table = style.table(&usual, &["SELECTOR"]);
    for service in services {
        let value = &service.value;
        let usual = [
            service.key.name.to_string(),
            service_type(value).to_owned(),
            cluster_ips(value).first().map_or("<none>", |ip| ip).to_owned(),
            external_ip(value),
            ports(value),
            age::of(value, view.now),
        ];
        table.push(style.row(service, usual, [selector(value)]));
    }
    table
}

/// kubectl's rule: what a load balancer gave, then `spec.externalIPs`; a load balancer that gave nothing yet is pending.
fn external_ip(service: &Value) -> String {
    let external_ips = external_ips(service);
    match service_type(service) {
        "ExternalName" => text(service, "spec.externalName").unwrap_or("<none>").to_owned(),
        "LoadBalancer" => match [ingress(service), external_ips].concat() {
            all if all.is_empty() => "<pending>".to_owned(),
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
