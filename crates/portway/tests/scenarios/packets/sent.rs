//! What was sent through the real kernel, counted.

use std::collections::BTreeMap;
use std::fmt;

/// Why a packet was not sent.
pub(super) const CLOCK: &str = "with affinity after time has passed, as the kernel's clock cannot be moved";
const PROMISE: &str = "where the mode promises another fate";

/// What was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Steps of scenarios.
    pub(crate) steps: usize,
    pub(crate) packets: usize,
    pub(crate) landed: usize,
    /// By their reasons.
    pub(super) skipped: BTreeMap<&'static str, usize>,
}

impl Sent {
    /// Adds what was sent for one scenario.
    pub(crate) fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.landed += other.landed;
    }

    /// Adds its steps, and how many were not asked at all.
    pub(crate) fn add_steps(&mut self, other: &Self, not_promised: usize) {
        self.steps += other.steps;
        for (reason, count) in other.skipped.iter().chain([(&PROMISE, &not_promised)]) {
            *self.skipped.entry(reason).or_default() += count;
        }
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, packets, landed, skipped } = self;
        let reasons: Vec<String> = skipped.iter().map(|(why, count)| format!("{count} {why}")).collect();
        let skipped: usize = skipped.values().sum();
        write!(f, "{packets} packets sent for {steps} steps, {landed} landed, {skipped} steps skipped (")?;
        write!(f, "{})", reasons.join("; "))
    }
}
