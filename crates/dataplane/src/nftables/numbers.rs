//! The numbers of sticky service ports and of their endpoints, in one family.
//!
//! What a client was sent to must be remembered as a number that one rule can read from a map and the next can use as a
//! key; that is `meta priority`. A number lives as long as its owner. It comes from a hash of the name or address, so that a
//! restart, and another node, choose the same one; where two meet, the one that was there first keeps it, and the kernel's
//! own maps tell a fresh process who that was.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::ServicePortId;

use super::layout::sticky;

/// The numbers of everybody.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    services: BTreeMap<ServicePortId, Sticky>,
    used: BTreeSet<u32>,
}

/// The numbers of one sticky service port.
#[derive(Clone, Debug)]
pub(super) struct Sticky {
    number: u32,
    endpoints: BTreeMap<(IpAddr, u16), u32>,
}

impl Sticky {
    /// The number of the service port.
    pub(super) fn service(&self) -> u32 {
        sticky::FLAGS | (self.number << sticky::SERVICE_SHIFT)
    }

    /// The number of one of its endpoints, of which it has one.
    pub(super) fn endpoint(&self, address: IpAddr, port: u16) -> Option<u32> {
        self.endpoints.get(&(address, port)).map(|number| self.service() | number)
    }
}

impl Numbers {
    /// The numbers of a service port, if it has some.
    pub(super) fn get(&self, id: &ServicePortId) -> Option<&Sticky> {
        self.services.get(id)
    }

    /// Gives a service port and these endpoints of it numbers, and takes back those of others. Where no number is left it
    /// gets none, and is served without affinity.
    pub(super) fn assign(&mut self, id: &ServicePortId, endpoints: &BTreeSet<(IpAddr, u16)>) {
        if endpoints.is_empty() {
            if let Some(sticky) = self.services.remove(id) {
                self.used.remove(&sticky.number);
            }
            return;
        }
        if !self.services.contains_key(id) {
            let Some(number) = free(hash(id.to_string().as_bytes()), 0, sticky::SERVICES, &self.used) else {
                return;
            };
            self.adopt_service(id, number);
        }
        let Some(sticky) = self.services.get_mut(id) else { return };
        sticky.endpoints.retain(|endpoint, _| endpoints.contains(endpoint));
        let mut used: BTreeSet<u32> = sticky.endpoints.values().copied().collect();
        for endpoint in endpoints {
            if sticky.endpoints.contains_key(endpoint) {
                continue;
            }
            // 0 stands for the service port itself.
            let Some(number) = free(hash_endpoint(*endpoint), 1, sticky::ENDPOINTS, &used) else { break };
            used.insert(number);
            sticky.endpoints.insert(*endpoint, number);
        }
    }

    /// A kernel's map says that this service port has this number. Returns whether it has it now.
    pub(super) fn adopt_service(&mut self, id: &ServicePortId, number: u32) -> bool {
        if number < sticky::SERVICES && !self.services.contains_key(id) && self.used.insert(number) {
            self.services.insert(id.clone(), Sticky { number, endpoints: BTreeMap::new() });
        }
        self.services.get(id).is_some_and(|sticky| sticky.number == number)
    }

    /// A kernel's map says that somebody has this number of whom nothing is known yet. Nobody else gets it.
    pub(super) fn reserve(&mut self, number: u32) {
        self.used.insert(number);
    }

    /// A kernel's map says that this endpoint of a sticky service port has this number.
    pub(super) fn adopt_endpoint(&mut self, id: &ServicePortId, endpoint: (IpAddr, u16), number: u32) {
        let Some(sticky) = self.services.get_mut(id) else { return };
        let is_taken = sticky.endpoints.values().any(|taken| *taken == number);
        if (1..sticky::ENDPOINTS).contains(&number) && !is_taken {
            sticky.endpoints.entry(endpoint).or_insert(number);
        }
    }
}

/// The first free number from `start` on, going round.
fn free(start: u32, lowest: u32, end: u32, used: &BTreeSet<u32>) -> Option<u32> {
    let count = end - lowest;
    (0..count).map(|step| lowest + (start.wrapping_add(step)) % count).find(|number| !used.contains(number))
}

fn hash_endpoint((address, port): (IpAddr, u16)) -> u32 {
    match address {
        IpAddr::V4(ip) => hash(&[&ip.octets()[..], &port.to_be_bytes()].concat()),
        IpAddr::V6(ip) => hash(&[&ip.octets()[..], &port.to_be_bytes()].concat()),
    }
}

/// FNV-1a, folded so that the low bits depend on all of it.
fn hash(bytes: &[u8]) -> u32 {
    let hash =
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash ^ (hash >> 15)
}
