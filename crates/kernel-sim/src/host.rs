//! A host in memory, for tests that need addresses of their own choosing.
//!
//! It holds what a machine would show, and can be told to fail.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use kernel::host::{Address, AddressFlags, ChangeError, ChangeHost, Host, Link, Route, Scope, Unchanged};
use kernel::netlink::{Error, Result};

/// What a machine would show.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    /// Its addresses.
    pub addresses: BTreeSet<Address>,
    /// Its links.
    pub links: BTreeSet<Link>,
    /// Its routes.
    pub routes: BTreeSet<Route>,
    /// The source address that it selects for packets to the outside, at most one of each family.
    pub sources: BTreeSet<IpAddr>,
    /// If set, every reading fails with it.
    pub fault: Option<Error>,
    /// If set, every change fails with it.
    pub change_fault: Option<ChangeError>,
}

impl Simulated {
    /// A link that is up, with an address of global scope; the link is made if it is not there.
    pub fn add(&mut self, link_name: &str, ip: IpAddr, prefix_length: u8) {
        self.add_flagged(link_name, ip, prefix_length, AddressFlags::default());
    }

    /// As [`Simulated::add`], with flags.
    pub fn add_flagged(&mut self, link_name: &str, ip: IpAddr, prefix_length: u8, flags: AddressFlags) {
        let known = self.links.iter().find(|link| link.name == link_name).map(|link| link.index);
        let link_index = known.unwrap_or_else(|| self.add_link(link_name));
        let (scope, link_name) = (Scope::Global, link_name.to_owned());
        self.addresses.insert(Address { ip, prefix_length, scope, link_index, link_name, flags });
    }

    fn add_link(&mut self, name: &str) -> u32 {
        let index = self.next_index();
        let (name, is_loopback) = (name.to_owned(), name == "lo");
        self.links.insert(Link { index, name, is_up: true, is_loopback, is_dummy: false });
        index
    }

    fn next_index(&self) -> u32 {
        self.links.iter().map(|link| link.index).max().unwrap_or(0) + 1
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

    fn source_address(&mut self, destination: IpAddr) -> Result<Option<IpAddr>> {
        let source = self.sources.iter().find(|source| source.is_ipv4() == destination.is_ipv4()).copied();
        self.read(&source)
    }
}

impl Simulated {
    fn link(&self, name: &str) -> std::result::Result<Link, ChangeError> {
        self.change_fault.clone().map_or(Ok(()), Err)?;
        let found = self.links.iter().find(|link| link.name == name).cloned();
        found.ok_or_else(|| ChangeError::NoLink(name.to_owned()))
    }
}

impl ChangeHost for Simulated {
    fn make_dummy(&mut self, name: &str) -> std::result::Result<(), ChangeError> {
        match self.link(name) {
            Ok(found) if found.is_dummy => Ok(()),
            Ok(_) => Err(ChangeError::NoDummy(name.to_owned())),
            Err(ChangeError::NoLink(_)) => {
                let (index, name) = (self.next_index(), name.to_owned());
                self.links.insert(Link { index, name, is_up: false, is_loopback: false, is_dummy: true });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn delete_dummy(&mut self, name: &str) -> std::result::Result<(), ChangeError> {
        let link = match self.link(name) {
            Err(ChangeError::NoLink(_)) => return Ok(()),
            other => other?,
        };
        if !link.is_dummy {
            return Err(ChangeError::NoDummy(name.to_owned()));
        }
        self.addresses.retain(|address| address.link_index != link.index);
        self.links.remove(&link);
        Ok(())
    }

    fn add_addresses(
        &mut self,
        link: &str,
        addresses: &[IpAddr],
    ) -> std::result::Result<Vec<Unchanged>, ChangeError> {
        self.link(link)?;
        for ip in addresses {
            if !self.addresses.iter().any(|found| found.ip == *ip && found.link_name == link) {
                self.add(link, *ip, IpNet::from(*ip).max_prefix_len());
            }
        }
        Ok(Vec::new())
    }

    fn delete_addresses(
        &mut self,
        link: &str,
        addresses: &[IpAddr],
    ) -> std::result::Result<Vec<Unchanged>, ChangeError> {
        self.link(link)?;
        let is_meant = |found: &Address| {
            let bits = IpNet::from(found.ip).max_prefix_len();
            found.link_name == link && found.prefix_length == bits && addresses.contains(&found.ip)
        };
        self.addresses.retain(|found| !is_meant(found));
        Ok(Vec::new())
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
