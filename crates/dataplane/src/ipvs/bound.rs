//! Which addresses of this host are Services', and not its own.
//!
//! In: the sets of a kernel. Out: an answer for each address. All of `kube-ipvs0` are, ours or upstream's; on an interface that the
//! operator named, those that the records say. They are written before an address is bound and cleared after it is gone, so they
//! hold at any moment, for any process.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::host::Address;
use kernel::ipset::{self, Entry, Ipsets};
use model::Family;
use model::net::IpNet;

use super::DUMMY;
use super::names::{self, SetId};

/// What the records say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    interfaces: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl Bound {
    /// Reads the records.
    pub fn read(sets: &mut dyn Ipsets) -> ipset::Result<Self> {
        let found = sets.sets()?;
        let interfaces = found.iter().filter_map(|set| names::interface_of(&set.name)).map(str::to_owned);
        let mut bound = Self { interfaces: interfaces.collect(), addresses: BTreeSet::new() };
        for family in Family::ALL.iter().filter(|_| !bound.interfaces.is_empty()) {
            let entries = sets.entries(&SetId::Bound.name(*family))?.unwrap_or_default();
            let ip = |entry: &Entry| if let Entry::Ip(ip) = entry { Some(*ip) } else { None };
            bound.addresses.extend(entries.iter().filter_map(ip));
        }
        Ok(bound)
    }

    /// Whether this address is a Service's.
    pub fn has(&self, address: &Address) -> bool {
        let is_single = address.prefix_length == IpNet::from(address.ip).max_prefix_len();
        let is_recorded =
            self.interfaces.contains(&address.link_name) && self.addresses.contains(&address.ip);
        address.link_name == DUMMY || is_single && is_recorded
    }
}
