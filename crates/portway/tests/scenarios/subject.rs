//! Whatever answers to a scenario: the reference, and each mode, simulated or in a real kernel.
//!
//! A subject is told of every change and asked about packets. Who was sent where (session affinity) is its own business.
//! As one packet can land at several endpoints, a subject that is simulated follows each possibility as a world of its
//! own, and answers once per world. A real kernel has one world.

use std::net::IpAddr;

use model::{Delta, ForwardingTable, Packet, Promises};

use crate::step::Outcome;

/// Something that decides packets.
pub(crate) trait Subject {
    /// The promises that it keeps, where a scenario asks for `asked`. A packet whose fate is another under them is skipped.
    fn promises(&mut self, asked: &Promises) -> Promises;

    /// The table is this one now; `delta` says how it was before. An error says what is wrong with how it was taken in.
    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String>;

    /// Whether clients that are sent to this frontend can be known again.
    fn remembers(&mut self, _packet: &Packet, _table: &ForwardingTable) -> bool {
        true
    }

    /// So many seconds pass.
    fn pass(&mut self, seconds: u64);

    /// Where this packet ends: one answer for each world, none from a subject that sends no packets. It really is sent, so
    /// affinity remembers it.
    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String>;
}

/// Where a packet ends in one world.
#[derive(Debug)]
pub(crate) struct Visit {
    /// Where the packet before it landed, if that could only be one endpoint.
    pub previous: Option<(IpAddr, u16)>,
    /// Where it ends.
    pub outcome: Outcome,
    /// The reasons, from a subject that can tell.
    pub why: Vec<String>,
}
