//! How many packets a rule of netfilter has counted, whichever program wrote it.

/// The count of one rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RulePackets {
    /// The kernel's number of the rule, which no later rule gets; 0 where it gives none, as in legacy tables.
    pub handle: u64,
    /// Packets since the rule is there, or since its count was set to 0.
    pub packets: u64,
}
