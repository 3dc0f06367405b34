//! HOW a kernel is told what should happen: one folder per mode, and one line in `registry.rs`.
//!
//! In: the [`ForwardingTable`], and what of it changed. Out: a kernel that does it, and [`Synced`], a value that says so.
//!
//! Absent on purpose: Kubernetes objects, decisions (the table has made them), and time: deletions that must wait are
//! announced in [`Synced::settle_after`], and the caller comes back.

pub mod checks;
mod counted;
pub mod flows;
pub mod host_changes;
pub mod iptables;
pub mod ipvs;
pub mod localhost;
mod mode;
pub mod nftables;
#[cfg(feature = "sim")]
pub mod null;
pub mod programs;
mod quarantine;
pub mod registry;
pub mod relay;
pub mod resets;
pub mod served;
pub mod settings;
#[cfg(feature = "sim")]
pub mod sim;
pub mod upstream;
pub mod userspace;
pub mod xtables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use model::flows::{StaleFlows, VanishedFlows};
use model::{Family, ForwardingTable, Frontend, ServicePortId};

pub use counted::{Counted, ModeMetric};
pub use mode::leftovers;
pub use mode::{
    Behaviour, ConntrackSettings, Deployment, DriftSource, ForeignWrites, HiddenRules, IsOfAService,
    LocalhostNodePorts, MASQUERADE_BIT, Mode, ModeSettings, ModeSpec, OpenError, OpenRequest, Opened,
    RenderRequest, Sections, SharedRelay, TrafficSource,
};

/// A mode.
pub trait Dataplane {
    /// Brings the kernel from whatever it holds to `desired`. Idempotent: a second call writes nothing.
    fn sync(&mut self, desired: &ForwardingTable, scope: Scope<&ServicePortIds>)
    -> Result<Synced, SyncError>;

    /// Deletes what earlier syncs left behind for packets that were on their way.
    fn settle(&mut self) -> Result<Synced, SyncError>;

    /// What a full sync would write, and then delete, in words. Nothing is written.
    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError>;

    /// Ends connections to endpoints that have vanished, where the kernel keeps them in a table of this mode's own. Called after
    /// a sync, and after the connection tracker has forgotten them.
    fn end_connections(&mut self, _vanished: &BTreeSet<VanishedFlows>) -> Result<(), SyncError> {
        Ok(())
    }

    /// What nobody asks for any more and goes with its last connection; `None` if there is nothing of the kind.
    fn leaving(&mut self) -> Option<Leaving> {
        None
    }

    /// What each service port has carried, where the kernel counts it for this mode; `None` where it does not.
    fn carried(&mut self) -> Option<Vec<Carried>> {
        None
    }

    /// What was counted for upstream's metrics about a move between modes. Cheap enough to be asked with every scrape.
    fn counted(&mut self) -> Counted {
        Counted::default()
    }

    /// Whether it can write, where only a write tells; the error is a sentence. Nothing is changed.
    fn try_to_write(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Has somebody taken everything away? A cheap look, for modes whose kernel does not tell of it.
    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        Ok(false)
    }
}

impl<D: Dataplane + ?Sized> Dataplane for Box<D> {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        (**self).sync(desired, scope)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        (**self).settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        (**self).differences(desired)
    }

    fn end_connections(&mut self, vanished: &BTreeSet<VanishedFlows>) -> Result<(), SyncError> {
        (**self).end_connections(vanished)
    }

    fn leaving(&mut self) -> Option<Leaving> {
        (**self).leaving()
    }

    fn carried(&mut self) -> Option<Vec<Carried>> {
        (**self).carried()
    }

    fn counted(&mut self) -> Counted {
        (**self).counted()
    }

    fn try_to_write(&mut self) -> Result<(), String> {
        (**self).try_to_write()
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        (**self).is_flushed()
    }
}

/// Real servers that nobody asks for any more, and that wait for their connections to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// So many; an endpoint counts at each place where it is dialled.
    pub count: usize,
    /// The first of them waits for so long.
    pub longest: Duration,
}

/// What one service port has carried in one family, as the kernel counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The service port.
    pub port: ServicePortId,
    /// The family.
    pub family: Family,
    /// In all, also for endpoints that are gone.
    pub all: relay::Counts,
    /// By endpoint; nothing where that would be too many questions.
    pub endpoints: BTreeMap<SocketAddr, relay::Counts>,
}

