//! Which Services have an endpoint at this address?
//!
//! Asked when an address becomes, or stops being, a Service's own: an endpoint there is refused from then on. Every
//! endpoint of the cluster is in here, so an entry is eight bytes: half of it a hash of the address, half of it a number
//! for the Service. A clash of hashes names a Service too many, which is decided anew for nothing and without harm.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::name::ServiceName;

#[derive(Debug, Default)]
pub(super) struct EndpointIndex {
    entries: BTreeSet<(u32, u32)>,
    names: Vec<Option<ServiceName>>,
    free: Vec<u32>,
}

impl EndpointIndex {
    /// The Services that may have an endpoint at `address`.
    pub(super) fn services_at(&self, address: IpAddr) -> impl Iterator<Item = &ServiceName> {
        let hash = hash(address);
        let entries = self.entries.range((hash, 0)..=(hash, u32::MAX));
        entries.filter_map(|&(_, number)| self.names.get(number as usize)?.as_ref())
    }

    /// The endpoints of `service` are at `after` now, no more at `before`. Its `number` is kept by the caller.
    pub(super) fn replace(
        &mut self,
        number: &mut Option<u32>,
        service: &ServiceName,
        before: &BTreeSet<IpAddr>,
        after: &BTreeSet<IpAddr>,
    ) {
        if before == after {
            return;
        }
        let own = *number.get_or_insert_with(|| self.new_number(service));
        // Two addresses of a Service may share a hash, so the sets of hashes are compared, not those of addresses.
        let (before, after): (BTreeSet<u32>, BTreeSet<u32>) =
            (before.iter().map(|a| hash(*a)).collect(), after.iter().map(|a| hash(*a)).collect());
        for hash in before.difference(&after) {
            self.entries.remove(&(*hash, own));
        }
        for hash in after.difference(&before) {
            self.entries.insert((*hash, own));
        }
        if after.is_empty() {
            self.names[own as usize] = None;
            self.free.push(own);
            *number = None;
        }
    }

    fn new_number(&mut self, service: &ServiceName) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            u32::try_from(self.names.len() - 1).expect("there are fewer than 4 billion Services")
        });
        self.names[number as usize] = Some(service.clone());
        number
    }
}

/// FNV-1a over the octets: no secret is kept by it, and no order of output depends on it.
fn hash(address: IpAddr) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    match address {
        IpAddr::V4(ip) => ip.octets().iter().fold(0x811c_9dc5, step),
        IpAddr::V6(ip) => ip.octets().iter().fold(0x811c_9dc5, step),
    }
}
