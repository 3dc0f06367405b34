//! What two of the rules have counted, for upstream's metrics: packets that were dropped as invalid, and those that were led from node
//! ports on 127.0.0.0/8.
//!
//! In: the families, with their doors. Out: totals of this process. Upstream has the rules count by `nfacct`, a module that not every kernel
//! has; every rule of iptables counts by itself, and here that is read. Of iptables-nft one chain is listed. A table of the legacy program is
//! read whole: whenever somebody asks while it is small, and else with full syncs alone, which read all tables anyway.

use kernel::xtables::{Rule, Table, Target, Xtables};

use super::Options;
use super::names::{FORWARD, MARK_MASQ};
use crate::counted::{Counted, RunningCount};
use crate::xtables::Families;

/// When somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// With a scrape: what costs is left out.
    Cheap,
    /// Beside a full sync.
    Whole,
}

/// The totals of each family, in the order of the doors.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketCounts {
    invalid: Vec<RunningCount>,
    localhost: Vec<RunningCount>,
}

impl PacketCounts {
    /// Looks at the rules.
    pub(super) fn look<X: Xtables>(&mut self, families: &mut Families<X, Options>, look: Look) {
        let must_be_cheap = look == Look::Cheap;
        see(&mut self.invalid, families.packets(Table::Filter, FORWARD, drops, must_be_cheap));
        see(&mut self.localhost, families.packets(Table::Nat, MARK_MASQ, counts_only, must_be_cheap));
    }

    /// Some chains were written, and the rules in them count from 0.
    pub(super) fn follow_writes<X: Xtables>(&mut self, families: &mut Families<X, Options>) {
        for (at, written) in families.take_rewritten().iter().enumerate() {
            for (counts, chain) in [
                (&mut self.invalid, (Table::Filter, FORWARD)),
                (&mut self.localhost, (Table::Nat, MARK_MASQ)),
            ] {
                let is_written = written.iter().any(|(table, name)| (*table, name.as_str()) == chain);
                if is_written {
                    of(counts, at).begin_anew();
                }
            }
        }
    }

    /// The totals.
    pub(super) fn counted(&self) -> Counted {
        Counted {
            invalid_dropped: sum(&self.invalid),
            localhost_accepted: sum(&self.localhost),
            ..Counted::default()
        }
    }
}

/// The rule of `KUBE-FORWARD` that drops what is invalid.
fn drops(rule: &Rule) -> bool {
    rule.target == Some(Target::Drop)
}

/// The rule of `KUBE-MARK-MASQ` that counts packets to loopback addresses, and does nothing else.
fn counts_only(rule: &Rule) -> bool {
    rule.target.is_none()
}

fn see(counts: &mut Vec<RunningCount>, met: impl IntoIterator<Item = crate::counted::Met>) {
    for (at, met) in met.into_iter().enumerate() {
        of(counts, at).see(met);
    }
}

fn of(counts: &mut Vec<RunningCount>, at: usize) -> &mut RunningCount {
    counts.resize_with(counts.len().max(at + 1), RunningCount::default);
    &mut counts[at]
}

/// Of all families that are known.
fn sum(counts: &[RunningCount]) -> Option<u64> {
    counts.iter().filter_map(RunningCount::total).reduce(|one, other| one + other)
}
