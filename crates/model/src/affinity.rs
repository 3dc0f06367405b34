//! Who was sent where: the reference for session affinity.
//!
//! Held per client and service port, over all its frontends and both its policies; refreshed by each new connection. A
//! remembered endpoint counts only while the packet could be sent there anyway: one that is gone, or that the policy of
//! this frontend forbids, is passed over and the choice is made anew.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::fate::{Landing, OneOf};
use crate::name::ServicePortId;

/// What is remembered of all clients. Time arrives as seconds, from wherever the caller counts.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    entries: BTreeMap<(IpAddr, ServicePortId), Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    endpoint: (IpAddr, u16),
    until: u64,
}

impl Memory {
    /// Where a packet of `client` may land, given what is remembered.
    pub fn narrow(&self, now: u64, client: IpAddr, fate: &OneOf) -> Vec<Landing> {
        let remembered = fate.affinity_seconds.and_then(|_| self.entries.get(&(client, fate.port.clone())));
        let current = remembered.filter(|entry| now < entry.until).map(|entry| entry.endpoint);
        let stuck: Vec<_> =
            fate.landings.iter().filter(|l| Some((l.address, l.port)) == current).copied().collect();
        if stuck.is_empty() { fate.landings.clone() } else { stuck }
    }

    /// A packet of `client` landed here.
    pub fn remember(&mut self, now: u64, client: IpAddr, fate: &OneOf, landing: &Landing) {
        if let Some(seconds) = fate.affinity_seconds {
            let entry = Entry { endpoint: (landing.address, landing.port), until: now + u64::from(seconds) };
            self.entries.insert((client, fate.port.clone()), entry);
        }
    }
}
