//! An interface of a mode to the kernel, with a watch and a counter: what is asked through it, and how long that takes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use kernel::host::{Address, ChangeError, ChangeHost, Host, Link, Route, Unchanged};
use kernel::ipset::{Entry, FoundSet, Ipsets, SetName};
use kernel::ipvs::{FoundServer, Ipvs, Timeouts, VirtualServer, What};
use kernel::xtables::{Family, Table, Variant, Xtables};
use kernel::{ipset, ipvs, netlink, xtables};
use serde::{Deserialize, Serialize};

use crate::ms;

/// What went through an interface.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Requests that change something; of iptables, runs of the restore program.
    pub writes: u64,
    /// Listings; of iptables, runs of the save program.
    pub listings: u64,
    /// How long the interface was in use.
    pub ms: f64,
}

/// The real interface, watched.
#[derive(Debug)]
pub struct Watched<T> {
    inner: T,
    seen: Seen,
}

impl<T> Watched<T> {
    pub fn new(inner: T) -> Self {
        Self { inner, seen: Seen::default() }
    }

    /// What went through since the last call.
    pub fn take(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    fn write<R>(&mut self, requests: usize, work: impl FnOnce(&mut T) -> R) -> R {
        self.seen.writes += u64::try_from(requests).unwrap_or(u64::MAX);
        self.timed(work)
    }

    fn list<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        self.seen.listings += 1;
        self.timed(work)
    }

    fn timed<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        let start = Instant::now();
        let result = work(&mut self.inner);
        self.seen.ms += ms(start.elapsed());
        result
    }
}

impl<T: Ipvs> Ipvs for Watched<T> {
    fn virtual_servers(&mut self) -> ipvs::Result<Vec<VirtualServer>> {
        self.list(T::virtual_servers)
    }

    fn real_servers(&mut self, of: &What) -> ipvs::Result<Vec<FoundServer>> {
        self.list(|inner| inner.real_servers(of))
    }

    fn run(&mut self, requests: &[ipvs::Request]) -> ipvs::Result<Vec<ipvs::Refused>> {
        self.write(requests.len(), |inner| inner.run(requests))
    }

    fn timeouts(&mut self) -> ipvs::Result<Timeouts> {
        self.list(T::timeouts)
    }

    fn messages(&self) -> u64 {
        self.inner.messages()
    }
}

impl<T: Ipsets> Ipsets for Watched<T> {
    fn sets(&mut self) -> ipset::Result<Vec<FoundSet>> {
        self.list(T::sets)
    }

    fn entries(&mut self, of: &SetName) -> ipset::Result<Option<BTreeSet<Entry>>> {
        self.list(|inner| inner.entries(of))
    }

    fn contains(&mut self, set: &SetName, entry: &Entry) -> ipset::Result<Option<bool>> {
        self.list(|inner| inner.contains(set, entry))
    }

    fn run(&mut self, requests: &[ipset::Request]) -> ipset::Result<Vec<ipset::Refused>> {
        self.write(requests.len(), |inner| inner.run(requests))
    }

    fn messages(&self) -> u64 {
        self.inner.messages()
    }
}

impl<T: Host> Host for Watched<T> {
    fn addresses(&mut self) -> netlink::Result<BTreeSet<Address>> {
        self.list(T::addresses)
    }

    fn links(&mut self) -> netlink::Result<BTreeSet<Link>> {
        self.list(T::links)
    }

    fn routes(&mut self) -> netlink::Result<BTreeSet<Route>> {
        self.list(T::routes)
    }

    fn source_address(&mut self, destination: IpAddr) -> netlink::Result<Option<IpAddr>> {
        self.inner.source_address(destination)
    }
}

impl<T: ChangeHost> ChangeHost for Watched<T> {
    fn make_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        self.write(1, |inner| inner.make_dummy(name))
    }

    fn delete_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        self.write(1, |inner| inner.delete_dummy(name))
    }

    fn add_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        self.write(addresses.len(), |inner| inner.add_addresses(link, addresses))
    }

    fn delete_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        self.write(addresses.len(), |inner| inner.delete_addresses(link, addresses))
    }
}

impl<T: Xtables> Xtables for Watched<T> {
    fn variant(&self) -> Variant {
        self.inner.variant()
    }

    fn family(&self) -> Family {
        self.inner.family()
    }

    fn save(&mut self, table: Table) -> xtables::Result<Option<String>> {
        self.list(|inner| inner.save(table))
    }

    fn restore(&mut self, text: &str) -> xtables::Result<()> {
        self.write(1, |inner| inner.restore(text))
    }
}
