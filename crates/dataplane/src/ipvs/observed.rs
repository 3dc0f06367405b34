//! What the kernel holds of ours, in the same words as what it shall hold.
//!
//! Virtual servers carry no name. Ours are those in our sets of records, and those that are desired, whoever made them. Upstream's are
//! known by the interface `kube-ipvs0` and by its sets of node ports: they are ours to remove. All others are foreign, and so is
//! whatever lies in networks that the operator excluded.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::IpProtocol;
use kernel::ipset::{Entry, FoundSet, SetName};
use kernel::ipvs::{Forwarding, VirtualServer, What};
use kernel::xtables::{FoundRule, FoundTable, Is, Match, Rule, Table, Target, Xtables};
use model::Family;
use model::net::IpNet;

use super::doors::Doors;
use super::error::Error;
use super::items::{Item, Place};
use super::marks::Marks;
use super::names::{self, SetId};
use super::steps::Draining;
use super::{DUMMY, Options};
use crate::SyncError;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) items: BTreeSet<Item>,
    /// Sets that are there, of whomever.
    pub(super) sets: Vec<FoundSet>,
    /// Whether the interface is there and up.
    pub(super) has_interface: bool,
    /// Real servers of weight 0 that nobody asks for.
    pub(super) draining: Draining,
    /// Interfaces of which there is a record.
    pub(super) interfaces: BTreeSet<String>,
    /// Addresses that an earlier life gave another interface, with its name.
    pub(super) strays: BTreeSet<(String, IpAddr)>,
    /// Virtual servers that are desired, and that neither we nor upstream made.
    pub(super) strangers: BTreeSet<What>,
    /// Every address of this host.
    own: BTreeSet<IpAddr>,
}

/// Reads all that is ours.
pub(super) fn read(
    doors: &mut dyn Doors,
    families: &[Family],
    options: &Options,
    desired: &BTreeSet<Item>,
) -> Result<Observed, SyncError> {
    let sets = doors.sets().sets()?;
    let interfaces =
        sets.iter().filter_map(|set| names::interface_of(&set.name)).map(str::to_owned).collect();
    let mut observed = Observed { sets, interfaces, ..Observed::default() };
    for family in families {
        read_sets(doors, *family, &mut observed)?;
    }
    read_addresses(doors, families, options, desired, &mut observed)?;
    let upstream = Upstream::read(doors, options, &observed)?;
    for server in doors.servers().virtual_servers()? {
        let is_of_family = families.iter().any(|family| *family == server.what.family());
        let is_known = is_of_family && is_known(&server, &observed, &upstream, options);
        let is_desired = is_of_family && is_desired(&server.what, desired);
        if is_desired && !is_known && !is_recorded(&server.what, &observed) {
            observed.strangers.insert(server.what);
        }
        if is_known || is_desired {
            read_server(doors, server, desired, &mut observed)?;
        }
    }
    Ok(observed)
}

fn read_sets(doors: &mut dyn Doors, family: Family, observed: &mut Observed) -> Result<(), SyncError> {
    for set in SetId::ALL {
        let entries = doors.sets().entries(&set.name(family))?.unwrap_or_default();
        observed.items.extend(entries.into_iter().map(|entry| Item::Entry(family, set, entry)));
    }
    Ok(())
}

/// On the interface that this mode and upstream's make, every address of one host is a Service's. On any other, those that we put
/// there.
fn read_addresses(
    doors: &mut dyn Doors,
    families: &[Family],
    options: &Options,
    desired: &BTreeSet<Item>,
    observed: &mut Observed,
) -> Result<(), SyncError> {
    let links = doors.host().links().map_err(Error::Addresses)?;
    observed.has_interface = links.iter().any(|link| link.name == options.interface);
    for address in doors.host().addresses().map_err(Error::Addresses)? {
        let (ip, family) = (address.ip, Family::of(address.ip));
        observed.own.insert(ip);
        let is_single = address.prefix_length == IpNet::from(ip).max_prefix_len();
        let is_bound = observed.items.contains(&Item::Entry(family, SetId::Bound, Entry::Ip(ip)));
        let is_services = options.interface == DUMMY && !is_excluded(ip, options);
        let is_ours = is_bound || is_services || desired.contains(&Item::Address(ip));
        let is_fit = is_single && families.contains(&family);
        if is_ours && is_fit && address.link_name == options.interface {
            observed.items.insert(Item::Address(ip));
        } else if is_bound && is_fit && observed.interfaces.contains(&address.link_name) {
            observed.strays.insert((address.link_name, ip));
        }
    }
    Ok(())
}

/// What tells upstream's virtual servers.
struct Upstream {
    node_ports: BTreeSet<(IpProtocol, u16)>,
}

