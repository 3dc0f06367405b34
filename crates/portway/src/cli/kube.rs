//! What objects say, for people to read: labels, ports, addresses, endpoints.
//!
//! The model keeps only what decides packets, and keeps it clean. Here an object is shown as it stands, also where a field is
//! malformed: that is when people look.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::{Kind, Object};
use crate::picture::Picture;

/// What a path such as `spec.clusterIP` leads to.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// The text at a path, when there is some.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    at(object, path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The items of the list at a path.
pub(super) fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of the list at a path.
pub(super) fn texts<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    items(object, path).iter().filter_map(Value::as_str).collect()
}

/// The number at a path; 0 when there is none.
pub(super) fn number(object: &Value, path: &str) -> u64 {
    at(object, path).and_then(Value::as_u64).unwrap_or_default()
}

/// A scalar as people write it: without quotes.
pub(super) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `key=value` for each entry of the map at a path.
pub(super) fn pairs(object: &Value, path: &str, between: &str) -> Vec<String> {
    let map = at(object, path).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| format!("{key}{between}{}", shown(value))).collect()
}

/// The items with commas between them, or `<none>`.
pub(super) fn joined<T: AsRef<str>>(items: &[T]) -> String {
    if items.is_empty() {
        return "<none>".to_owned();
    }
    items.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(",")
}

/// `spec.type` of a Service.
pub(super) fn service_type(service: &Value) -> &str {
    text(service, "spec.type").unwrap_or("ClusterIP")
}

/// `spec.clusterIPs`, or `spec.clusterIP` where that list is missing.
pub(super) fn cluster_ips(service: &Value) -> Vec<&str> {
    let list = texts(service, "spec.clusterIPs");
    if list.is_empty() { text(service, "spec.clusterIP").into_iter().collect() } else { list }
}

/// IPs, or names, of `status.loadBalancer.ingress`.
pub(super) fn ingress(service: &Value) -> Vec<&str> {
    let one = |item| text(item, "ip").or_else(|| text(item, "hostname"));
    items(service, "status.loadBalancer.ingress").iter().filter_map(one).collect()
}

/// The addresses of a Pod.
pub(super) fn pod_ips(pod: &Value) -> Vec<&str> {
    let list: Vec<&str> = items(pod, "status.podIPs").iter().filter_map(|item| text(item, "ip")).collect();
    if list.is_empty() { text(pod, "status.podIP").into_iter().collect() } else { list }
}

/// One of `spec.ports` of a Service, as it stands there.
#[derive(Debug)]
pub(super) struct Port<'a>(&'a Value);

impl<'a> Port<'a> {
    /// All of a Service.
    pub(super) fn all(service: &'a Value) -> Vec<Self> {
        items(service, "spec.ports").iter().map(Self).collect()
    }

    /// Its name; empty when it has none.
    pub(super) fn name(&self) -> &'a str {
        text(self.0, "name").unwrap_or_default()
    }

    /// The port of the cluster IP.
    pub(super) fn number(&self) -> String {
        at(self.0, "port").map_or_else(|| "<none>".to_owned(), shown)
    }

    /// TCP when it does not say.
    pub(super) fn protocol(&self) -> &'a str {
        text(self.0, "protocol").unwrap_or("TCP")
    }

    /// Where pods listen: a number or a name; the same as `number` when it does not say.
    pub(super) fn target(&self) -> String {
        at(self.0, "targetPort").map_or_else(|| self.number(), shown)
    }

    /// The port of each node.
    pub(super) fn node_port(&self) -> Option<u64> {
        Some(number(self.0, "nodePort")).filter(|port| *port != 0)
    }
}

/// The slices of each Service. Made once, since a cluster has as many slices as Services.
#[derive(Debug)]
pub(super) struct Slices<'a>(BTreeMap<(&'a str, &'a str), Vec<&'a Object>>);

impl<'a> Slices<'a> {
    /// Those of a picture.
    pub(super) fn of(picture: &'a Picture) -> Self {
        let mut slices: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for object in picture.objects().values().filter(|object| object.key.kind == Kind::EndpointSlice) {
            if let Some(service) = service_of_slice(&object.value) {
                slices.entry((&*object.key.namespace, service)).or_default().push(object);
            }
        }
        Self(slices)
    }

    /// Those of a Service, by name.
    pub(super) fn of_service<'s>(&'s self, service: &'s Object) -> &'s [&'a Object] {
        self.0.get(&(&*service.key.namespace, &*service.key.name)).map_or(&[], Vec::as_slice)
    }
}

/// The Service that a slice belongs to.
pub(super) fn service_of_slice(slice: &Value) -> Option<&str> {
    slice.get("metadata")?.get("labels")?.get(model::object::SERVICE_NAME_LABEL)?.as_str()
}

/// An endpoint that is ready, on one port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyEndpoint {
    /// The name of the port; empty when it has none.
    pub(super) port_name: String,
    /// `10.244.1.5:80`.
    pub(super) address: String,
}

/// The ready endpoints in the slices of a Service, by port. The older kind `Endpoints` showed the same.
pub(super) fn ready_endpoints(slices: &[&Object]) -> Vec<ReadyEndpoint> {
    let mut found = Vec::new();
    for slice in slices {
        for port in items(&slice.value, "ports") {
            let ready = items(&slice.value, "endpoints").iter().filter(|endpoint| is_ready(endpoint));
            found.extend(ready.filter_map(|endpoint| ready_endpoint(endpoint, port)));
        }
    }
    found.dedup();
    found
}

fn ready_endpoint(endpoint: &Value, port: &Value) -> Option<ReadyEndpoint> {
    let address = model::net::parse_ip(texts(endpoint, "addresses").first()?)?;
    let number = u16::try_from(number(port, "port")).ok().filter(|number| *number != 0)?;
    let port_name = text(port, "name").unwrap_or_default().to_owned();
    Some(ReadyEndpoint { port_name, address: model::net::show_address_and_port(address, number) })
}

/// `conditions.ready`; unknown counts as yes.
pub(super) fn is_ready(endpoint: &Value) -> bool {
    at(endpoint, "conditions.ready").and_then(Value::as_bool).unwrap_or(true)
}

/// The first three, and how many more there are: `a:80,b:80,c:80 + 2 more...`.
pub(super) fn first_three(endpoints: &[&str]) -> String {
    const SHOWN: usize = 3;
    match endpoints.len().checked_sub(SHOWN) {
        None | Some(0) => joined(endpoints),
        Some(more) => format!("{} + {more} more...", joined(&endpoints[..SHOWN])),
    }
}
