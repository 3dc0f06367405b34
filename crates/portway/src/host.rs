//! This machine: its name, its addresses, and the Node that they make where nobody else describes it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use dataplane::ipvs::Bound;
use kernel::host::{Address, Scope};
use kernel::ipset;
use model::facts::Node;

/// This machine's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// All of them. `None` when the kernel did not tell.
    pub addresses: Option<BTreeSet<IpAddr>>,
    /// The Node that they make, for when nobody else describes this one.
    pub node: Option<Node>,
}

impl HostFacts {
    /// Asks the kernel.
    pub fn read(node_name: &str) -> Self {
        let addresses = read_addresses();
        let node = addresses.as_ref().map(|addresses| node_with(node_name, addresses));
        let ips = addresses.map(|addresses| addresses.into_iter().map(|address| address.ip).collect());
        Self { addresses: ips, node }
    }
}

/// The host name, as Kubernetes spells node names: lower case. `localhost` where there is none.
pub(crate) fn name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim().to_lowercase();
    if model::name::is_acceptable(&name) { name } else { "localhost".to_owned() }
}

/// A Node of this name with the addresses of this host. `None` when the kernel does not tell them: then node ports have no
/// address to answer at, and the explanation of a packet says so.
pub(crate) fn node(name: &str) -> Option<Node> {
    read_addresses().map(|addresses| node_with(name, &addresses))
}

/// Addresses that the IPVS mode, ours or upstream's, gave this host for Services are none of its own.
fn read_addresses() -> Option<BTreeSet<Address>> {
    // Addresses first: the record of one comes before it, so one that is bound meanwhile is not taken for the host's own. One that goes
    // meanwhile may be, and its going is heard.
    let mut addresses = kernel::host::addresses()
        .inspect_err(|error| tracing::debug!(%error, "the addresses of this host are unknown"))
        .ok()?;
    let bound = bound()?;
    addresses.retain(|address| !bound.has(address));
    Some(addresses)
}

/// What the IPVS mode gave this host. Without IPVS it gave nothing, and asking would load modules. `None` when the kernel does not
/// tell; who may not ask sees what it can see.
pub(crate) fn bound() -> Option<Bound> {
    if !has_ipvs() {
        return Some(Bound::default());
    }
    let read = ipset::Netlink::open().and_then(|mut sets| Bound::read(&mut sets));
    match read {
        Ok(bound) => Some(bound),
        Err(ipset::Error::NotPermitted | ipset::Error::Missing) => Some(Bound::default()),
        Err(error) => {
            tracing::debug!(%error, "which addresses of this host are Services' is unknown");
            None
        }
    }
}

/// Is there IPVS in this kernel now? Asking IPVS itself would load its module.
pub(crate) fn has_ipvs() -> bool {
    Path::new(HAS_IPVS).exists()
}

/// The kernel lists virtual servers here, wherever there is IPVS; of this thread's network namespace.
const HAS_IPVS: &str = "/proc/thread-self/net/ip_vs";

fn node_with(name: &str, addresses: &BTreeSet<Address>) -> Node {
    let addresses = in_order(addresses, &links_of_default_routes());
    Node {
        name: name.into(),
        zone: None,
        addresses,
        pod_cidrs: Vec::new(),
        is_leaving: false,
        reports: Vec::new(),
    }
}

/// Those on a link with a default route come first, since the first of a family is the primary one; then those that are valid
/// everywhere.
fn in_order(addresses: &BTreeSet<Address>, outward: &BTreeSet<u32>) -> Vec<IpAddr> {
    let rank = |address: &&Address| {
        (!outward.contains(&address.link_index), address.scope != Scope::Global, address.link_index)
    };
    let mut usable: Vec<&Address> = addresses.iter().filter(|a| !a.ip.is_loopback()).collect();
    usable.sort_by_key(rank);
    usable.into_iter().map(|address| address.ip).collect()
}

fn links_of_default_routes() -> BTreeSet<u32> {
    let routes = kernel::host::routes().unwrap_or_default();
    let default = routes.iter().filter(|route| route.prefix_length == 0 && route.gateway.is_some());
    default.filter_map(|route| route.link_index).collect()
}
