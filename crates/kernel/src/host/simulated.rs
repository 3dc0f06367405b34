//! A host in memory, for tests that need addresses of their own choosing.
//!
//! It holds what a machine would show, and can be told to fail.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Address, Host, Link, Route, Scope};
use crate::netlink::{Error, Result};

/// What a machine would show.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    /// Its addresses.
    pub addresses: BTreeSet<Address>,
    /// Its links.
    pub links: BTreeSet<Link>,
    /// Its routes.
    pub routes: BTreeSet<Route>,
    /// If set, every reading fails with it.
    pub fault: Option<Error>,
}

impl Simulated {
    /// A link that is up, with an address of global scope; the link is made if it is not there.
    pub fn add(&mut self, link_name: &str, ip: IpAddr, prefix_length: u8) {
        let known = self.links.iter().find(|link| link.name == link_name).map(|link| link.index);
        let link_index = known.unwrap_or_else(|| self.add_link(link_name));
        let (scope, link_name) = (Scope::Global, link_name.to_owned());
        self.addresses.insert(Address { ip, prefix_length, scope, link_index, link_name });
    }

    fn add_link(&mut self, name: &str) -> u32 {
        let index = self.links.iter().map(|link| link.index).max().unwrap_or(0) + 1;
        self.links.insert(Link { index, name: name.to_owned(), is_up: true, is_loopback: name == "lo" });
        index
    }

    fn read<T: Clone>(&self, what: &T) -> Result<T> {
        self.fault.clone().map_or_else(|| Ok(what.clone()), Err)
    }
}

impl Host for Simulated {
    fn addresses(&mut self) -> Result<BTreeSet<Address>> {
        self.read(&self.addresses)
    }

    fn links(&mut self) -> Result<BTreeSet<Link>> {
        self.read(&self.links)
    }

    fn routes(&mut self) -> Result<BTreeSet<Route>> {
        self.read(&self.routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_share_their_link() {
        let mut host = Simulated::default();
        host.add("eth0", "192.168.0.1".parse().unwrap(), 24);
        host.add("eth0", "fd00::1".parse().unwrap(), 64);
        assert_eq!(host.links().unwrap().len(), 1);
        assert!(host.addresses().unwrap().iter().all(|address| address.link_index == 1));
    }

    #[test]
    fn a_fault_strikes_every_reading() {
        let mut host = Simulated { fault: Some(Error::Lost), ..Simulated::default() };
        assert_eq!(host.addresses(), Err(Error::Lost));
    }
}
