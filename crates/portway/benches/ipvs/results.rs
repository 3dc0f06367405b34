//! Everything that was measured, as it goes into the JSON file.

use serde::{Deserialize, Serialize};

use crate::changes::{Change, Loaded};
use crate::cold::{Cold, Counted};
use crate::machine::Machine;
use crate::programs::{OF_THE_GOAL, Run};
use crate::samples::Spread;

/// One run of the benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The machine that the VM runs on.
    pub(crate) machine: Machine,
    /// The VM's kernel.
    pub(crate) kernel: String,
    /// Of the programs.
    pub(crate) versions: String,
    pub(crate) sizes: Vec<Size>,
    pub(crate) loaded: Loaded,
}

/// Cold loads of one number of services.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) services: u32,
    pub(crate) counted: Counted,
    pub(crate) programs_counted: Vec<Run>,
    /// Ours, each in a process of its own.
    pub(crate) cold: Vec<Cold>,
    /// Right after each of ours, the programs.
    pub(crate) programs: Vec<Vec<Run>>,
}

impl Size {
    /// Of each pair of loads, ours as a part of what this many programs took.
    pub(crate) fn ratio(&self, programs: usize) -> Spread {
        let pairs = self.cold.iter().zip(&self.programs);
        Spread::of(pairs.map(|(ours, theirs)| {
            ours.work.whole_ms / theirs.iter().take(programs).map(|run| run.ms).sum::<f64>()
        }))
    }

    /// The same of CPU time, in programs that ours started too.
    pub(crate) fn cpu_ratio(&self, programs: usize) -> Spread {
        let pairs = self.cold.iter().zip(&self.programs);
        Spread::of(pairs.map(|(ours, theirs)| {
            (ours.user_ms + ours.system_ms + ours.programs_ms)
                / theirs.iter().take(programs).map(|run| run.cpu_ms).sum::<f64>()
        }))
    }

    /// Ours as a part of the programs of the goal.
    pub(crate) fn goal_ratio(&self) -> Spread {
        self.ratio(OF_THE_GOAL)
    }
}

impl Loaded {
    /// A kind of change at the least and at the most services.
    pub(crate) fn ends(&self, name: &str) -> Option<(&Change, &Change)> {
        let of_kind = || self.changes.iter().filter(|change| change.name == name);
        let (least, most) = (
            of_kind().min_by_key(|change| change.services)?,
            of_kind().max_by_key(|change| change.services)?,
        );
        (least.services < most.services).then_some((least, most))
    }

    /// What the kernel takes for the address alone that a kind of change brings or takes, at the least and at the most services, in
    /// microseconds.
    pub(crate) fn floor(&self, name: &str) -> Option<(f64, f64)> {
        let least = self.floors.iter().min_by_key(|floor| floor.services)?;
        let most = self.floors.iter().max_by_key(|floor| floor.services)?;
        Some((least.of(name)?, most.of(name)?))
    }

    /// The kinds of changes, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.changes.iter().map(|change| change.name.as_str()).collect();
        names.dedup();
        names
    }
}
