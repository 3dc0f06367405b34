//! What the rules of `localhost-node-ports` have counted, for upstream's metric: packets of this host to node ports on loopback addresses that
//! no listener of ours takes.
//!
//! In: the kernel. Out: totals of this process, by family and protocol. A look lists one chain of three rules in each family.

use std::collections::BTreeMap;

use kernel::nft::Kernel;
use model::{Family, Protocol};

use super::chains::LOCALHOST;
use super::layout::TABLE;
use crate::counted::{Met, RunningCount};

/// A total for each rule.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketCounts(BTreeMap<(Family, Protocol), RunningCount>);

impl PacketCounts {
    /// Looks at the rules. Where that fails, what was known stays.
    pub(super) fn look(&mut self, kernel: &mut impl Kernel, families: impl Iterator<Item = Family>) {
        for family in families {
            let Ok(Some(counts)) = kernel.packets(family, TABLE, LOCALHOST) else { continue };
            for (at, protocol) in Protocol::ALL.into_iter().enumerate() {
                let met = match counts.len() {
                    0 => Met::NoRule,
                    len if len == Protocol::ALL.len() => Met::Packets(counts[at]),
                    // Somebody has added a rule, or taken one away: which is which is known after the next comparison.
                    _ => Met::Unknown,
                };
                self.0.entry((family, protocol)).or_default().see(met);
            }
        }
    }

    pub(super) fn totals(&self) -> BTreeMap<(Family, Protocol), u64> {
        self.0.iter().filter_map(|(of, count)| Some((*of, count.total()?))).collect()
    }
}
