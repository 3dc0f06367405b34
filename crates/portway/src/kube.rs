//! What objects say, for people to read: labels, ports, addresses, endpoints.
//!
//! The model keeps only what decides packets, and keeps it clean. Here an object is shown as it stands, but what is not in
//! force is not shown as if it were: a value that cannot be read is `<invalid>`, an endpoint that was refused is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::net::{parse_ip, show_address_and_port};
use model::{Family, Protocol};
use serde_json::Value;
use standalone::objects::{Kind, Object};

use observe::picture::Picture;

/// What is shown in the place of a value that cannot be read.
pub(super) const INVALID: &str = "<invalid>";

/// What is shown in the place of a value that a portway in a cluster does not keep.
pub(super) const NOT_KEPT: &str = "<not kept>";

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

/// `spec.selector` of a Service: `app=web,tier=front`. One that cannot be read in full selects nothing.
pub(super) fn selector(service: &Value) -> String {
    match at(service, "spec.selector") {
        None => joined::<&str>(&[]),
        Some(Value::Object(labels)) if labels.values().all(Value::is_string) => {
            joined(&pairs(service, "spec.selector", "="))
        }
        Some(_) => INVALID.to_owned(),
    }
}

/// The items with commas between them, or `<none>`.
pub(super) fn joined<T: AsRef<str>>(items: &[T]) -> String {
    if items.is_empty() {
        return "<none>".to_owned();
    }
    items.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(",")
}

/// The type of a Service that is in force: one that is unknown counts as `ClusterIP`.
pub(super) fn service_type(service: &Value) -> &str {
    let known = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    text(service, "spec.type").filter(|text| known.contains(text)).unwrap_or("ClusterIP")
}

/// `spec.clusterIPs`, or `spec.clusterIP` where that list is missing: addresses, or `None`.
pub(super) fn cluster_ips(service: &Value) -> Vec<&str> {
    let is_shown = |text: &&str| *text == "None" || parse_ip(text).is_some();
    let list: Vec<&str> = texts(service, "spec.clusterIPs").into_iter().filter(is_shown).collect();
    if list.is_empty() {
        text(service, "spec.clusterIP").into_iter().filter(is_shown).collect()
    } else {
        list
    }
}

/// `spec.externalIPs`, as far as they are addresses.
pub(super) fn external_ips(service: &Value) -> Vec<&str> {
    texts(service, "spec.externalIPs").into_iter().filter(|text| parse_ip(text).is_some()).collect()
}

/// IPs, or names, of `status.loadBalancer.ingress`.
pub(super) fn ingress(service: &Value) -> Vec<&str> {
    let ip = |item| text(item, "ip").filter(|text| parse_ip(text).is_some());
    let one = |item| ip(item).or_else(|| text(item, "hostname"));
    items(service, "status.loadBalancer.ingress").iter().filter_map(one).collect()
}

/// The addresses of a Pod.
pub(super) fn pod_ips(pod: &Value) -> Vec<&str> {
    let is_address = |text: &&str| parse_ip(text).is_some();
    let list = items(pod, "status.podIPs").iter().filter_map(|item| text(item, "ip")).filter(is_address);
    let list: Vec<&str> = list.collect();
    if list.is_empty() { text(pod, "status.podIP").into_iter().filter(is_address).collect() } else { list }
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
        at(self.0, "port").map_or_else(|| "<none>".to_owned(), port_number)
    }

    /// TCP when it does not say.
    pub(super) fn protocol(&self) -> &'a str {
        match at(self.0, "protocol") {
            None => "TCP",
            Some(value) => value.as_str().filter(|text| Protocol::parse(text).is_some()).unwrap_or(INVALID),
        }
    }

    /// Where pods listen: a number or a name; the same as `number` when it does not say.
    pub(super) fn target(&self) -> String {
        match at(self.0, "targetPort") {
            None => self.number(),
            Some(Value::String(name)) => name.clone(),
            Some(value) if value.as_u64() == Some(0) => self.number(),
            Some(value) => port_number(value),
        }
    }

    /// The port of each node.
    pub(super) fn node_port(&self) -> Option<String> {
        at(self.0, "nodePort").filter(|value| value.as_u64() != Some(0)).map(port_number)
    }
}

/// A port number, or the word for what is none.
fn port_number(value: &Value) -> String {
    let number = value.as_u64().filter(|number| (1..=65535).contains(number));
    number.map_or_else(|| INVALID.to_owned(), |number| number.to_string())
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
    ip: IpAddr,
    port: u16,
    /// The name of the port; empty when it has none.
    pub(super) port_name: String,
}

impl ReadyEndpoint {
    /// `10.244.1.5:80`.
    pub(super) fn address(&self) -> String {
        show_address_and_port(self.ip, self.port)
    }
}

/// Endpoints that were refused: by slice and address.
#[derive(Debug)]
pub(super) struct Refused<'a>(BTreeSet<(&'a str, &'a str)>);

impl<'a> Refused<'a> {
    /// Those of a picture. The table reports each of them by its slice and its address.
    pub(super) fn of(picture: &'a Picture) -> Self {
        let reports = picture.table().reports().into_iter();
        let of_slices = reports.filter(|report| report.object.kind == Kind::EndpointSlice.name());
        Self(of_slices.map(|report| (&*report.object.name, &*report.value)).collect())
    }

    fn contains(&self, slice: &str, ip: IpAddr) -> bool {
        !self.0.is_empty() && self.0.contains(&(slice, &*ip.to_string()))
    }
}

/// The ready endpoints in the slices of a Service that are in force, by address and port. The older kind `Endpoints` showed
/// the same.
pub(super) fn ready_endpoints(slices: &[&Object], refused: &Refused<'_>) -> Vec<ReadyEndpoint> {
    let mut found = BTreeSet::new();
    for slice in slices {
        let name = format!("{}/{}", slice.key.namespace, slice.key.name);
        let family = text(&slice.value, "addressType").unwrap_or_default();
        let ready = items(&slice.value, "endpoints").iter().filter(|endpoint| is_ready(endpoint));
        let ips = ready.filter_map(|endpoint| parse_ip(texts(endpoint, "addresses").first()?));
        let in_force =
            ips.filter(|ip| Family::of(*ip).to_string() == family && !refused.contains(&name, *ip));
        for ip in in_force {
            found.extend(items(&slice.value, "ports").iter().filter_map(|port| ready_endpoint(ip, port)));
        }
    }
    found.into_iter().collect()
}

fn ready_endpoint(ip: IpAddr, port: &Value) -> Option<ReadyEndpoint> {
    let number = u16::try_from(number(port, "port")).ok().filter(|number| *number != 0)?;
    Some(ReadyEndpoint { ip, port: number, port_name: text(port, "name").unwrap_or_default().to_owned() })
}

/// `conditions.ready`; unknown counts as yes.
pub(super) fn is_ready(endpoint: &Value) -> bool {
    at(endpoint, "conditions.ready").and_then(Value::as_bool).unwrap_or(true)
}

/// The first three, and how many more there are: `a:80,b:80,c:80 + 2 more...`.
pub(super) fn first_three<T: AsRef<str>>(endpoints: &[T]) -> String {
    const SHOWN: usize = 3;
    match endpoints.len().checked_sub(SHOWN) {
        None | Some(0) => joined(endpoints),
        Some(more) => format!("{} + {more} more...", joined(&endpoints[..SHOWN])),
    }
}
