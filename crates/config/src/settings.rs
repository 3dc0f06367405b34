//! What the operator chose for a run.

use std::path::PathBuf;

use dataplane::ModeSettings;
use model::Config;
use standalone::ipam;

use crate::kubeproxy::{Document, Reload};
use crate::options::{Arrival, ListenOptions, PaceOptions, RelaySettings, Tuning, VanishedTcp};

/// Where objects come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// From manifests.
    Files {
        /// Files and folders.
        from: Vec<PathBuf>,
        /// What Services are given.
        allocation: ipam::Options,
        /// A path without any object is meant.
        allow_empty: bool,
    },
    /// From an API server.
    Server(apiserver::Settings),
}

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The mode, and what was chosen for it.
    pub mode: ModeSettings,
    /// The mode is what upstream's command line means where nobody names one.
    pub is_default_mode: bool,
    /// The relay of modes that carry connections themselves, and of node ports on localhost.
    pub relay: RelaySettings,
    /// Where objects come from.
    pub origin: Origin,
    /// The choices that decide packets.
    pub config: Config,
    /// The folder of the lock and of the socket.
    pub run_dir: PathBuf,
    /// The pace.
    pub pace: PaceOptions,
    /// Where to answer by HTTP.
    pub serve: ListenOptions,
    /// Settings of the kernel.
    pub tuning: Tuning,
    /// What becomes of TCP connections to a Pod that has vanished.
    pub vanished_tcp: VanishedTcp,
    /// The options with the values that were given, to be shown.
    pub flags: Vec<(String, String)>,
    /// The document of the config file with its defaults, to be shown; what is in force goes before it.
    pub document: Document,
    /// What to do where another portway is there already.
    pub arrival: Arrival,
    /// The file whose changes count while we run.
    pub reload: Option<Reload>,
}

#[cfg(test)]
impl Settings {
    /// A run that nobody chose anything for.
    pub(crate) fn of_tests() -> Self {
        let allocation = ipam::Options {
            service_cidrs: Vec::new(),
            load_balancer_cidrs: Vec::new(),
            node_port_range: 30000..=32767,
            state_dir: "state".into(),
            dry_run: true,
        };
        let now = std::time::Duration::ZERO;
        Self {
            mode: ModeSettings::default(),
            is_default_mode: false,
            relay: RelaySettings { ports: None, udp_timeout: now, drain_timeout: now },
            origin: Origin::Files { from: Vec::new(), allocation, allow_empty: false },
            config: Config::default(),
            run_dir: "run".into(),
            pace: PaceOptions::default(),
            serve: ListenOptions::default(),
            tuning: Tuning::default(),
            vanished_tcp: VanishedTcp::default(),
            flags: Vec::new(),
            document: Document::usual(),
            arrival: Arrival::Refuse,
            reload: None,
        }
    }
}