impl Upstream {
    fn read(doors: &mut dyn Doors, options: &Options, observed: &Observed) -> Result<Self, SyncError> {
        let mut node_ports = BTreeSet::new();
        for set in observed.sets.iter().filter(|_| options.interface == DUMMY) {
            let Some(protocol) = names::node_ports_of_upstream(&set.name) else { continue };
            let Some(name) = SetName::new(&set.name) else { continue };
            let entries = doors.sets().entries(&name)?.unwrap_or_default();
            node_ports.extend(entries.iter().filter_map(|entry| match entry {
                Entry::Port(port) | Entry::IpPort(_, _, port) => Some((protocol, *port)),
                _ => None,
            }));
        }
        Ok(Self { node_ports })
    }
}

/// Is it ours by our records, or upstream's?
fn is_known(server: &VirtualServer, observed: &Observed, upstream: &Upstream, options: &Options) -> bool {
    match server.what {
        What::Address(at, protocol) => {
            let place = Place { ip: at.ip(), protocol, port: at.port() };
            let is_theirs = observed.items.contains(&Item::Address(place.ip)) && options.interface == DUMMY
                || observed.own.contains(&place.ip) && upstream.node_ports.contains(&(protocol, place.port));
            !is_excluded(place.ip, options) && (is_recorded(&server.what, observed) || is_theirs)
        }
        What::Mark(..) => is_recorded(&server.what, observed),
    }
}

/// Do our records say that we made it?
fn is_recorded(what: &What, observed: &Observed) -> bool {
    let record = match *what {
        What::Address(at, protocol) => {
            let place = Place { ip: at.ip(), protocol, port: at.port() };
            Some(Item::Entry(Family::of(place.ip), SetId::Servers, place.entry()))
        }
        What::Mark(mark, family) => {
            Marks::number(mark).map(|number| Item::Entry(family, SetId::Marks, Entry::Port(number)))
        }
    };
    record.is_some_and(|record| observed.items.contains(&record))
}

pub(super) fn is_excluded(ip: IpAddr, options: &Options) -> bool {
    options.excluded.iter().any(|net| net.contains(&ip))
}

fn is_desired(what: &What, desired: &BTreeSet<Item>) -> bool {
    let first = Item::Server(VirtualServer { client_bits: 0, ..VirtualServer::new(*what, "") });
    matches!(desired.range(first..).next(), Some(Item::Server(server)) if server.what == *what)
}

fn read_server(
    doors: &mut dyn Doors,
    server: VirtualServer,
    desired: &BTreeSet<Item>,
    observed: &mut Observed,
) -> Result<(), SyncError> {
    let what = server.what;
    for found in doors.servers().real_servers(&what)? {
        let (address, weight) = (found.server.address, found.server.weight);
        // One that is reached in another way than ours are is never right.
        let weight = if found.server.forwarding == Forwarding::Masquerade { weight } else { u32::MAX };
        let real = Item::Real(what, address, weight);
        let needed = desired.range(Item::Real(what, address, 0)..=Item::Real(what, address, u32::MAX));
        if weight == 0 && needed.count() == 0 {
            observed.draining.insert((what, address));
        } else {
            observed.items.insert(real);
        }
    }
    observed.items.insert(Item::Server(server));
    Ok(())
}

/// The places that rules of an earlier life mark, with their marks.
pub(super) fn marked<'a, X: Xtables + 'a>(
    doors: impl Iterator<Item = &'a mut X>,
) -> kernel::xtables::Result<Vec<(Place, u32)>> {
    let mut found = Vec::new();
    for door in doors {
        let Some(text) = door.save(Table::Mangle)? else { continue };
        let table = FoundTable::parse(&text);
        let rules = table.chain(names::OUTSIDE).map(|chain| chain.rules.as_slice()).unwrap_or_default();
        found.extend(rules.iter().filter_map(FoundRule::known).filter_map(marks));
    }
    Ok(found)
}

fn marks(rule: &Rule) -> Option<(Place, u32)> {
    let Some(Target::SetMark(mark) | Target::Xmark { value: mark, mask: u32::MAX }) = rule.target else {
        return None;
    };
    let (mut ip, mut protocol, mut port) = (None, None, None);
    for part in &rule.parts {
        match part {
            Match::Destination(Is::Equal, net) => ip = Some(net.addr()),
            Match::Protocol(number) | Match::PlainProtocol(number) => protocol = Some(*number),
            Match::DestinationPort(number) => port = Some(*number),
            _ => {}
        }
    }
    Some((Place { ip: ip?, protocol: protocol?, port: port? }, mark))
}
