//! What connections share, and who is at the other end of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::fault::Faults;
use crate::store::{Resource, Store, Stored};

/// What this server can do: newer ones can more.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    /// A watch may begin with all objects (`sendInitialEvents`).
    pub streaming_lists: bool,
    /// The API of ServiceCIDRs.
    pub service_cidrs: CidrApi,
    /// Services can be selected by the field `spec.clusterIP`.
    pub cluster_ip_field: bool,
}

/// How a server offers ServiceCIDRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidrApi {
    /// As `v1`.
    Stable,
    /// As `v1beta1` alone.
    Beta,
    /// Not at all.
    Absent,
}

impl Default for Offers {
    fn default() -> Self {
        Self { streaming_lists: true, service_cidrs: CidrApi::Stable, cluster_ip_field: true }
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// The resource.
    pub resource: Option<Resource>,
    /// The parameters.
    pub query: BTreeMap<String, String>,
    /// The token, where one came with it.
    pub token: Option<String>,
}

/// Everything that connections share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) store: Mutex<Store>,
    /// Something happened in the store.
    pub(crate) changed: Condvar,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) offers: Mutex<Offers>,
    /// Who may come; anybody, without.
    pub(crate) tokens: Mutex<Option<BTreeSet<String>>>,
    /// Who shows a client certificate may come, others not.
    pub(crate) needs_certificate: AtomicBool,
    /// Verbs and resources that nobody may use.
    pub(crate) forbidden: Mutex<BTreeSet<(&'static str, Resource)>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    pub(crate) pages: Mutex<Pages>,
    /// Events that clients wrote, in the order of their making.
    pub(crate) events: Mutex<Vec<serde_json::Value>>,
}

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The connection is to end when this is false.
    pub(crate) is_open: Arc<AtomicBool>,
    pub(crate) has_certificate: bool,
}

impl Peer {
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

/// Lists of which somebody wants the rest.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) begun: BTreeMap<String, Page>,
    pub(crate) count: u64,
}

/// What is left of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) version: u64,
    pub(crate) rest: Vec<Arc<Stored>>,
}
