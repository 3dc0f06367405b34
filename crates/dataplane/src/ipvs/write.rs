//! Carries out steps, and gathers what was refused.

use std::net::IpAddr;

use kernel::IpProtocol;
use kernel::ipset::{self, Entry};
use kernel::ipvs::{Request, What};
use kernel::{host, ipvs};
use model::Family;

use super::doors::Doors;
use super::error::refused;
use super::items::Item;
use super::names::SetId;
use super::observed::Observed;
use super::steps::Step;
use super::{DUMMY, Options, names, settings, timeouts};
use crate::SyncError;

/// What was refused, and how the kernel said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) item: Item,
    pub(super) reason: String,
}

/// Settings, sets and the interface: all else rests upon them. Returns how much was written.
pub(super) fn prepare(
    doors: &mut dyn Doors,
    families: &[Family],
    options: &Options,
    observed: &Observed,
) -> Result<usize, SyncError> {
    let missing = missing_sets(families, options, observed);
    let count = settings::apply(doors, options.strict_arp)? + timeouts::apply(doors, options.timeouts)?;
    let count = count + missing.len();
    refused(doors.sets().run(&missing.into_iter().map(ipset::Request::Create).collect::<Vec<_>>())?)?;
    if observed.has_interface {
        return Ok(count);
    }
    make_interface(doors, options)?;
    Ok(count + 1)
}

/// Sets that are not there.
pub(super) fn missing_sets(families: &[Family], options: &Options, observed: &Observed) -> Vec<ipset::Set> {
    let all = families.iter().flat_map(|family| SetId::ALL.map(|set| set.set(*family)));
    let is_missing = |set: &ipset::Set| !observed.sets.iter().any(|found| found.name == set.name.as_str());
    all.chain(names::on(&options.interface)).filter(is_missing).collect()
}

/// Takes back what an earlier life gave interfaces that are not used any more, and the records of them. Returns how much was written.
pub(super) fn leave_others(
    doors: &mut dyn Doors,
    options: &Options,
    observed: &Observed,
) -> Result<usize, SyncError> {
    let mut count = 0;
    for interface in observed.interfaces.iter().filter(|name| **name != options.interface) {
        let addresses: Vec<IpAddr> = strays(observed, interface).collect();
        count += addresses.len() + 1;
        step(doors, interface, &Step::DeleteAddresses(addresses))?;
        let record = names::on(interface).map(|set| ipset::Request::Destroy(set.name));
        refused(doors.sets().run(&record.into_iter().collect::<Vec<_>>())?)?;
    }
    Ok(count)
}

/// Our addresses on another interface than the one in use.
pub(super) fn strays<'a>(observed: &'a Observed, interface: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
    observed.strays.iter().filter(move |(name, _)| name == interface).map(|(_, ip)| *ip)
}

/// The operator's own interface may be of any kind.
fn make_interface(doors: &mut dyn Doors, options: &Options) -> Result<(), SyncError> {
    match doors.host().make_dummy(&options.interface) {
        Err(host::ChangeError::NoDummy(_)) if options.interface != DUMMY => Ok(()),
        result => Ok(result?),
    }
}

/// Carries out one step, but for rules.
pub(super) fn step(doors: &mut dyn Doors, interface: &str, step: &Step) -> Result<Vec<Trouble>, SyncError> {
    if step.is_empty() {
        return Ok(Vec::new());
    }
    Ok(match step {
        Step::Rules => Vec::new(),
        Step::Sets(requests) => doors.sets().run(requests)?.iter().filter_map(of_set).collect(),
        Step::Servers(requests) => doors.servers().run(requests)?.iter().filter_map(of_server).collect(),
        Step::AddAddresses(addresses) => {
            let unchanged = doors.host().add_addresses(interface, addresses)?;
            unchanged
                .iter()
                .map(|one| Trouble { item: Item::Address(one.ip), reason: one.to_string() })
                .collect()
        }
        Step::DeleteAddresses(addresses) => {
            doors.host().delete_addresses(interface, addresses)?;
            Vec::new()
        }
    })
}

/// An entry that could not be put in. One that could not be taken out is gone, or will be found again.
fn of_set(refused: &ipset::Refused) -> Option<Trouble> {
    let ipset::Request::Add(name, entry) = &refused.request else { return None };
    let item = item_of(name, *entry)?;
    Some(Trouble { item, reason: refused.to_string() })
}

fn item_of(name: &ipset::SetName, entry: Entry) -> Option<Item> {
    let all = Family::ALL.into_iter().flat_map(|family| SetId::ALL.map(|set| (family, set)));
    let (family, set) = all.into_iter().find(|(family, set)| set.name(*family) == *name)?;
    Some(Item::Entry(family, set, entry))
}

fn of_server(refused: &ipvs::Refused) -> Option<Trouble> {
    let item = match &refused.request {
        Request::Add(server) | Request::Change(server) => Item::Server(server.clone()),
        Request::AddServer(what, server) | Request::ChangeServer(what, server) if server.weight > 0 => {
            Item::Real(*what, server.address, server.weight)
        }
        _ => return None,
    };
    Some(Trouble { item, reason: refused.to_string() })
}

/// The virtual servers that steps delete.
pub(super) fn deleted(steps: &[Step]) -> impl Iterator<Item = What> + '_ {
    let requests = steps.iter().flat_map(|step| if let Step::Servers(all) = step { &all[..] } else { &[] });
    requests.filter_map(|request| if let Request::Delete(what) = request { Some(*what) } else { None })
}

/// Whether real servers of a protocol have connections worth waiting for.
pub(super) fn has_connections(protocol: IpProtocol) -> bool {
    !matches!(protocol, IpProtocol::UDP | IpProtocol::SCTP)
}
