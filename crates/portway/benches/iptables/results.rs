//! Everything that was measured, as it goes into the JSON file.

use std::process::Command;

use kernel::xtables::Variant;
use serde::{Deserialize, Serialize};

use crate::changes::Loaded;
use crate::cold::{AtOnce, Cold};
use crate::machine::Machine;

/// One run of the benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) sizes: Vec<Size>,
}

/// One program and one number of services.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) program: Program,
    pub(crate) version: String,
    pub(crate) services: u32,
    /// Each in a process of its own.
    pub(crate) cold: Vec<Cold>,
    /// Upstream's habit for a start: everything in one restore.
    pub(crate) at_once: AtOnce,
    pub(crate) loaded: Loaded,
}

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    Nft,
    Legacy,
}

impl Program {
    pub(crate) const ALL: [Self; 2] = [Self::Nft, Self::Legacy];

    pub(crate) fn variant(self) -> Variant {
        match self {
            Self::Nft => Variant::Nft,
            Self::Legacy => Variant::Legacy,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
        }
    }

    /// Such as `1.8.9`; `None` where it is not installed.
    pub(crate) fn version(self) -> Option<String> {
        let output = Command::new(format!("{}-restore", self.name())).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(said.split_whitespace().nth(1)?.trim_start_matches('v').to_owned())
    }
}

impl Results {
    /// The figures of one program at one size.
    pub(crate) fn size(&self, program: Program, services: u32) -> Option<&Size> {
        self.sizes.iter().find(|size| size.program == program && size.services == services)
    }
}
