//! What the operator may choose anew while the loop runs, and how it stands with the file that says so.
//!
//! Absent on purpose: all that rules already written depend upon, such as the mode or the bit of the mark: that needs a restart.

use model::Rechoice;
use serde::{Deserialize, Serialize};

use crate::options::PaceOptions;

/// What may change while the loop runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The pace.
    pub pace: PaceOptions,
    /// What decides packets.
    pub packets: Rechoice,
    /// How much is logged, as the document counts it. To be shown: the log has followed it already.
    pub verbosity: i64,
}

/// How it stands with a config file that is followed. Nothing to tell: all that it says is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// Why it cannot be used as it is now. What was in force stays so.
    pub refused: Option<String>,
    /// Its fields whose change waits for a restart.
    pub waiting: Vec<String>,
}
