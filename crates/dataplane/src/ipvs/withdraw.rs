//! Another mode serves now: ours goes, place by place, as connections leave it.
//!
//! In: a kernel in which the rules of another mode are in force, and none of ours any more. Out: what went, and what still waits.
//!
//! New connections are translated before IPVS sees them, so it keeps only what is open. That stays, with its addresses, until no connection
//! is left, of UDP until clients have rested; or until the caller has waited long enough. Who still sends datagrams then has his flows
//! forgotten first, so that the next one is the other mode's. Not before: flows of the other mode look the same, and an answer whose flow
//! is forgotten is lost. Then go sets and interface, and settings are as they were; but forwarding stays switched on, since the other mode
//! needs it.
//!
//! Absent on purpose: upstream's. What is not in our records is not ours to take away while somebody might use it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::IpProtocol;
use kernel::ipset::{self, Entry};
use kernel::ipvs::{Request, What};
use model::Family;
use model::flows::StaleFlows;

use super::doors::Doors;
use super::items::{Item, Place};
use super::marks::Marks;
use super::names::SetId;
use super::observed::{self, Observed};
use super::steps::Step;
use super::{DUMMY, Options, cleanup, settings, write};
use crate::SyncError;

/// Has the connection tracker forget flows.
pub type Forget<'a> = dyn FnMut(&BTreeSet<StaleFlows>) -> Result<(), String> + 'a;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn {
    /// Virtual servers that went.
    pub servers: usize,
    /// Addresses that went.
    pub addresses: usize,
    /// Virtual servers that wait for their connections to end.
    pub waiting: usize,
    /// How many connections those have.
    pub connections: u32,
    /// Sets that rules still use; all sets wait for them. The kernel lets go of a rule of `nf_tables` some time after it was deleted.
    pub used_sets: usize,
}

/// Removes what no connection goes through; with `whatever`, all of it.
pub fn withdraw(
    doors: &mut dyn Doors,
    whatever: bool,
    forget: &mut Forget<'_>,
) -> Result<Withdrawn, SyncError> {
    // No interface is in use any more: all of our addresses are those of an earlier life.
    let options = Options { interface: String::new(), ..Options::default() };
    let found = observed::read(doors, &Family::ALL, &options, &[].into())?;
    let mut left = Left::default();
    let mut overdue = BTreeSet::new();
    for what in whats(&found) {
        match connections(doors, &what)? {
            0 => {}
            _ if whatever => drop(overdue.insert(what)),
            count => left.hold(what, count, &found),
        }
    }
    let gone: BTreeSet<What> = whats(&found).filter(|what| !left.servers.contains(what)).collect();
    let strays: BTreeSet<(String, IpAddr)> =
        found.strays.iter().filter(|(_, ip)| !left.addresses.contains(ip)).cloned().collect();
    forget(&stale(&overdue)).map_err(super::Error::Refused)?;
    for (interface, ip) in &strays {
        write::step(doors, interface, &Step::DeleteAddresses(vec![*ip]))?;
    }
    write::step(doors, DUMMY, &Step::Servers(gone.iter().copied().map(Request::Delete).collect()))?;
    write::step(doors, DUMMY, &Step::Sets(records(&found, &gone, &strays)))?;
    let used_sets = if left.servers.is_empty() { finish(doors, &found)? } else { 0 };
    let (servers, addresses) = (gone.len(), strays.len());
    let (waiting, connections) = (left.servers.len(), left.connections);
    Ok(Withdrawn { servers, addresses, waiting, connections, used_sets })
}

/// What stays for its connections.
#[derive(Default)]
struct Left {
    servers: BTreeSet<What>,
    addresses: BTreeSet<IpAddr>,
    connections: u32,
}

impl Left {
    /// Who came by mark dialled some place with `externalTrafficPolicy: Local`: nobody knows any more which.
    fn hold(&mut self, what: What, connections: u32, found: &Observed) {
        self.servers.insert(what);
        self.connections = self.connections.saturating_add(connections);
        match what {
            What::Address(at, _) => drop(self.addresses.insert(at.ip())),
            What::Mark(..) => self.addresses.extend(found.items.iter().filter_map(|item| match item {
                Item::Entry(_, SetId::Local, Entry::IpPort(ip, ..)) => Some(*ip),
                _ => None,
            })),
        }
    }
}

fn whats(found: &Observed) -> impl Iterator<Item = What> + '_ {
    found.items.iter().filter_map(|item| if let Item::Server(one) = item { Some(one.what) } else { None })
}

fn connections(doors: &mut dyn Doors, what: &What) -> Result<u32, SyncError> {
    let real = doors.servers().real_servers(what)?;
    Ok(real.iter().map(|one| one.active.saturating_add(one.inactive)).fold(0, u32::saturating_add))
}

fn stale(overdue: &BTreeSet<What>) -> BTreeSet<StaleFlows> {
    let udp = overdue.iter().filter_map(|what| match what {
        What::Address(at, IpProtocol::UDP) => Some((at.ip(), at.port())),
        _ => None,
    });
    let flows = |destination| StaleFlows {
        protocol: model::Protocol::Udp,
        destination,
        still_served_by: BTreeSet::new(),
    };
    udp.map(flows).collect()
}

/// The records of what is gone.
fn records(
    found: &Observed,
    gone: &BTreeSet<What>,
    strays: &BTreeSet<(String, IpAddr)>,
) -> Vec<ipset::Request> {
    let is_gone = |family: Family, set: SetId, entry: Entry| match (set, entry) {
        (SetId::Servers, Entry::IpPort(ip, protocol, port)) => {
            gone.contains(&Place { ip, protocol, port }.what())
        }
        (SetId::Marks, Entry::Port(number)) => gone.contains(&What::Mark(Marks::mark(number), family)),
        (SetId::Bound, Entry::Ip(ip)) => strays.iter().any(|(_, gone)| *gone == ip),
        _ => false,
    };
    let request = |item: &Item| match item {
        Item::Entry(family, set, entry) if is_gone(*family, *set, *entry) => {
            Some(ipset::Request::Delete(set.name(*family), *entry))
        }
        _ => None,
    };
    found.items.iter().filter_map(request).collect()
}

/// The last connection has left. The interface goes if we made it and nobody else put anything there. Nothing goes while a set is in use, or
/// nobody would know of the rest by the records that are gone. How many are.
fn finish(doors: &mut dyn Doors, found: &Observed) -> Result<usize, SyncError> {
    let used_sets = cleanup::used_sets(doors)?;
    if used_sets > 0 {
        return Ok(used_sets);
    }
    let addresses = doors.host().addresses().map_err(super::Error::Addresses)?;
    let is_own = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let is_used = addresses.iter().any(|address| address.link_name == DUMMY && !is_own(address.ip));
    if found.interfaces.contains(DUMMY) && !is_used && cleanup::has_link(doors, DUMMY)? {
        doors.host().delete_dummy(DUMMY)?;
    }
    settings::forget(doors, settings::FORWARDING)?;
    cleanup::own_sets(doors).map(|()| 0)
}
