//! The mode on a simulated kernel for tests of this mode alone: a clock that they move, and all parts of the kernel within reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::xtables::{Family, Variant};
use kernel_sim::nft::SimPacket;
use kernel_sim::xtables::Simulated;
use kernel_sim::{host, ipset, ipvs, sysctl};
use model::{ForwardingTable, Packet};

use super::{Parts, is_marked, join};
use crate::ipvs::{Ipvs, Kernel, Options};
use crate::sim::{Ends, Listing};
use crate::xtables::sim;

/// The mode.
pub type Mode = Ipvs<Simulated, Parts>;

/// Seconds, moved by a test.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// A kernel without anything.
pub fn kernel() -> Parts {
    Kernel {
        servers: ipvs::Simulated::default(),
        sets: ipset::Simulated::default(),
        host: host::Simulated::default(),
        settings: sysctl::Simulated::default(),
    }
}

/// The mode on this kernel, whose tables are empty.
pub fn with(parts: &Parts, options: Options, clock: &Clock) -> Mode {
    let programs = Family::ALL.map(|family| {
        let mut tables = Simulated::new(Variant::Nft, family);
        join(&mut tables, parts);
        tables
    });
    on(programs, parts.clone(), options, clock)
}

/// Another process, on what this one has left.
pub fn again(mode: &mut Mode, options: Options, clock: &Clock) -> Mode {
    let programs: Vec<Simulated> = mode.programs().map(|one| one.clone()).collect();
    on(programs, mode.doors().clone(), options, clock)
}

fn on(programs: impl IntoIterator<Item = Simulated>, parts: Parts, options: Options, clock: &Clock) -> Mode {
    let clock = clock.clone();
    Ipvs::new(programs, parts, options, move || Duration::from_secs(clock.0.load(Ordering::Relaxed)))
}

/// The packet as it reaches this host.
pub fn packet_of(mode: &mut Mode, table: &ForwardingTable, packet: &Packet) -> Result<SimPacket, String> {
    super::packet_of(packet, &mut mode.doors().host, table)
}

/// Where a packet ends.
pub fn ends(mode: &mut Mode, table: &ForwardingTable, packet: &Packet) -> Result<Ends, String> {
    let sent = packet_of(mode, table, packet)?;
    let tables = mode.programs().nth(usize::from(packet.destination.is_ipv6())).ok_or("not this family")?;
    let ways = sim::ways(tables, &sent, Duration::ZERO, is_marked(table, packet))?;
    Ends::of(ways.iter().map(|way| (way.end, way.share)))
}

/// All that the kernel holds, but for numbers of marks.
pub fn listing(mode: &mut Mode) -> Result<Listing, String> {
    super::listing(mode)
}
