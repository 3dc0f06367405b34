//! Removes what is ours, and what upstream's IPVS mode left; nothing else.

use kernel::ipset::{self, FoundSet, Ipsets, Request, SetName};
use kernel::ipvs;
use model::Family;

use super::doors::Doors;
use super::error::refused;
use super::items::Item;
use super::names::{self, SetId};
use super::observed;
use super::steps::Step;
use super::{DUMMY, Options, settings, timeouts, write};
use crate::SyncError;

/// Removes everything that this mode has ever written. `clear_chains` removes chains: until they are gone the kernel keeps their sets.
pub(super) fn everything(
    doors: &mut dyn Doors,
    families: &[Family],
    options: &Options,
    clear_chains: impl FnOnce(&mut dyn Doors) -> Result<(), SyncError>,
) -> Result<(), SyncError> {
    servers(doors, families, options)?;
    clear_chains(doors)?;
    sets(doors)
}

/// Addresses first, so that packets go elsewhere; then virtual servers.
fn servers(doors: &mut dyn Doors, families: &[Family], options: &Options) -> Result<(), SyncError> {
    let found = observed::read(doors, families, options, &[].into())?;
    let addresses =
        found.items.iter().filter_map(|item| if let Item::Address(ip) = item { Some(*ip) } else { None });
    write::step(doors, &options.interface, &Step::DeleteAddresses(addresses.collect()))?;
    for (interface, ip) in &found.strays {
        write::step(doors, interface, &Step::DeleteAddresses(vec![*ip]))?;
    }
    let whats = found
        .items
        .iter()
        .filter_map(|item| if let Item::Server(one) = item { Some(one.what) } else { None });
    write::step(doors, &options.interface, &Step::Servers(whats.map(ipvs::Request::Delete).collect()))?;
    if options.interface == DUMMY && has_link(doors, DUMMY)? && !has_excluded(doors, options)? {
        doors.host().delete_dummy(DUMMY)?;
    }
    Ok(())
}

/// An interface with an address that is somebody else's stays for that.
fn has_excluded(doors: &mut dyn Doors, options: &Options) -> Result<bool, SyncError> {
    let addresses = doors.host().addresses().map_err(super::Error::Addresses)?;
    Ok(addresses
        .iter()
        .any(|address| address.link_name == DUMMY && observed::is_excluded(address.ip, options)))
}

/// Sets, of both families, whichever was served, and upstream's; and settings.
fn sets(doors: &mut dyn Doors) -> Result<(), SyncError> {
    remove_upstreams_sets(doors.sets())?;
    own_sets(doors)
}

fn names_of_ours() -> impl Iterator<Item = SetName> {
    Family::ALL.into_iter().flat_map(|family| SetId::ALL.map(|set| set.name(family)))
}

/// How many sets of ours are used by rules.
pub(super) fn used_sets(doors: &mut dyn Doors) -> Result<usize, SyncError> {
    let ours: Vec<SetName> = names_of_ours().collect();
    let is_used = |set: &&FoundSet| set.references > 0 && ours.iter().any(|name| name.as_str() == set.name);
    Ok(doors.sets().sets()?.iter().filter(is_used).count())
}

/// Ours alone; and settings.
pub(super) fn own_sets(doors: &mut dyn Doors) -> Result<(), SyncError> {
    let found = doors.sets().sets()?;
    let ours = names_of_ours();
    let is_there = |name: &SetName| found.iter().any(|set| set.name == name.as_str());
    let records = found.iter().filter_map(|set| names::interface_of(&set.name)).filter_map(names::on);
    let ours = ours.filter(is_there).chain(records.map(|record| record.name));
    let requests: Vec<Request> = ours.map(Request::Destroy).collect();
    if !requests.is_empty() {
        refused(doors.sets().run(&requests)?)?;
    }
    timeouts::restore(doors)?;
    settings::restore(doors)
}

/// Destroys the sets of upstream's IPVS mode that no rule uses any more. Says which.
pub fn remove_upstreams_sets(sets: &mut dyn Ipsets) -> ipset::Result<Vec<String>> {
    let found = sets.sets()?;
    let is_unused = |set: &&FoundSet| names::is_of_upstream(&set.name) && set.references == 0;
    let gone: Vec<SetName> =
        found.iter().filter(is_unused).filter_map(|set| SetName::new(&set.name)).collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let requests: Vec<Request> = gone.iter().cloned().map(Request::Destroy).collect();
    sets.run(&requests)?;
    Ok(gone.iter().map(|name| format!("set {name} of upstream's IPVS mode")).collect())
}

pub(super) fn has_link(doors: &mut dyn Doors, name: &str) -> Result<bool, SyncError> {
    let links = doors.host().links().map_err(super::Error::Addresses)?;
    Ok(links.iter().any(|link| link.name == name && link.is_dummy))
}
