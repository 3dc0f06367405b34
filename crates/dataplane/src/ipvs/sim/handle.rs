//! Handles of a simulated kernel that let so many single writes through and then fail, that refuse what is added for one address, that leave out everything of one kind (all entries
//! of a set, all virtual servers by mark, all addresses), and take note of the kinds.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::host::{Address, ChangeError, ChangeHost, Host, Link, Route, Unchanged};
use kernel::ipset::{self, Ipsets};
use kernel::ipvs::{self, Ipvs, Request, What};
use kernel::netlink;
use kernel::sysctl::{self, Sysctls};

use crate::xtables::sim::{Gate, Mutation};

/// What all handles of one kernel share.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    pub(super) gate: Gate,
    mutation: Arc<Mutex<Option<Mutation>>>,
    refused: Arc<Mutex<Option<IpAddr>>>,
}

impl Control {
    /// For the handles of another kernel.
    pub(super) fn copy(&self) -> Self {
        let mutation = Arc::new(Mutex::new(self.mutation().clone()));
        Self { gate: Gate::default(), mutation, refused: Arc::new(Mutex::new(self.refused())) }
    }

    pub(super) fn mutate(&self, mutation: Mutation) {
        *self.mutation() = Some(mutation);
    }

    /// Whatever is added for this address is refused from now on.
    pub(super) fn refuse(&self, address: Option<IpAddr>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    fn refused(&self) -> Option<IpAddr> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kinds(&self) -> BTreeSet<String> {
        self.mutation().as_ref().map(|mutation| mutation.seen.clone()).unwrap_or_default()
    }

    fn mutation(&self) -> MutexGuard<'_, Option<Mutation>> {
        self.mutation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeps(&self, part: &str, what: &str) -> bool {
        let kind = || format!("{part} {what} [] \"\" -> nothing");
        self.mutation().as_mut().is_none_or(|mutation| mutation.keeps(kind()))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Handle<T> {
    pub(super) part: T,
    control: Control,
}

const LOST: netlink::Error = netlink::Error::Lost;

impl<T> Handle<T> {
    pub(super) fn new(part: T, control: &Control) -> Self {
        Self { part, control: control.clone() }
    }

    fn pass<E>(&self, lost: E) -> Result<(), E> {
        if self.control.gate.passes() { Ok(()) } else { Err(lost) }
    }
}

impl<T: Ipvs> Ipvs for Handle<T> {
    fn virtual_servers(&mut self) -> ipvs::Result<Vec<ipvs::VirtualServer>> {
        self.part.virtual_servers()
    }

    fn real_servers(&mut self, of: &What) -> ipvs::Result<Vec<ipvs::FoundServer>> {
        self.part.real_servers(of)
    }

    /// Where virtual servers are left out, there is nothing to put real ones behind.
    fn run(&mut self, requests: &[Request]) -> ipvs::Result<Vec<ipvs::Refused>> {
        let mut refused = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            if !kind_of(request).is_none_or(|(part, by)| self.control.keeps(part, by)) {
                continue;
            }
            self.pass(ipvs::Error::Netlink(LOST))?;
            if added_for(request).is_some_and(|ip| self.control.refused() == Some(ip)) {
                let refusal = netlink::Errno(libc::EINVAL).into();
                refused.push(ipvs::Refused { at, request: request.clone(), refusal });
                continue;
            }
            let found = self.part.run(std::slice::from_ref(request))?;
            refused.extend(found.into_iter().map(|one| ipvs::Refused { at, ..one }));
        }
        if self.control.mutation().as_ref().is_some_and(|mutation| mutation.left_out.is_some()) {
            refused.retain(|refused| !refused.is_missing());
        }
        Ok(refused)
    }

    fn timeouts(&mut self) -> ipvs::Result<ipvs::Timeouts> {
        self.part.timeouts()
    }

    fn messages(&self) -> u64 {
        self.part.messages()
    }
}

/// The address for which a server is added.
fn added_for(request: &Request) -> Option<IpAddr> {
    match request {
        Request::Add(ipvs::VirtualServer { what: What::Address(at, _), .. })
        | Request::AddServer(What::Address(at, _), _) => Some(at.ip()),
        _ => None,
    }
}

fn kind_of(request: &Request) -> Option<(&'static str, &'static str)> {
    let (what, part) = match request {
        Request::Add(server) | Request::Change(server) => (&server.what, "virtual servers"),
        Request::Delete(what) => (what, "virtual servers"),
        Request::AddServer(what, _) | Request::ChangeServer(what, _) | Request::DeleteServer(what, _) => {
            (what, "real servers")
        }
        Request::SetTimeouts(_) => return None,
    };
    Some((part, if matches!(what, What::Mark(..)) { "by mark" } else { "by address" }))
}

impl<T: Ipsets> Ipsets for Handle<T> {
    fn sets(&mut self) -> ipset::Result<Vec<ipset::FoundSet>> {
        self.part.sets()
    }

    fn entries(&mut self, of: &ipset::SetName) -> ipset::Result<Option<BTreeSet<ipset::Entry>>> {
        self.part.entries(of)
    }

    fn contains(&mut self, set: &ipset::SetName, entry: &ipset::Entry) -> ipset::Result<Option<bool>> {
        self.part.contains(set, entry)
    }

    fn run(&mut self, requests: &[ipset::Request]) -> ipset::Result<Vec<ipset::Refused>> {
        let mut refused = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            if let ipset::Request::Add(name, _) = request
                && !self.control.keeps("set", &name.as_str().replace("-6-", "-"))
            {
                continue;
            }
            self.pass(ipset::Error::Netlink(LOST))?;
            if matches!(request, ipset::Request::Add(_, entry) if self.control.refused().is_some_and(|ip| is_of(entry, ip)))
            {
                let refusal = netlink::Errno(libc::EINVAL).into();
                refused.push(ipset::Refused { at, request: request.clone(), refusal });
                continue;
            }
            let found = self.part.run(std::slice::from_ref(request))?;
            refused.extend(found.into_iter().map(|one| ipset::Refused { at, ..one }));
        }
        Ok(refused)
    }

    fn messages(&self) -> u64 {
        self.part.messages()
    }
}

fn is_of(entry: &ipset::Entry, address: IpAddr) -> bool {
    use ipset::Entry;
    matches!(entry, Entry::Ip(ip) | Entry::IpPort(ip, ..) | Entry::IpPortNet(ip, ..) if *ip == address)
}

impl<T: Host> Host for Handle<T> {
    fn addresses(&mut self) -> netlink::Result<BTreeSet<Address>> {
        self.part.addresses()
    }

