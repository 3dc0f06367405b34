//! A mid-sized cluster, and a mid-sized change of it.
//!
//! Sixty Services of all kinds: both families, three protocols, clients that stay with their endpoint, node ports, load
//! balancers with source ranges. The change replaces endpoints, takes Services away and adds some (one of them on the
//! address and the node port of one that went), changes policies, ranges and affinity, and gives the node another address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::facts::{Fact, PortSpec};
use model::net::parse_cidr;
use model::object::{Read, read};
use model::{Cluster, Config, DetectLocal, Event, ForwardingTable, ServiceName, ServicePortId};
use serde_json::{Value, json};

/// How many Services there are before the change.
pub(crate) const SERVICES: u16 = 60;
/// How many come with it.
const NEW: u16 = 6;

/// Before, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// The change as a dataplane hears of it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) old: ForwardingTable,
    pub(crate) new: ForwardingTable,
    /// The service ports that differ.
    pub(crate) ids: BTreeSet<ServicePortId>,
}

impl Change {
    pub(crate) fn of(services: u16) -> Self {
        let (before, after) = (facts(services, |_| When::Before, When::Before), all_after(services));
        let mut cluster = cluster(before.values());
        let old = ForwardingTable::of(&cluster);
        let (mut new, mut ids) = (old.clone(), BTreeSet::new());
        let gone =
            before.iter().filter(|(key, _)| !after.contains_key(*key)).map(|(_, event)| deletion(event));
        for event in gone.chain(after.values().cloned()) {
            let changed = cluster.apply(event);
            ids.extend(new.update(&cluster, &changed).before.into_keys());
        }
        assert_eq!(new, ForwardingTable::of(&cluster), "followed as from scratch");
        Self { old, new, ids }
    }
}

/// The table in which these Services are as they were and all else is new.
pub(crate) fn mixed(services: u16, as_they_were: &BTreeSet<ServiceName>) -> ForwardingTable {
    let when = |n| if as_they_were.contains(&name_of(n)) { When::Before } else { When::After };
    ForwardingTable::of(&cluster(facts(services, when, When::After).values()))
}

/// The table in which all Services are as they were, and the node is new.
pub(crate) fn old_on_the_new_node(services: u16) -> ForwardingTable {
    ForwardingTable::of(&cluster(facts(services, |_| When::Before, When::After).values()))
}

/// The table after the change, without these service ports.
pub(crate) fn without(services: u16, absent: &BTreeSet<ServicePortId>) -> ForwardingTable {
    let mut facts = all_after(services);
    for event in facts.values_mut() {
        let Event::Apply(Fact::Service(service)) = event else { continue };
        let id = |port: &PortSpec| ServicePortId {
            service: service.name.clone(),
            port: port.name.clone(),
            protocol: port.protocol,
        };
        service.ports = service.ports.iter().filter(|port| !absent.contains(&id(port))).cloned().collect();
    }
    facts.retain(
        |_, event| !matches!(event, Event::Apply(Fact::Service(service)) if service.ports.is_empty()),
    );
    ForwardingTable::of(&cluster(facts.values()))
}

fn all_after(services: u16) -> BTreeMap<String, Event> {
    facts(services, |_| When::After, When::After)
}

fn cluster<'a>(events: impl Iterator<Item = &'a Event>) -> Cluster {
    let pods = ["10.244.0.0/16", "fd00:244::/32"].iter().filter_map(|net| parse_cidr(net)).collect();
    let detect_local = DetectLocal::ClusterCidr(pods);
    let mut cluster = Cluster::new(Config { node_name: "a".into(), detect_local, ..Config::default() });
    for event in events {
        cluster.apply(event.clone());
    }
    cluster
}

/// All facts, by a name.
fn facts(services: u16, when: impl Fn(u16) -> When, node_when: When) -> BTreeMap<String, Event> {
    let mut all: BTreeMap<String, Event> = BTreeMap::new();
    for n in 0..services + NEW {
        let recipe = match when(n) {
            When::Before => Recipe::before(n, services),
            When::After => Recipe::after(n, services),
        };
        for object in recipe.iter().flat_map(Recipe::objects) {
            let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
            all.insert(name, apply(&object));
        }
    }
    all.extend(node(node_when).into_iter().enumerate().map(|(n, event)| (format!("node {n}"), event)));
    all
}

fn apply(object: &Value) -> Event {
    let Read::Fact(fact) = read(object) else { panic!("no fact: {object}") };
    Event::Apply(fact)
}

fn deletion(event: &Event) -> Event {
    match event {
        Event::Apply(Fact::Service(service)) => Event::DeleteService(service.name.clone()),
        Event::Apply(Fact::EndpointSlice(slice)) => Event::DeleteSlice(slice.name.clone()),
        other => panic!("nobody deletes {other:?}"),
    }
}

/// This node, and the ranges of cluster IPs.
fn node(when: When) -> Vec<Event> {
    let address = own_address(when);
    let addresses = [address, "10.0.0.1", "fd00:1::1"];
    let all: BTreeSet<IpAddr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
    let node = json!({
        "kind": "Node", "metadata": {"name": "a"},
        "status": {"addresses": [{"type": "InternalIP", "address": address},
                                 {"type": "InternalIP", "address": "fd00:1::1"}]},
    });
    let range = json!({
        "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": ["10.96.0.0/16", "fd00:96::/112"]},
    });
    vec![apply(&node), apply(&range), Event::LocalAddresses(all)]
}

/// The node's first address.
pub(crate) fn own_address(when: When) -> &'static str {
    match when {
        When::Before => "192.168.0.1",
        When::After => "192.168.0.2",
    }
}

