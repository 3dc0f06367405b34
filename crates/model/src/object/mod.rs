//! Kubernetes objects, as JSON values, → facts.
//!
//! Every source reads objects here, so that all of them forgive the same mistakes: the good part of an object is kept, the
//! bad part is reported by object, field and value. No value, however strange, is an error or a panic.

mod field;
mod node;
mod service;
mod slice;

pub use field::{Field, Reader};
pub(crate) use service::is_link_local;
pub use service::weights_of;
pub use slice::{EMBEDDED_CONTROLLER, MANAGED_BY_LABEL, SERVICE_NAME_LABEL, pod_weight, weight_of};

use serde_json::Value;

use crate::facts::Fact;
use crate::name::{self, ServiceName};
use crate::report::Report;

/// The label that keeps a Service or a slice away from service proxies.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// The label that gives a Service to another service proxy.
pub const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// What the names of our annotations begin with.
pub const ANNOTATION_PREFIX: &str = "portway.io/";
/// The annotation that gives endpoints weights.
pub const WEIGHTS_ANNOTATION: &str = "portway.io/weights";
/// The annotation that gives a Pod a weight.
pub const WEIGHT_ANNOTATION: &str = "portway.io/weight";

/// What an object turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// A fact, with its reports inside.
    Fact(Fact),
    /// Well-formed, but no kind that decides packets.
    OtherKind,
    /// Nothing of it can be used.
    Refused(Report),
}

/// Reads one object of any kind.
pub fn read(object: &Value) -> Read {
    read_as(object.get("kind").and_then(Value::as_str).unwrap_or_default(), object)
}

/// Reads one object of this kind: those in a list of an API server do not say it themselves.
pub fn read_as(kind: &str, object: &Value) -> Read {
    let fact = match kind {
        "Service" => service::read(object).map(Fact::Service),
        "EndpointSlice" => slice::read(object).map(Fact::EndpointSlice),
        "Node" => node::read(object).map(Fact::Node),
        "ServiceCIDR" => node::read_service_cidr(object).map(Fact::ServiceCidr),
        _ => return Read::OtherKind,
    };
    fact.map_or_else(Read::Refused, Read::Fact)
}

/// The namespace and name of an object that lives in a namespace; the namespace is `default` when it has none.
pub fn namespaced_name(kind: &'static str, object: &Value) -> Result<ServiceName, Report> {
    let metadata = object.get("metadata");
    let namespace = match metadata.and_then(|m| m.get("namespace")) {
        None | Some(Value::Null) => "default",
        Some(value) => value.as_str().unwrap_or_default(),
    };
    let name = plain_name(kind, object)?;
    if !name::is_acceptable(namespace) {
        return Err(refused_name(kind, name, "metadata.namespace", namespace));
    }
    Ok(ServiceName::new(namespace, name))
}

/// The name of an object that lives in no namespace.
pub fn plain_name<'a>(kind: &'static str, object: &'a Value) -> Result<&'a str, Report> {
    let name = object.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).unwrap_or_default();
    if name::is_acceptable(name) {
        Ok(name)
    } else {
        Err(refused_name(kind, "(unnamed)", "metadata.name", name))
    }
}

fn refused_name(kind: &'static str, shown: &str, field: &str, value: &str) -> Report {
    let object = name::ObjectRef { kind, name: shown.into() };
    Report::new(
        object,
        field,
        value,
        "must be letters, digits, `-`, `_` and `.`, at most 253; the object is refused",
    )
}