    fn links(&mut self) -> netlink::Result<BTreeSet<Link>> {
        self.part.links()
    }

    fn routes(&mut self) -> netlink::Result<BTreeSet<Route>> {
        self.part.routes()
    }

    fn source_address(&mut self, destination: IpAddr) -> netlink::Result<Option<IpAddr>> {
        self.part.source_address(destination)
    }
}

impl<T: ChangeHost> ChangeHost for Handle<T> {
    fn make_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        self.pass(ChangeError::Netlink(LOST))?;
        self.part.make_dummy(name)
    }

    fn delete_dummy(&mut self, name: &str) -> Result<(), ChangeError> {
        self.pass(ChangeError::Netlink(LOST))?;
        self.part.delete_dummy(name)
    }

    fn add_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        let mut unchanged = Vec::new();
        for address in addresses {
            if self.control.keeps("addresses", "") {
                self.pass(ChangeError::Netlink(LOST))?;
                unchanged.extend(self.part.add_addresses(link, std::slice::from_ref(address))?);
            }
        }
        Ok(unchanged)
    }

    fn delete_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError> {
        let mut unchanged = Vec::new();
        for address in addresses {
            self.pass(ChangeError::Netlink(LOST))?;
            unchanged.extend(self.part.delete_addresses(link, std::slice::from_ref(address))?);
        }
        Ok(unchanged)
    }
}

impl<T: Sysctls> Sysctls for Handle<T> {
    fn read(&mut self, name: &str) -> sysctl::Result<Option<String>> {
        self.part.read(name)
    }

    fn write(&mut self, name: &str, value: &str) -> sysctl::Result<()> {
        self.pass(sysctl::Error { name: name.into(), verb: "set".into(), reason: "lost".into() })?;
        self.part.write(name, value)
    }
}
