//! The facts that hold at a moment, and nothing of how they came about.

use std::collections::BTreeMap;

use model::facts::Fact;
use model::{Cluster, Config, Event};

/// The newest version of every fact, by the event that would delete it.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    facts: BTreeMap<(u8, String), Event>,
}

impl Facts {
    /// Replaces what `event` replaces, forgets what it deletes.
    pub(crate) fn take_in(&mut self, event: &Event) {
        let key = match event {
            Event::Apply(Fact::EndpointSlice(slice)) => (0, slice.name.to_string()),
            Event::DeleteSlice(name) => (0, name.to_string()),
            Event::Apply(Fact::Service(service)) => (1, service.name.to_string()),
            Event::DeleteService(name) => (1, name.to_string()),
            Event::Apply(Fact::Node(node)) => (2, node.name.to_string()),
            Event::DeleteNode(name) => (2, name.to_string()),
            Event::Apply(Fact::ServiceCidr(cidr)) => (3, cidr.name.to_string()),
            Event::DeleteServiceCidr(name) => (3, name.to_string()),
            Event::LocalAddresses(_) => (4, String::new()),
            Event::Rechosen(_) => (5, String::new()),
            Event::EndpointsInDoubt(_) => (6, String::new()),
        };
        match event {
            Event::Apply(_) | Event::LocalAddresses(_) | Event::Rechosen(_) | Event::EndpointsInDoubt(_) => {
                drop(self.facts.insert(key, event.clone()));
            }
            _ => drop(self.facts.remove(&key)),
        }
    }

    /// A cluster that heard of each fact once, in the reverse of their order of kind and name.
    pub(crate) fn told_backwards(&self, config: &Config) -> Cluster {
        let mut cluster = Cluster::new(config.clone());
        for event in self.facts.values().rev() {
            cluster.apply(event.clone());
        }
        cluster
    }
}
