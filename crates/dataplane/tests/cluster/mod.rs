//! A small cluster, said in few words, for tests that look at one thing.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeSet;

use model::object::{Read, read};
use model::{Cluster, Config, Event, ForwardingTable, ServiceName, ServicePortId};
use serde_json::{Value, json};

/// A cluster, the table that follows it, and what changed since the last look.
pub(crate) struct Small {
    cluster: Cluster,
    pub(crate) table: ForwardingTable,
    changed: BTreeSet<ServicePortId>,
}

impl Small {
    /// This node is `a`, at 192.168.0.1.
    pub(crate) fn new() -> Self {
        let cluster = Cluster::new(Config { node_name: "a".into(), ..Config::default() });
        let table = ForwardingTable::of(&cluster);
        let mut small = Self { cluster, table, changed: BTreeSet::new() };
        small.apply(&json!({
            "kind": "Node", "metadata": {"name": "a"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.1"}]},
        }));
        small
    }

    /// A Service on port 80 of this address, sticky or not.
    pub(crate) fn service(&mut self, name: &str, ip: &str, affinity: &str) {
        let spec = json!({"clusterIPs": [ip], "ports": [{"port": 80}], "sessionAffinity": affinity, "type": "ClusterIP"});
        self.apply(
            &json!({"kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}),
        );
    }

    /// Its endpoints, all on this node, on port 8080.
    pub(crate) fn endpoints(&mut self, service: &str, addresses: &[&str]) {
        let is_v4 = addresses.iter().all(|address| address.contains('.'));
        let kind = if is_v4 { "IPv4" } else { "IPv6" };
        let endpoints: Vec<Value> =
            addresses.iter().map(|ip| json!({"addresses": [ip], "nodeName": "a"})).collect();
        self.apply(&json!({
            "kind": "EndpointSlice", "addressType": kind,
            "metadata": {"name": format!("{service}-{kind}"), "namespace": "default",
                         "labels": {"kubernetes.io/service-name": service}},
            "ports": [{"port": 8080}], "endpoints": endpoints,
        }));
    }

    /// It is deleted.
    pub(crate) fn remove(&mut self, service: &str) {
        self.take(Event::DeleteService(ServiceName::new("default", service)));
    }

    pub(crate) fn apply(&mut self, object: &Value) {
        let Read::Fact(fact) = read(object) else { panic!("no fact: {object}") };
        self.take(Event::Apply(fact));
    }

    fn take(&mut self, event: Event) {
        let changed = self.cluster.apply(event);
        self.changed.extend(self.table.update(&self.cluster, &changed).before.into_keys());
    }

    /// What changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<ServicePortId> {
        std::mem::take(&mut self.changed)
    }
}