/// The name of a Service.
pub(crate) fn name_of(n: u16) -> ServiceName {
    ServiceName::new("default", &format!("s{n}"))
}

/// One Service, in few words.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    n: u16,
    /// Which address and node port it has: mostly those of its number.
    place: u16,
    kind: Kind,
    is_dual: bool,
    is_local: bool,
    is_sticky: bool,
    protocol: &'static str,
    endpoints: std::ops::Range<u16>,
    ranges: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ClusterIp,
    NodePort,
    LoadBalancer,
}

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const RANGES: [&[&str]; 3] =
    [&["203.0.113.0/24", "2001:db8::/33"], &["203.0.113.0/25", "192.168.0.0/16"], &[]];

impl Recipe {
    /// How a Service is before the change; there are `services` of them.
    pub(crate) fn before(n: u16, services: u16) -> Option<Self> {
        (n < services).then(|| Self::any(n))
    }

    /// And after it.
    fn after(n: u16, services: u16) -> Option<Self> {
        let mut recipe = Self::any(n);
        if n >= services {
            // One of the new ones comes where one of the old ones was.
            recipe.place = if n == services + 1 { 3 } else { n };
            return Some(recipe);
        }
        match n % 10 {
            3 => return None,
            0 => recipe.endpoints = recipe.endpoints.start + 2..recipe.endpoints.end + 4,
            1 => recipe.is_sticky = !recipe.is_sticky,
            2 => recipe.is_local = !recipe.is_local,
            4 => recipe.ranges = RANGES[usize::from(n / 10 + 1) % 3],
            5 => recipe.endpoints.end = recipe.endpoints.start.midpoint(recipe.endpoints.end),
            6 => recipe.kind = if recipe.kind == Kind::ClusterIp { Kind::NodePort } else { Kind::ClusterIp },
            _ => {}
        }
        Some(recipe)
    }

    /// One of many.
    pub(crate) fn any(n: u16) -> Self {
        let kind = [Kind::ClusterIp, Kind::NodePort, Kind::LoadBalancer, Kind::LoadBalancer, Kind::NodePort]
            [usize::from(n % 5)];
        Self {
            n,
            place: n,
            kind,
            is_dual: n % 3 != 1,
            is_local: n % 7 == 2,
            is_sticky: n % 4 == 2,
            protocol: PROTOCOLS[usize::from(n / 2 % 3)],
            endpoints: 4 * n..4 * n + [3, 1, 2, 4, 0, 2][usize::from(n % 6)],
            ranges: RANGES[usize::from(n % 3)],
        }
    }

    /// The same with other endpoints, or with one field another.
    pub(crate) fn changed(mut self, how: u16) -> Self {
        match how % 5 {
            0 => self.is_sticky = !self.is_sticky,
            1 => self.is_local = !self.is_local,
            2 => self.ranges = RANGES[usize::from(how / 5 % 3)],
            _ => self.endpoints.end = self.endpoints.start + how / 5 % 7,
        }
        self
    }

    /// The Service and its slices.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let mut all = vec![self.service(), self.slice("IPv4")];
        all.extend(self.is_dual.then(|| self.slice("IPv6")));
        all
    }

    fn service(&self) -> Value {
        let place = self.place;
        let mut ips = vec![format!("10.96.1.{place}")];
        ips.extend(self.is_dual.then(|| format!("fd00:96::{place:x}")));
        let kind = ["ClusterIP", "NodePort", "LoadBalancer"][self.kind as usize];
        let mut port = json!({"name": "main", "port": 80, "protocol": self.protocol});
        if self.kind != Kind::ClusterIp {
            port["nodePort"] = json!(30_000 + place);
        }
        let mut spec = json!({
            "type": kind, "clusterIP": ips[0], "clusterIPs": ips, "ports": [port],
            "ipFamilies": if self.is_dual { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) },
            "ipFamilyPolicy": if self.is_dual { "RequireDualStack" } else { "SingleStack" },
        });
        if self.n.is_multiple_of(4) {
            let more = json!({"name": "more", "port": 53, "protocol": "UDP"});
            spec["ports"].as_array_mut().expect("it is a list").push(more);
        }
        if self.is_sticky {
            spec["sessionAffinity"] = json!("ClientIP");
        }
        if self.is_local && self.kind != Kind::ClusterIp {
            spec["externalTrafficPolicy"] = json!("Local");
        }
        if self.kind == Kind::LoadBalancer {
            spec["loadBalancerSourceRanges"] = json!(self.ranges);
        }
        let ingress = if self.is_dual {
            json!([{"ip": format!("198.51.100.{place}")}, {"ip": format!("2001:db8:1::{place:x}")}])
        } else {
            json!([{"ip": format!("198.51.100.{place}")}])
        };
        let status = if self.kind == Kind::LoadBalancer {
            json!({"loadBalancer": {"ingress": ingress}})
        } else {
            json!({})
        };
        let metadata = json!({"name": format!("s{}", self.n), "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": status})
    }

    fn slice(&self, family: &str) -> Value {
        let endpoint = |e: u16| {
            let node = e % 2;
            let address = if family == "IPv4" {
                format!("10.244.{node}.{}", 1 + e % 250)
            } else {
                format!("fd00:244:{node}::{:x}", 1 + e % 250)
            };
            json!({"addresses": [address], "nodeName": if node == 0 { "a" } else { "b" }})
        };
        let name = format!("s{}", self.n);
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": format!("{name}-{}", family.to_lowercase()), "namespace": "default",
                         "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "main", "port": 8080, "protocol": self.protocol},
                      {"name": "more", "port": 5353, "protocol": "UDP"}],
            "endpoints": self.endpoints.clone().map(endpoint).collect::<Vec<_>>(),
        })
    }
}
