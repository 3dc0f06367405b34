//! What the model says of a packet.
//!
//! The picture comes from the running portway of the node that the packet meets, so that both speak of the same facts.

use std::net::SocketAddr;

use model::fate::Payload;
use model::{Fate, ForwardingTable, Packet, Protocol};
use playground::Family;
use playground::plan::NODES;

use crate::manifest::node_of;
use crate::stage::Stage;

/// What a node makes of a packet.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The node.
    pub(crate) node: &'static str,
    /// The packet, as it reaches the node.
    pub(crate) packet: Packet,
    /// Where it ends.
    pub(crate) fate: Fate,
    /// The node's table.
    pub(crate) table: ForwardingTable,
}

/// What becomes of the first packet of a connection: what the first node says that has something to say.
///
/// A pod's packet meets its own node first. If that one leaves it alone, it goes on to the node `at` which it is aimed.
pub(crate) fn verdict(
    stage: &Stage,
    from: &str,
    protocol: Protocol,
    to: SocketAddr,
    at: &'static str,
) -> Verdict {
    let first = first_node(from, at);
    let met = judge(stage, from, protocol, to, first);
    if first != at && met.fate == Fate::Untouched { judge(stage, from, protocol, to, at) } else { met }
}

impl Verdict {
    /// What `portway explain` is to be asked.
    pub(crate) fn question(&self) -> Vec<String> {
        let Packet { source, destination, payload, interface } = &self.packet;
        let destination = match payload.transport() {
            Some((protocol, port)) => format!("{}/{protocol}", SocketAddr::new(*destination, port)),
            None => destination.to_string(),
        };
        let interface = interface.iter().flat_map(|name| ["--interface".to_owned(), name.clone()]);
        [source.to_string(), destination.to_lowercase()].into_iter().chain(interface).collect()
    }
}

fn judge(stage: &Stage, from: &str, protocol: Protocol, to: SocketAddr, node: &'static str) -> Verdict {
    let packet = Packet {
        source: stage.place(from).address(Family::of(to.ip())),
        destination: to.ip(),
        payload: Payload::Transport { protocol, port: to.port() },
        interface: interface(stage, from, node),
    };
    let table = stage.picture(node).table().clone();
    let fate = table.fate(&packet, &stage.mode().semantics()).fate;
    Verdict { node, packet, fate, table }
}

/// The node that a packet meets first; one from outside meets that at which it is aimed.
fn first_node(from: &str, at: &'static str) -> &'static str {
    if let Some(node) = NODES.into_iter().find(|node| *node == from) {
        return node;
    }
    if from == "outside" { at } else { node_of(from) }
}

/// The interface by which it comes in; what a host sends itself has none.
fn interface(stage: &Stage, from: &str, node: &str) -> Option<String> {
    let is_own_pod = from.contains('-') && node_of(from) == node;
    match from {
        _ if from == node => None,
        _ if is_own_pod => Some(stage.interface_of(from)),
        _ => Some("eth0".to_owned()),
    }
}
