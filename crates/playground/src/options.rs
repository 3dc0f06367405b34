//! What a playground consists of.

use crate::server::Ports;

/// How a node's pods are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodNetwork {
    /// Each by a link of its own, named `veth…`, with a route to it.
    #[default]
    Routed,
    /// All to one bridge, `cni0`, whose ports are named `veth…`.
    Bridged,
}

/// What to build.
#[derive(Debug, Clone)]
pub struct Options {
    /// Client pods on each node: `client-a`, `client-a-1`, …
    pub clients_per_node: usize,
    /// Server pods on each node: `web-a-0`, `web-a-1`, …
    pub servers_per_node: usize,
    /// How pods are attached.
    pub pod_network: PodNetwork,
    /// What each server pod serves from the start; `None` for nothing.
    pub serve: Option<Ports>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clients_per_node: 1,
            servers_per_node: 3,
            pod_network: PodNetwork::default(),
            serve: Some(Ports::default()),
        }
    }
}
