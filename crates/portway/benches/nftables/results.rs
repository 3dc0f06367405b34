//! Everything that was measured, as it goes into the JSON file.

use serde::{Deserialize, Serialize};

use crate::changes::{Change, Loaded};
use crate::cold::Cold;
use crate::established;
use crate::machine::Machine;
use crate::samples::Spread;
use crate::traffic::Traffic;
use crate::yardstick::Yardstick;

/// One run of the benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) sizes: Vec<Size>,
    pub(crate) traffic: Vec<Traffic>,
    /// Empty in files of before it was measured.
    #[serde(default)]
    pub(crate) established: Vec<established::Round>,
    /// Empty where there is no `nft`.
    pub(crate) yardstick: Vec<Yardstick>,
}

/// One number of services.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) services: u32,
    /// Each in a process of its own.
    pub(crate) cold: Vec<Cold>,
    pub(crate) loaded: Loaded,
}

impl Size {
    /// Wall time of the cold syncs.
    pub(crate) fn cold_ms(&self) -> Spread {
        Spread::of(self.cold.iter().map(Cold::wall_ms))
    }

    /// A figure of the cold syncs, its median.
    pub(crate) fn cold_median(&self, figure: fn(&Cold) -> f64) -> f64 {
        Spread::of(self.cold.iter().map(figure)).median
    }

    /// The kind of change that takes longest.
    pub(crate) fn slowest_change(&self) -> Option<&Change> {
        self.loaded.changes.iter().max_by(|a, b| a.whole.p50_us.total_cmp(&b.whole.p50_us))
    }
}

impl Results {
    /// The figures of one size.
    pub(crate) fn size(&self, services: u32) -> Option<&Size> {
        self.sizes.iter().find(|size| size.services == services)
    }
}
