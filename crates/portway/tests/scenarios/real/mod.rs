//! The rules of a mode on the real kernel, side by side with the simulated one: every write goes to both, both must say the same, and
//! then both must hold the same.
//!
//! What is compared follows from what the mode writes through; the mode itself is a value.
//!
//! Absent on purpose: packets. They are sent in `packets/`.

mod foreign;
mod nft;
mod nft_program;
mod xtables;

use dataplane::sim::OnPairs;

use crate::step::Scenario;
use crate::tally::Tried;
use crate::way::Way;

/// Writes all scenarios, each into a namespace of its own. An error says why nothing could be.
pub(crate) fn compare(way: Way, on_pairs: OnPairs, scenarios: &[Scenario]) -> Result<Tried, String> {
    way.check_host()?;
    match on_pairs {
        OnPairs::Nft { open, list } => nft::compare(way.mode, open, list, scenarios),
        OnPairs::Xtables { open, shared } => xtables::compare(way, open, shared, scenarios),
    }
}
