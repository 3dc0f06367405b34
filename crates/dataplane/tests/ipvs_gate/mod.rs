//! Doors that let so many single writes through and then fail: all doors of a kernel share one gate, so that the kernel can be looked
//! at after each write of a sync.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernel::host::{Address, ChangeError, ChangeHost, Host, Link, Route, Unchanged};
use kernel::ipset::{self, Ipsets};
use kernel::ipvs::{self, Ipvs};
use kernel::netlink;
use kernel::sysctl::{self, Sysctls};
use kernel::xtables::{self, Family, Table, Variant, Xtables};
use kernel_sim::xtables::parts;

/// How many writes may still pass, and how many have.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    left: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn open() -> Self {
        Self { left: Arc::new(usize::MAX.into()), passed: Arc::default() }
    }

    /// From now on so many pass.
    pub(crate) fn let_through(&self, writes: usize) {
        self.left.store(writes, Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
    }

    pub(crate) fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    fn passes(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        self.passed.fetch_add(usize::from(left > 0), Ordering::Relaxed);
        left > 0
    }
}

/// A door behind the gate.
#[derive(Clone, Debug)]
pub(crate) struct Gated<T> {
    pub(crate) door: T,
    gate: Gate,
}

impl<T> Gated<T> {
    pub(crate) fn new(door: T, gate: &Gate) -> Self {
        Self { door, gate: gate.clone() }
    }
}

const LOST: netlink::Error = netlink::Error::Lost;

impl<T: Ipvs> Ipvs for Gated<T> {
    fn virtual_servers(&mut self) -> ipvs::Result<Vec<ipvs::VirtualServer>> {
        self.door.virtual_servers()
    }

    fn real_servers(&mut self, of: &ipvs::What) -> ipvs::Result<Vec<ipvs::FoundServer>> {
        self.door.real_servers(of)
    }

    fn run(&mut self, requests: &[ipvs::Request]) -> ipvs::Result<Vec<ipvs::Refused>> {
        let mut refused = Vec::new();
        for request in requests {
            if !self.gate.passes() {
                return Err(ipvs::Error::Netlink(LOST));
            }
            refused.extend(self.door.run(std::slice::from_ref(request))?);
        }
        Ok(refused)
    }

    fn timeouts(&mut self) -> ipvs::Result<ipvs::Timeouts> {
        self.door.timeouts()
    }

    fn messages(&self) -> u64 {
        self.door.messages()
    }
}

impl<T: Ipsets> Ipsets for Gated<T> {
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
        let mut refused = Vec::new();
        for request in requests {
            if !self.gate.passes() {
                return Err(ipset::Error::Netlink(LOST));
            }
            refused.extend(self.door.run(std::slice::from_ref(request))?);
        }
        Ok(refused)
    }

    fn messages(&self) -> u64 {
        self.door.messages()
    }
}

impl<T: Host> Host for Gated<T> {
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

impl<T: ChangeHost> Gated<T> {
    fn one_by_one(
        &mut self,
        addresses: &[IpAddr],
        change: impl Fn(&mut T, &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError>,
    ) -> Result<Vec<Unchanged>, ChangeError> {
        let mut unchanged = Vec::new();
        for address in addresses {
            if !self.gate.passes() {
                return Err(ChangeError::Netlink(LOST));
            }
            unchanged.extend(change(&mut self.door, std::slice::from_ref(address))?);
        }
        Ok(unchanged)
    }
}

impl<T: ChangeHost> ChangeHost for Gated<T> {
    fn make_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        if self.gate.passes() { self.door.make_dummy(name) } else { Err(ChangeError::Netlink(LOST)) }
    }

    fn delete_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        if self.gate.passes() { self.door.delete_dummy(name) } else { Err(ChangeError::Netlink(LOST)) }
    }

    fn add_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        self.one_by_one(addresses, |door, one| door.add_addresses(link, one))
    }

    fn delete_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        self.one_by_one(addresses, |door, one| door.delete_addresses(link, one))
    }
}

impl<T: Sysctls> Sysctls for Gated<T> {
    fn read(&mut self, name: &str) -> sysctl::Result<Option<String>> {
        self.door.read(name)
    }

    fn write(&mut self, name: &str, value: &str) -> sysctl::Result<()> {
        let lost = || sysctl::Error { name: name.into(), verb: "set".into(), reason: "lost".into() };
        if self.gate.passes() { self.door.write(name, value) } else { Err(lost()) }
    }
}

impl<T: Xtables> Xtables for Gated<T> {
    fn variant(&self) -> Variant {
        self.door.variant()
    }

    fn family(&self) -> Family {
        self.door.family()
    }

    fn save(&mut self, table: Table) -> xtables::Result<Option<String>> {
        self.door.save(table)
    }

    fn restore(&mut self, text: &str) -> xtables::Result<()> {
        for part in parts(text) {
            if !self.gate.passes() {
                let (program, stderr) = ("iptables-restore".to_owned(), "injected".to_owned());
                return Err(xtables::Error::Locked { program, stderr });
            }
            self.door.restore(part)?;
        }
        Ok(())
    }
}
