//! How much of this mode is in a kernel, ours or upstream's: for whoever cleans up, or is told what stays.

use std::fmt;
use std::net::IpAddr;

use kernel::ipset::FoundSet;
use kernel::xtables::{Table, Xtables};
use model::Family;

use super::doors::Doors;
use super::items::Item;
use super::{DUMMY, Options, cleanup, names, observed};
use crate::SyncError;

/// What there is, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Virtual servers.
    pub servers: usize,
    /// Addresses of Services that this host has.
    pub addresses: usize,
    /// Sets.
    pub sets: usize,
    /// Chains of ours.
    pub chains: usize,
    /// Whether the interface `kube-ipvs0` is there.
    pub has_interface: bool,
}

impl Traces {
    /// Looks for all but chains.
    pub fn read(doors: &mut dyn Doors, options: &Options) -> Result<Self, SyncError> {
        let found = observed::read(doors, &Family::ALL, options, &[].into())?;
        let servers = found.items.iter().filter(|item| matches!(item, Item::Server(_))).count();
        let address = |item: &Item| if let Item::Address(ip) = item { Some(*ip) } else { None };
        let addresses: Vec<IpAddr> = found.items.iter().filter_map(address).collect();
        let is_theirs =
            |set: &&FoundSet| set.name.starts_with(names::PREFIX) || names::is_of_upstream(&set.name);
        Ok(Self {
            servers,
            addresses: addresses.len() + found.strays.len(),
            sets: found.sets.iter().filter(is_theirs).count(),
            chains: 0,
            has_interface: cleanup::has_link(doors, DUMMY)?,
        })
    }

    /// The same, with the chains behind these doors.
    #[must_use]
    pub fn with_chains<'a, X: Xtables + 'a>(self, doors: impl Iterator<Item = &'a mut X>) -> Self {
        let ours = |door: &mut X, table| {
            let text = door.save(table).ok().flatten().unwrap_or_default();
            text.lines()
                .filter_map(|line| line.strip_prefix(':'))
                .filter(|name| name.starts_with(names::PREFIX))
                .count()
        };
        let of_door = |door: &mut X| {
            [Table::Nat, Table::Filter, Table::Mangle].map(|table| ours(door, table)).iter().sum::<usize>()
        };
        Self { chains: doors.map(of_door).sum(), ..self }
    }

    /// Is there nothing at all?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = [
            (self.servers, "virtual server", "virtual servers"),
            (self.addresses, "address", "addresses"),
            (self.chains, "chain", "chains"),
            (self.sets, "set", "sets"),
        ];
        let counted = counted.iter().filter(|(count, ..)| *count > 0);
        let mut parts: Vec<String> = counted
            .map(|(count, one, more)| format!("{count} {}", if *count == 1 { one } else { more }))
            .collect();
        parts.extend(self.has_interface.then(|| format!("the interface {DUMMY}")));
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_is_told_in_words() {
        let traces = Traces { servers: 1, sets: 25, has_interface: true, ..Traces::default() };
        assert_eq!(traces.to_string(), "1 virtual server, 25 sets, the interface kube-ipvs0");
        assert!(!traces.is_empty() && Traces::default().is_empty());
    }
}
