//! Virtual servers of a node, as its kernel tells of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kernel::ipvs::{Ipvs as _, Netlink, VirtualServer, What};

use crate::stage::Stage;

/// The virtual server at a place, by TCP.
pub(crate) fn at(to: SocketAddr) -> What {
    What::Address(to, kernel::IpProtocol::TCP)
}

impl Stage {
    /// All virtual servers of a node.
    pub(crate) fn virtual_servers(&self, node: &str) -> Vec<VirtualServer> {
        self.place(node).run(|| Netlink::open().unwrap().virtual_servers().unwrap()).unwrap()
    }

    /// Which scheduler the virtual server of this place has on a node.
    pub(crate) fn scheduler(&self, node: &str, to: SocketAddr) -> Option<String> {
        let servers = self.virtual_servers(node);
        servers.into_iter().find(|server| server.what == at(to)).map(|server| server.scheduler)
    }

    /// The endpoints behind this place on a node, with their weights.
    pub(crate) fn weights(&self, node: &str, to: SocketAddr) -> BTreeMap<String, u32> {
        let read = || Netlink::open().unwrap().real_servers(&at(to)).unwrap();
        let found = self.place(node).run(read).unwrap();
        found.iter().map(|one| (self.name_of(one.server.address.ip()), one.server.weight)).collect()
    }
}