impl Carried {
    /// Nothing yet.
    pub fn nothing(port: ServicePortId, family: Family) -> Self {
        Self { port, family, all: relay::Counts::default(), endpoints: BTreeMap::new() }
    }
}

/// What may be different from the last sync.
///
/// The service ports are owned where a scope is kept, and borrowed where it is asked for ([`Scope::as_ref`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<Ids = ServicePortIds> {
    /// Everything: the kernel is read and compared.
    Everything,
    /// The same, while not all that should be there is known yet: what no Service asks for stays.
    AllThatIsKnown,
    /// These service ports, and what the table says of the node. The kernel is assumed to be as the last sync left it.
    Changed(Ids),
}

/// Service ports by their ids.
pub type ServicePortIds = BTreeSet<ServicePortId>;

impl<Ids> Scope<Ids> {
    pub fn as_ref(&self) -> Scope<&Ids> {
        match self {
            Self::Everything => Scope::Everything,
            Self::AllThatIsKnown => Scope::AllThatIsKnown,
            Self::Changed(ids) => Scope::Changed(ids),
        }
    }

    /// Whether the kernel is compared with everything.
    pub fn is_full(&self) -> bool {
        !matches!(self, Self::Changed(_))
    }

    /// Whether what no Service asks for stays.
    pub fn keeps_leftovers(&self) -> bool {
        matches!(self, Self::AllThatIsKnown)
    }
}

/// Somebody else may have changed what is ours in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meddled {
    /// This program did.
    By {
        /// Its name.
        program: String,
        /// Its process, or the thread of it.
        process: u32,
    },
    /// Perhaps: something happened of which the kernel could not tell us.
    Unknown,
}

/// What a sync did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// How many operations were written.
    pub operations: usize,
    /// Whether everything was compared, and not only what was said to have changed.
    pub was_full: bool,
    /// Come back with [`Dataplane::settle`] after this long, before the next sync.
    pub settle_after: Option<Duration>,
    /// Endpoints wait for their connections to end: come back with [`Dataplane::settle`] after this long. Syncs do not wait for it.
    pub drain_after: Option<Duration>,
    /// Frontends of an earlier life that nobody asks for any more: they were found in the kernel, and went.
    pub left_behind: BTreeSet<Frontend>,
    /// Frontends of a previous process that no service port asks for, and that stay: not all that should be there is known.
    pub kept: BTreeSet<Frontend>,
    /// What of others was replaced by ours, in words.
    pub replaced: Vec<String>,
    /// Why nothing was written to a part of the kernel, in words: it waits until all is known.
    pub waits: Vec<String>,
    /// Settings of the kernel that have changed the rules since the last full sync, in words.
    pub settings: Vec<String>,
    /// What of ours nobody asks for and could not go, in words. A full sync tells of all.
    pub stays: Vec<String>,
    /// Service ports that the kernel refused, with its reason. They are as they were before; all others are in force.
    pub refused: BTreeMap<ServicePortId, String>,
    /// Service ports that are in force, though something is wrong with them, in words.
    pub warned: BTreeMap<ServicePortId, String>,
    /// How many iptables rules there are, and were written, for modes that count them.
    pub rules: RuleCounts,
    /// Flows that lead nowhere now, where the mode knows better than the model: its flows do not lead to endpoints.
    pub stale: Option<BTreeSet<StaleFlows>>,
}

/// Rules of iptables, by family and table.
pub type RuleCounts = BTreeMap<(Family, &'static str), RuleCount>;

/// How many rules there are in one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Those that are ours.
    pub total: usize,
    /// Those that the last sync wrote.
    pub written: usize,
}

/// Why a sync did not happen. The last good rules are in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// `nf_tables` refused. The next sync reads the kernel anew.
    #[error(transparent)]
    Nft(#[from] kernel::nft::Error),
    /// An iptables program failed. The next sync reads the kernel anew.
    #[error(transparent)]
    Xtables(#[from] kernel::xtables::Error),
    /// What this mode alone writes was refused, in a sentence. The next sync reads the kernel anew.
    #[error("{sentence}")]
    Other { sentence: String, retry_helps: bool },
}

impl SyncError {
    /// Whether the same sync may go through later.
    pub fn retry_helps(&self) -> bool {
        match self {
            SyncError::Nft(error) => error.retry_helps(),
            SyncError::Xtables(error) => error.retry_helps(),
            SyncError::Other { retry_helps, .. } => *retry_helps,
        }
    }
}
