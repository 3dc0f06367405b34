//! This machine: its name, its addresses, and the Node that they make where nobody else describes it.

mod primary;

use std::collections::BTreeSet;
use std::net::IpAddr;

use dataplane::registry;
use kernel::host::{Address, ThisMachine};
use model::Family;
use model::facts::Node;

use primary::WayOut;

/// This machine's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// All of them. `None` when the kernel did not tell.
    pub addresses: Option<BTreeSet<IpAddr>>,
    /// The Node that they make, for when nobody else describes this one.
    pub node: Option<Node>,
    /// The primary addresses that were chosen because packets to the outside leave from them. Others are stopgaps.
    pub lasting: BTreeSet<IpAddr>,
}

impl HostFacts {
    /// Asks the kernel.
    pub fn read(node_name: &str) -> Self {
        Self::default().read_again(node_name)
    }

    /// Asks the kernel again. The primary addresses stay as they were as long as this host has them.
    #[must_use]
    pub fn read_again(&self, node_name: &str) -> Self {
        let Some(addresses) = read_addresses() else { return Self::default() };
        let way = WayOut::read(&mut ThisMachine);
        let before = primary::Before { primary: &self.primary(), lasting: &self.lasting };
        let node = node_with(node_name, primary::in_order(&addresses, &way, &before));
        let lasting = primary::lasting(&addresses, &way);
        let ips = addresses.into_iter().map(|address| address.ip).collect();
        let mut facts = Self { addresses: Some(ips), node: Some(node), lasting: BTreeSet::new() };
        // One that was chosen for good stays so when the default route leaves its link.
        let is_lasting = |ip: &IpAddr| lasting.contains(ip) || self.lasting.contains(ip);
        facts.lasting = facts.primary().into_iter().filter(is_lasting).collect();
        facts
    }

    /// Is a primary address a stopgap, for which a better one may come with a route?
    pub fn has_stopgap(&self) -> bool {
        self.primary().iter().any(|ip| !self.lasting.contains(ip))
    }

    /// The first address of each family.
    fn primary(&self) -> Vec<IpAddr> {
        let addresses = self.node.as_ref().map(|node| node.addresses.as_slice()).unwrap_or_default();
        let first = |family| addresses.iter().find(|ip| Family::of(**ip) == family).copied();
        Family::ALL.into_iter().filter_map(first).collect()
    }
}

/// The host name, as Kubernetes spells node names: lower case. `localhost` where there is none.
pub fn name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim().to_lowercase();
    if model::name::is_acceptable(&name) { name } else { "localhost".to_owned() }
}

/// A Node of this name with the addresses of this host. `None` when the kernel does not tell them: then node ports have no
/// address to answer at, and the explanation of a packet says so.
pub fn node(name: &str) -> Option<Node> {
    HostFacts::read(name).node
}

/// Addresses that a mode, ours or upstream's, gave this host for Services are none of its own.
fn read_addresses() -> Option<BTreeSet<Address>> {
    // Addresses first: the record of one comes before it, so one that is bound meanwhile is not taken for the host's own. One that goes
    // meanwhile may be, and its going is heard.
    let mut addresses = kernel::host::addresses()
        .inspect_err(|error| tracing::debug!(%error, "the addresses of this host are unknown"))
        .ok()?;
    for mode in registry::MODES {
        let is_of_a_service = mode.service_addresses()?;
        addresses.retain(|address| !is_of_a_service(address));
    }
    Some(addresses)
}

fn node_with(name: &str, addresses: Vec<IpAddr>) -> Node {
    Node {
        name: name.into(),
        zone: None,
        addresses,
        pod_cidrs: Vec::new(),
        is_leaving: false,
        reports: Vec::new(),
    }
}
