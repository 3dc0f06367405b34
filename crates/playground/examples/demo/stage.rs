//! The playground, furnished as the manifests say: each Pod gets a place on its node, each Node its addresses.
//!
//! The addresses of the manifests come on top of the playground's own, with routes to them everywhere.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result};
use playground::node::pod_link;
use playground::{Family, Node, Options, Place, Playground};

use crate::facts::{Facts, Pod};
use crate::server;

/// Enough clients to see that each keeps a pod of its own.
const CLIENTS_PER_NODE: usize = 3;

/// Nodes, pods with their servers, clients.
pub(crate) struct Stage {
    playground: Playground,
}

impl Stage {
    pub(crate) fn build(facts: &Facts) -> Result<Self> {
        let playground = Playground::new(&Options {
            clients_per_node: CLIENTS_PER_NODE,
            servers_per_node: most_pods_of_a_node(facts),
            serve: None,
            ..Options::default()
        })?;
        let stage = Self { playground };
        let cast = stage.cast(facts)?;
        stage.furnish(facts, &cast)?;
        for (pod, place) in cast {
            server::serve(place, pod)?;
        }
        Ok(stage)
    }

    pub(crate) fn playground(&self) -> &Playground {
        &self.playground
    }

    pub(crate) fn place(&self, name: &str) -> &Place {
        self.playground.place(name)
    }

    /// Which Pod gets which place.
    fn cast<'a>(&'a self, facts: &'a Facts) -> Result<Vec<(&'a Pod, &'a Place)>> {
        let mut places: BTreeMap<_, _> =
            self.playground.nodes().iter().map(|node| (node.place().name(), node.webs())).collect();
        let place_of = |pod: &'a Pod| {
            let place = places.get_mut(pod.node.as_str()).and_then(Iterator::next);
            place.map(|place| (pod, place)).with_context(|| {
                format!("Pod `{}` is on node `{}`, but the playground has a and b", pod.name, pod.node)
            })
        };
        facts.pods.iter().map(place_of).collect()
    }

    /// Addresses and routes, one run of `ip` for each place.
    fn furnish(&self, facts: &Facts, cast: &[(&Pod, &Place)]) -> Result<()> {
        let mut lines = Lines::default();
        for node in self.playground.nodes() {
            let own = facts.nodes.iter().filter(|fact| fact.name == node.place().name());
            for address in own.flat_map(|fact| &fact.addresses) {
                lines.add_address(node.place(), *address);
                self.add_routes(&mut lines, *address, node);
            }
        }
        for (pod, place) in cast {
            let node = self.playground.node(&pod.node);
            for address in &pod.addresses {
                lines.add_address(place, *address);
                lines.add(node.place(), format!("route replace {address} dev {}", pod_link(place)));
                self.add_routes(&mut lines, *address, node);
            }
        }
        lines.by_place.iter().try_for_each(|(place, lines)| Ok(self.place(place).ip(lines)?))
    }

    /// Leads everybody else who routes to this node.
    fn add_routes(&self, lines: &mut Lines, address: IpAddr, node: &Node) {
        let gateway = node.place().address(Family::of(address));
        let nodes = self.playground.nodes().iter().map(Node::place);
        let others = nodes.chain([self.playground.outside(), self.place("underlay")]);
        for place in others.filter(|place| place.name() != node.place().name()) {
            lines.add(place, format!("route replace {address} via {gateway}"));
        }
    }
}

fn most_pods_of_a_node(facts: &Facts) -> usize {
    let mut counts = BTreeMap::<&str, usize>::new();
    facts.pods.iter().for_each(|pod| *counts.entry(&pod.node).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

/// Lines for `ip`, by the name of the place.
#[derive(Default)]
struct Lines {
    by_place: BTreeMap<String, Vec<String>>,
}

impl Lines {
    fn add(&mut self, place: &Place, line: String) {
        self.by_place.entry(place.name().to_owned()).or_default().push(line);
    }

    fn add_address(&mut self, place: &Place, address: IpAddr) {
        let suffix = if address.is_ipv4() { "/32 dev eth0" } else { "/128 dev eth0 nodad" };
        self.add(place, format!("addr replace {address}{suffix}"));
    }
}
