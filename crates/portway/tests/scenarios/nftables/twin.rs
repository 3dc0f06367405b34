//! nftables on the simulated twin: rules are written step by step, and packets run through them.
//!
//! After each step, all of this must hold: a full sync finds nothing to write; a fresh process finds nothing to write; a
//! fresh process on an empty kernel writes the very same table. What waits for its deletion is deleted before the next
//! packet only, so that several steps meet it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Element, Family, Kernel, Listed};
use kernel_sim::nft::Simulated;
use model::{Delta, ForwardingTable, Packet, Promises, ServicePortId};

use super::ends::{self, End, Ends, Way};
use super::mutation::Mutation;
use super::worlds::Worlds;
use crate::step::{Landing, Outcome, Share};
use crate::subject::{Subject, Visit};

/// The mode on the twin.
#[derive(Debug)]
pub(crate) struct Twin {
    dataplane: Nftables<Worlds>,
    table: ForwardingTable,
    now: Duration,
    /// Where the last packet landed, in each world.
    last: Vec<Option<(IpAddr, u16)>>,
    is_checked: bool,
}

impl Default for Twin {
    fn default() -> Self {
        Self {
            dataplane: Nftables::new(Worlds::default(), Options::default()),
            table: ForwardingTable::default(),
            now: Duration::ZERO,
            last: vec![None],
            is_checked: true,
        }
    }
}

impl Twin {
    /// A twin that misses something.
    pub(crate) fn with(mutation: Mutation) -> Self {
        let worlds = Worlds { mutation: Some(mutation), ..Worlds::default() };
        let dataplane = Nftables::new(worlds, Options::default());
        Self { dataplane, is_checked: false, ..Self::default() }
    }

    /// What was left out, or seen.
    pub(crate) fn mutation(&mut self) -> Option<&Mutation> {
        self.dataplane.kernel().mutation.as_ref()
    }

    fn check(&self) -> Result<(), String> {
        let mut settled = self.dataplane.clone();
        settle(&mut settled)?;
        let mut fresh = Nftables::new(Simulated::default(), Options::default());
        sync(&mut fresh, &self.table, Scope::Everything)?;
        for family in Family::ALL {
            let (one, other) = (listed(settled.kernel(), family)?, listed(fresh.kernel(), family)?);
            if one != other {
                let difference = ends::difference(one.as_ref(), other.as_ref());
                return Err(format!("step by step (here) and from scratch (there) differ: {difference}"));
            }
        }
        let mut restarted = Nftables::new(settled.kernel().kernels[0].clone(), Options::default());
        writes_nothing("a fresh process", &mut restarted, &self.table)?;
        writes_nothing("a second sync", &mut settled, &self.table)
    }
}

fn writes_nothing<K: Kernel>(
    who: &str,
    dataplane: &mut Nftables<K>,
    table: &ForwardingTable,
) -> Result<(), String> {
    let differences = dataplane.differences(table).map_err(|e| e.to_string())?;
    let written = sync(dataplane, table, Scope::Everything)? + settle(dataplane)?;
    if written == 0 && differences.is_empty() {
        return Ok(());
    }
    Err(format!("{who} writes {written} operations, but nothing changed: {differences:?}"))
}

pub(crate) fn sync<K: Kernel>(
    dataplane: &mut Nftables<K>,
    table: &ForwardingTable,
    scope: Scope<'_>,
) -> Result<usize, String> {
    let synced = dataplane.sync(table, scope).map_err(|e| e.to_string())?;
    if synced.refused.is_empty() { Ok(synced.operations) } else { Err(format!("{:?}", synced.refused)) }
}

pub(crate) fn settle<K: Kernel>(dataplane: &mut Nftables<K>) -> Result<usize, String> {
    dataplane.settle().map(|synced| synced.operations).map_err(|e| e.to_string())
}

pub(crate) fn listed(kernel: &mut dyn Kernel, family: Family) -> Result<Option<Listed>, String> {
    kernel.list(family, "kube-proxy").map(ends::comparable).map_err(|e| e.to_string())
}

impl Subject for Twin {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        Promises::default().of_rules()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut self.dataplane, table, Scope::Changed(&ids))?;
        if self.is_checked { self.check() } else { Ok(()) }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        settle(&mut self.dataplane)?;
        let packet = ends::sim_packet(packet, self.table.node());
        let (mut visits, mut last, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
        let worlds = std::mem::take(&mut self.dataplane.kernel().kernels);
        for (world, previous) in worlds.iter().zip(&self.last) {
            let ways = ends::ways(world, &packet, self.now)?;
            let all = Ends::of(ways.iter().map(|way| (way.end, way.one_in)))?;
            visits.push(Visit { previous: *previous, outcome: outcome(&all)?, why: Vec::new() });
            follow(ways, &mut last, &mut kernels)?;
        }
        (self.last, self.dataplane.kernel().kernels) = (last, kernels);
        Ok(visits)
    }
}

/// The worlds that come after a packet. Where it made no difference to what is remembered, they are one.
fn follow(
    ways: Vec<Way>,
    last: &mut Vec<Option<(IpAddr, u16)>>,
    kernels: &mut Vec<Simulated>,
) -> Result<(), String> {
    let mut seen: Vec<(End, Vec<Element>, Simulated)> = Vec::new();
    for mut way in ways {
        if !seen.iter().any(|(end, _, _)| *end == way.end) {
            seen.push((way.end, remembered(&mut way.kernel)?, way.kernel));
        }
    }
    let is_remembered = seen.iter().any(|(_, remembered, _)| *remembered != seen[0].1);
    let is_one_place = seen.len() == 1;
    let kept = if is_remembered { seen.len() } else { 1 };
    for (end, _, kernel) in seen.into_iter().take(kept) {
        let place = if let End::At { endpoint, .. } = end { Some(endpoint) } else { None };
        last.push(place.filter(|_| is_remembered || is_one_place));
        kernels.push(kernel);
    }
    Ok(())
}

/// Who was sent where, in both families.
fn remembered(kernel: &mut Simulated) -> Result<Vec<Element>, String> {
    let mut all = Vec::new();
    for family in Family::ALL {
        let listed = kernel.list(family, "kube-proxy").map_err(|e| e.to_string())?;
        all.extend(listed.into_iter().flat_map(|listed| listed.sets["affinity"].elements.clone()));
    }
    Ok(all)
}

/// In the words of scenarios.
fn outcome(ends: &Ends) -> Result<Outcome, String> {
    let whole: Vec<End> = ends.0.iter().filter(|(_, share)| **share == (1, 1)).map(|(end, _)| *end).collect();
    match whole[..] {
        [End::Untouched] => return Ok(Outcome::Untouched),
        [End::Rejected] => return Ok(Outcome::Rejected),
        [End::Dropped] => return Ok(Outcome::Dropped),
        _ => {}
    }
    let landing = |(end, share): (&End, &(u32, u32))| match end {
        End::At { endpoint, masqueraded } => {
            let share = Share::new(share.0, share.1)?;
            Some(Landing { endpoint: *endpoint, share, masqueraded: *masqueraded })
        }
        _ => None,
    };
    let landings: Option<BTreeSet<Landing>> = ends.0.iter().map(landing).collect();
    landings.map(Outcome::OneOf).ok_or_else(|| format!("the packet ends differently by chance: {ends:?}"))
}
