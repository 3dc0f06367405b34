//! A place: one network namespace with a name and its addresses. Nodes, pods and the outside client are places.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

use crate::error::{Error, Result, Trying};
use crate::ip::Batch;
use crate::patience::patient;
use crate::plan::{Family, Pair};

/// Links that have not come up by then will not.
const LINKS_LIMIT: Duration = Duration::from_secs(10);
const LINKS_POLL: Duration = Duration::from_micros(500);

/// A network namespace in the playground. A clone is the same place.
#[derive(Debug, Clone)]
pub struct Place {
    name: String,
    addresses: Pair,
    namespace: Namespace,
}

impl Place {
    /// Makes an empty place with its settings: links that are born later copy them.
    pub(crate) fn create(name: &str, addresses: Pair, settings: &[(&str, &str)]) -> Result<Self> {
        let namespace = Namespace::create().trying(|| format!("make the namespace of `{name}`"))?;
        let place = Self { name: name.into(), addresses, namespace };
        place.set(settings)?;
        Ok(place)
    }

    /// Its name, as servers give it: `web-a-0`, `client-b`, `outside`; a node is called `a` or `b`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its addresses.
    pub fn addresses(&self) -> Pair {
        self.addresses
    }

    /// Its address of one family.
    pub fn address(&self, family: Family) -> IpAddr {
        self.addresses.of(family)
    }

    /// Its address of one family with a port: something to dial.
    pub fn at(&self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(family), port)
    }

    /// The namespace, for what has no shorter way here.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Runs a closure on a thread inside.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.namespace.run(work).trying(|| format!("enter `{}`", self.name))
    }

    /// Has the `ip` program carry out lines such as `route replace blackhole 10.9.0.0/16`.
    pub fn ip<S: Into<String>>(&self, lines: impl IntoIterator<Item = S>) -> Result<()> {
        let mut batch = Batch::default();
        lines.into_iter().for_each(|line| batch.add(line));
        self.carry_out(batch)
    }

    pub(crate) fn carry_out(&self, batch: Batch) -> Result<()> {
        batch.run(&self.namespace, &self.name)
    }

    /// Writes settings below `/proc/sys/net`, such as `("ipv4/ip_forward", "1")`.
    pub fn set(&self, settings: &[(&str, &str)]) -> Result<()> {
        self.run(|| settings.iter().try_for_each(|(key, value)| self.set_one(key, value)))?
    }

    /// Waits until so many links can carry packets. The kernel raises a link's carrier at its own pace, and
    /// until then silently drops what is sent there, such as the one ARP request of this second. IPv6 gives
    /// a link its own link-local address at exactly that moment, so these are counted.
    pub(crate) fn wait_for_links(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + patient(LINKS_LIMIT);
        let is_ready = || count_link_locals().is_some_and(|ready| ready >= count);
        let wait = || {
            while !is_ready() && Instant::now() < deadline {
                thread::sleep(LINKS_POLL);
            }
            is_ready()
        };
        if self.run(wait)? { Ok(()) } else { Err(Error::NotReady { place: self.name.clone(), links: count }) }
    }

    fn set_one(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/net/{key}");
        fs::write(&path, value).trying(|| format!("write `{value}` to {path} in `{}`", self.name))
    }
}

/// How many links of the calling thread's namespace have a link-local address.
fn count_link_locals() -> Option<usize> {
    let addresses = fs::read_to_string("/proc/thread-self/net/if_inet6").ok()?;
    Some(addresses.lines().filter(|line| line.starts_with("fe80")).count())
}
