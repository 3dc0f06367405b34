//! Opening a mode on a host, or rendering it without one: what that takes, what comes of it, and why it may fail.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kernel::xtables::{self, Variant};
use model::{Family, ForwardingTable};

use super::{DriftSource, ModeSettings};
use crate::Dataplane;
use crate::relay::Relays;
use crate::upstream::KnownChains;

/// A relay that a mode and its node ports on localhost share.
pub type SharedRelay = Arc<Mutex<dyn Relays + Send>>;

/// What to open.
#[derive(Clone)]
pub struct OpenRequest<'a> {
    pub settings: &'a ModeSettings,
    /// Carries what the mode does not leave to the kernel.
    pub relay: SharedRelay,
    /// The folder in which a running portway keeps what lasts until the machine restarts.
    pub run_dir: &'a Path,
    /// The chains of all modes: [`registry::known_chains`](crate::registry::known_chains).
    pub known_chains: &'a KnownChains,
}

impl fmt::Debug for OpenRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRequest").field("settings", self.settings).finish_non_exhaustive()
    }
}

/// What to render.
#[derive(Clone, Copy, Debug)]
pub struct RenderRequest<'a> {
    pub table: &'a ForwardingTable,
    /// The family, for modes whose text is of one.
    pub family: Family,
    pub settings: &'a ModeSettings,
    pub tracker: ConntrackSettings,
}

/// Settings of the connection tracker that decide rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConntrackSettings {
    /// `nf_conntrack_tcp_be_liberal`.
    pub is_liberal: bool,
    /// `nf_conntrack_tcp_loose` is 0.
    pub is_strict: bool,
}

/// A mode that is ready to write.
pub struct Opened {
    pub dataplane: Box<dyn Dataplane>,
    /// How writes of other programs to what is ours are noticed.
    pub drift: Vec<DriftSource>,
    /// The iptables program that it writes with.
    pub program: Option<Variant>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("drift", &self.drift)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Why a mode cannot work on this host. Trying again does not help.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel, a program or a privilege is missing.
    #[error("{0}")]
    Host(String),
    /// A setting of the kernel could not be written.
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: io::Error },
    /// Rules of another program stand before ours, in tables into which this process may not look.
    #[error(transparent)]
    Hidden(#[from] HiddenRules),
}

/// Rules of Services in legacy tables into which this process may not look.
#[derive(Debug, thiserror::Error)]
#[error(
    "rules of Services, upstream's or ours, are in tables of iptables-legacy, which may be asked \
     before all that {variant} writes, and this process may not touch them: give it CAP_NET_RAW (deploy/overlays/iptables-legacy), and \
     they are taken over; or remove them: {because}"
)]
pub struct HiddenRules {
    /// The program that would be used.
    pub variant: Variant,
    /// What the legacy program said.
    pub because: xtables::Error,
}
