//! The least that a kernel takes for an address: one is put on the interface and taken off again, by one request each and nothing else.
//!
//! A Service that comes brings an address with it. The kernel goes through all that the interface has; what remains of a change without
//! that is ours.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use dataplane::ipvs::DUMMY;
use kernel::host::{ChangeHost as _, ThisMachine};
use serde::{Deserialize, Serialize};

use crate::changes::cpu_us;
use crate::samples::Spread;

/// No address of a Service, nor of a pod.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 112, 0, 0);

/// An address alone, at one size; CPU in microseconds of each round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Floor {
    pub(crate) services: u32,
    pub(crate) added: Vec<f64>,
    pub(crate) removed: Vec<f64>,
}

impl Floor {
    pub(crate) fn new(services: u32) -> Self {
        Self { services, added: Vec::new(), removed: Vec::new() }
    }

    /// The median for a kind of change that brings an address or takes one.
    pub(crate) fn of(&self, change: &str) -> Option<f64> {
        let rounds = match change {
            "service added" => &self.added,
            "service removed" => &self.removed,
            _ => return None,
        };
        (!rounds.is_empty()).then(|| Spread::of(rounds.iter().copied()).median)
    }

    /// So many rounds, in the network namespace of a loaded proxy.
    pub(crate) fn measure(&mut self, rounds: u32, look_us: f64) -> Result<()> {
        let mut host = ThisMachine;
        for i in 0..rounds {
            let ip = [IpAddr::from(Ipv4Addr::from_bits(FIRST.to_bits() + i))];
            let (refused, added) = cpu_us(|| Ok(host.add_addresses(DUMMY, &ip)?))?;
            let (kept, removed) = cpu_us(|| Ok(host.delete_addresses(DUMMY, &ip)?))?;
            ensure!(refused.is_empty() && kept.is_empty(), "the kernel refused {ip:?}");
            self.added.push(added - look_us);
            self.removed.push(removed - look_us);
        }
        Ok(())
    }
}
