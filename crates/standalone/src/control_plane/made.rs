//! Facts of objects, and the objects that we make ourselves.

use model::facts::Fact;
use model::net::IpNet;
use model::object::Read;
use model::{Event, Family, ObjectRef, Report, ServiceName};
use serde_json::Value;

use crate::ipam::ranges::Ranges;
use crate::objects::{Kind, ObjectKey};

/// The ServiceCIDR object that stands for `--service-cidr`; a cluster has one of this name too.
const OUR_SERVICE_CIDR: &str = "kubernetes";

/// The fact that an object states; `None` for a Pod. `Err` when nothing of it can be used.
pub(super) fn fact_of(object: &Value) -> Result<Option<Fact>, Report> {
    match crate::objects::read(object) {
        Read::Fact(fact) => Ok(Some(fact)),
        Read::OtherKind => Ok(None),
        Read::Refused(report) => Err(report),
    }
}

pub(super) fn gone(key: &ObjectKey) -> Option<Event> {
    let name = || ServiceName::new(&key.namespace, &key.name);
    match key.kind {
        Kind::Service => Some(Event::DeleteService(name())),
        Kind::EndpointSlice => Some(Event::DeleteSlice(name())),
        Kind::Node => Some(Event::DeleteNode(key.name.clone())),
        Kind::ServiceCidr => Some(Event::DeleteServiceCidr(key.name.clone())),
        Kind::Pod => None,
    }
}

pub(super) fn key(kind: Kind, name: &ServiceName) -> ObjectKey {
    ObjectKey { kind, namespace: name.namespace().into(), name: name.name().into() }
}

pub(super) fn slice_key(service: &ServiceName, name: &str) -> ObjectKey {
    ObjectKey { kind: Kind::EndpointSlice, namespace: service.namespace().into(), name: name.into() }
}

pub(super) fn our_service_cidr_key() -> ObjectKey {
    ObjectKey { kind: Kind::ServiceCidr, namespace: "".into(), name: OUR_SERVICE_CIDR.into() }
}

pub(super) fn our_service_cidr(ranges: &Ranges) -> Value {
    let mut cidrs: Vec<IpNet> = ranges.service.iter().filter_map(|(_, net)| *net).collect();
    cidrs.sort_by_key(|net| Family::of_net(net) != ranges.default_family);
    let cidrs: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
    serde_json::json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": { "name": OUR_SERVICE_CIDR },
        "spec": { "cidrs": cidrs },
    })
}

pub(super) fn hides_ours(key: &ObjectKey, service: &ServiceName) -> Report {
    let object = ObjectRef::slice(&ServiceName::new(&key.namespace, &key.name));
    let problem = format!(
        "is also the name of a slice made for the selector of Service {service}; the one in the manifests counts. Rename \
         it, or take the selector away"
    );
    Report::new(object, "metadata.name", &key.name, problem)
}
