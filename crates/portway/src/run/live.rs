//! What the operator may choose anew while the loop runs.
//!
//! Absent on purpose: all that rules already written depend upon, such as the mode or the bit of the mark: that needs a restart.

use model::Rechoice;

use super::pace::PaceOptions;

/// What may change while the loop runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The pace.
    pub pace: PaceOptions,
    /// What decides packets.
    pub packets: Rechoice,
}
