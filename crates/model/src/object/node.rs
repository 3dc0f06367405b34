//! A Node object → [`Node`], a ServiceCIDR object → [`ServiceCidr`].

use serde_json::Value;

use super::{Field, Reader, plain_name};
use crate::facts::{Node, ServiceCidr};
use crate::name::ObjectRef;
use crate::report::Report;

/// Reads a Node. Only one without a usable name is refused.
pub(super) fn read(object: &Value) -> Result<Node, Report> {
    let name = plain_name("Node", object)?;
    let reader = Reader::new(ObjectRef { kind: "Node", name: name.into() });
    let root = reader.root(object);
    let (metadata, spec, status) = (root.at("metadata"), root.at("spec"), root.at("status"));
    let labels = metadata.at("labels");
    let zone = labels.at("topology.kubernetes.io/zone").text().map(Box::from);
    let (addresses, pod_cidrs) = (addresses(&status.at("addresses")), pod_cidrs(&spec));
    let is_leaving = metadata.at("deletionTimestamp").is_there() || has_leaving_taint(&spec.at("taints"));
    Ok(Node { name: name.into(), zone, addresses, pod_cidrs, is_leaving, reports: reader.into_reports() })
}

/// The cluster autoscaler marks a Node that it will remove.
fn has_leaving_taint(taints: &Field<'_>) -> bool {
    taints.items().any(|taint| taint.at("key").text() == Some("ToBeDeletedByClusterAutoscaler"))
}

/// Internal addresses first, then external ones, each in the order of the object.
fn addresses(list: &Field<'_>) -> Vec<std::net::IpAddr> {
    let of_type = |wanted: &str| -> Vec<_> {
        let is_wanted = |item: &Field<'_>| item.at("type").text() == Some(wanted);
        list.items().filter(is_wanted).filter_map(|item| item.at("address").ip()).collect()
    };
    [of_type("InternalIP"), of_type("ExternalIP")].concat()
}

/// `podCIDRs`, or `podCIDR` where that list is missing.
fn pod_cidrs(spec: &Field<'_>) -> Vec<crate::net::IpNet> {
    let list = spec.at("podCIDRs");
    let cidrs: Vec<_> = list.items().filter_map(|item| item.cidr()).collect();
    if cidrs.is_empty() { spec.at("podCIDR").cidr().into_iter().collect() } else { cidrs }
}

/// Reads a ServiceCIDR. Only one without a usable name is refused.
pub(super) fn read_service_cidr(object: &Value) -> Result<ServiceCidr, Report> {
    let name = plain_name("ServiceCIDR", object)?;
    let reader = Reader::new(ObjectRef { kind: "ServiceCIDR", name: name.into() });
    let root = reader.root(object);
    let spec = root.at("spec");
    let list = spec.at("cidrs");
    let cidrs = list.items().filter_map(|item| item.cidr()).collect();
    Ok(ServiceCidr { name: name.into(), cidrs, reports: reader.into_reports() })
}
