//! Doors that leave out everything of one kind: all entries of a set, all virtual servers by mark, all addresses, and so on.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use kernel::host::{Address, ChangeError, ChangeHost, Host, Link, Route, Unchanged};
use kernel::ipset::{self, Ipsets};
use kernel::ipvs::{self, Ipvs, Request, What};
use kernel::netlink;
use kernel_sim::host::Simulated;

use crate::iptables::mutation::{Kind, Mutation};

/// A door that leaves out what the mutation says. All doors share it.
#[derive(Clone, Debug)]
pub(crate) struct Missing<T> {
    pub(crate) door: T,
    mutation: Arc<Mutex<Mutation>>,
}

impl<T> Missing<T> {
    pub(crate) fn new(door: T, mutation: &Arc<Mutex<Mutation>>) -> Self {
        Self { door, mutation: Arc::clone(mutation) }
    }

    fn keeps(&self, kind: Kind) -> bool {
        self.mutation.lock().unwrap_or_else(PoisonError::into_inner).keeps(kind)
    }
}

fn kind_of_server(request: &Request) -> Option<Kind> {
    let (what, is_real) = match request {
        Request::Add(server) | Request::Change(server) => (&server.what, false),
        Request::Delete(what) => (what, false),
        Request::AddServer(what, _) | Request::ChangeServer(what, _) | Request::DeleteServer(what, _) => {
            (what, true)
        }
        Request::SetTimeouts(_) => return None,
    };
    let by = if matches!(what, What::Mark(..)) { "by mark" } else { "by address" };
    Some(Kind::of_door(if is_real { "real servers" } else { "virtual servers" }, by))
}

impl<T: Ipvs> Ipvs for Missing<T> {
    fn virtual_servers(&mut self) -> ipvs::Result<Vec<ipvs::VirtualServer>> {
        self.door.virtual_servers()
    }

    fn real_servers(&mut self, of: &What) -> ipvs::Result<Vec<ipvs::FoundServer>> {
        self.door.real_servers(of)
    }

    /// Without a virtual server there is nothing to put real ones behind.
    fn run(&mut self, requests: &[Request]) -> ipvs::Result<Vec<ipvs::Refused>> {
        let is_kept = |request: &&Request| kind_of_server(request).is_none_or(|kind| self.keeps(kind));
        let kept: Vec<Request> = requests.iter().filter(is_kept).cloned().collect();
        let mut refused = self.door.run(&kept)?;
        refused.retain(|refused| !refused.is_missing());
        Ok(refused)
    }

    fn timeouts(&mut self) -> ipvs::Result<ipvs::Timeouts> {
        self.door.timeouts()
    }

    fn messages(&self) -> u64 {
        self.door.messages()
    }
}

impl<T: Ipsets> Ipsets for Missing<T> {
    fn sets(&mut self) -> ipset::Result<Vec<ipset::FoundSet>> {
        self.door.sets()
    }

    fn entries(&mut self, of: &ipset::SetName) -> ipset::Result<Option<BTreeSet<ipset::Entry>>> {
        self.door.entries(of)
    }

    fn contains(&mut self, set: &ipset::SetName, entry: &ipset::Entry) -> ipset::Result<Option<bool>> {
        self.door.contains(set, entry)
    }

    fn run(&mut self, requests: &[ipset::Request]) -> ipset::Result<Vec<ipset::Refused>> {
        let is_kept = |request: &&ipset::Request| match request {
            ipset::Request::Add(name, _) => {
                self.keeps(Kind::of_door("set", &name.as_str().replace("-6-", "-")))
            }
            _ => true,
        };
        let kept: Vec<ipset::Request> = requests.iter().filter(is_kept).cloned().collect();
        self.door.run(&kept)
    }

    fn messages(&self) -> u64 {
        self.door.messages()
    }
}

impl Host for Missing<Simulated> {
    fn addresses(&mut self) -> netlink::Result<BTreeSet<Address>> {
        self.door.addresses()
    }

    fn links(&mut self) -> netlink::Result<BTreeSet<Link>> {
        self.door.links()
    }

    fn routes(&mut self) -> netlink::Result<BTreeSet<Route>> {
        self.door.routes()
    }

    fn source_address(&mut self, destination: IpAddr) -> netlink::Result<Option<IpAddr>> {
        self.door.source_address(destination)
    }
}

impl ChangeHost for Missing<Simulated> {
    fn make_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        self.door.make_dummy(name)
    }

    fn delete_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        self.door.delete_dummy(name)
    }

    fn add_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        if self.keeps(Kind::of_door("addresses", "")) {
            self.door.add_addresses(link, addresses)
        } else {
            Ok(Vec::new())
        }
    }

    fn delete_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        self.door.delete_addresses(link, addresses)
    }
}
