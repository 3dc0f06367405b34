//! How the loop is doing: a value for people and programs, and the figures that it is made from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use dataplane::{LocalhostNodePorts, Mode, Synced, registry};
use model::ServicePortId;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::drift::DriftStatus;
use super::errands::{Done, ErrandKind};
use super::event::Now;
use super::live::ConfigStatus;
use crate::doctor::FindingStatus;
use crate::metrics::Gauges;
use crate::traffic::Carried;

/// How the loop is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the running portway.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The mode.
    pub mode: String,
    /// The iptables program that it writes with.
    pub program: Option<String>,
    /// How node ports answer on loopback addresses.
    #[serde(default)]
    pub localhost_node_ports: LocalhostNodePorts,
    /// The bit of the packet mark that hides sources.
    #[serde(default)]
    pub masquerade_bit: Option<u8>,
    /// The name of this node.
    pub node: String,
    /// The primary address of this node, of each family that it has.
    #[serde(default)]
    pub primary_addresses: Vec<IpAddr>,
    /// When it started.
    pub since: String,
    /// How long it runs.
    pub uptime_seconds: u64,
    /// Does the kernel hold the table, as far as we know?
    pub is_in_sync: bool,
    /// How long ago the picture last changed; `None` before it was read.
    pub picture_age_seconds: Option<u64>,
    /// How it stands with the API server, where one is the source.
    #[serde(default)]
    pub server: Option<ServerStatus>,
    /// What is known of this node.
    #[serde(default)]
    pub node_standing: NodeStanding,
    /// What is not in the kernel yet.
    pub pending: Pending,
    /// Not all of the source can be read, so what is in the kernel and nobody asks for stays there.
    pub keeps_leftovers: bool,
    /// The last sync that went well.
    pub last_sync: Option<LastSync>,
    /// Syncs that went well.
    pub syncs: u64,
    /// Those of them that compared everything.
    pub full_syncs: u64,
    /// Operations written in all.
    pub operations: u64,
    /// Syncs that did not go well.
    pub failures: Failures,
    /// What others did to our rules.
    pub drift: DriftStatus,
    /// What was done beside the rules.
    pub beside: Beside,
    /// Services, as they are in the picture.
    pub services: usize,
    /// Service ports, as they are in the table.
    pub service_ports: usize,
    /// Service ports that the kernel refused, with its reason.
    pub refused: BTreeMap<String, String>,
    /// Service ports that are in force, though something is wrong with them.
    pub warned: BTreeMap<String, String>,
    /// Services that wait for a new address or port, since the state folder cannot be written; with the reason.
    #[serde(default)]
    pub waiting_for_addresses: BTreeMap<String, String>,
    /// How many objects' fields have something wrong.
    pub reports: usize,
    /// What is wrong with files.
    pub problems: Vec<String>,
    /// Our listeners that cannot be opened, with the reason.
    #[serde(default)]
    pub not_listening: BTreeMap<String, String>,
    /// How it stands with the config file, where one is followed.
    #[serde(default)]
    pub config: ConfigStatus,
    /// Preconditions of this host that do not hold, or may not.
    #[serde(default)]
    pub findings: Vec<FindingStatus>,
    /// What the relay has carried, where there is one.
    pub relay: Option<RelayStatus>,
    /// What there is to tell of the mode, under its name. Another version may tell of more.
    #[serde(flatten)]
    pub of_mode: BTreeMap<String, Value>,
}

impl Status {
    /// Puts the section of the running mode under its name. Those of other modes are empty.
    pub(super) fn tell_of_mode(&mut self, mode: Mode, section: Option<Value>) {
        let with_section = registry::MODES.iter().filter(|mode| mode.has_status());
        self.of_mode = with_section.map(|mode| (mode.name().to_owned(), Value::Null)).collect();
        self.of_mode.extend(section.map(|section| (mode.name().to_owned(), section)));
    }

    /// The mode that runs, where it is one of ours.
    pub fn known_mode(&self) -> Option<Mode> {
        Mode::named(&self.mode)
    }

    /// The section of the mode that runs.
    pub fn section(&self) -> Option<&Value> {
        self.of_mode.get(&self.mode).filter(|section| !section.is_null())
    }
}

/// What is known of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeStanding {
    /// Nothing: neither an object nor the host tells its addresses.
    #[default]
    Unknown,
    /// No object is there, so the host's own addresses count.
    OfHost,
    /// There is an object.
    Known,
    /// There is one, and it says that the node is being removed.
    Leaving,
}

/// How it stands with the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// Its URL.
    pub address: String,
    /// Every watch was heard then or later: it is the quietest one's. `None` before all were heard.
    pub heard_seconds_ago: Option<u64>,
    /// What was never told in full.
    pub incomplete: Vec<String>,
    /// Whether the server knows ServiceCIDRs.
    pub has_service_cidrs: bool,
    /// What does not work, by kind. What was told before stays in force.
    pub troubles: BTreeMap<String, ServerTrouble>,
}

/// Something that does not work with the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTrouble {
    /// What, and the way out.
    pub reason: String,
    /// For how long.
    pub for_seconds: u64,
    /// When it is tried again.
    pub retry_in_ms: u64,
}

/// What the relay has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayStatus {
    /// So many listeners are open.
    pub listeners: usize,
    /// All of them together.
    pub carried: Carried,
}

/// What is not in the kernel yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// So many service ports are not as they should be.
    pub service_ports: usize,
    /// Why; `None` when nothing is pending.
    pub because: Option<String>,
}

/// What was done beside the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Beside {
    /// Flows that led nowhere and were forgotten.
    pub flows_forgotten: u64,
    /// What of other programs ours took the place of.
    pub took_over: Vec<String>,
    /// What of other programs had to stay, and what waits.
    pub stays: Vec<String>,
    /// What could not be done yet, and why.
    pub failing: BTreeMap<String, String>,
}

/// A sync that went well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastSync {
    /// When it ended.
    pub at: String,
    /// How long ago that is.
    pub seconds_ago: u64,
    /// How long it took.
    pub took_ms: u64,
    /// How many operations it wrote.
    pub operations: usize,
    /// Whether it compared everything.
    pub full: bool,
}

/// Syncs that did not go well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// In all.
    pub total: u64,
    /// Since the last one that went well. Not 0: the last good rules are in force, and what changed since then is not.
    pub in_a_row: u64,
    /// Why the last one failed.
    pub last: Option<String>,
    /// When it is tried again.
    pub retry_in_ms: Option<u64>,
}

/// So many take-overs are told.
const TOOK_OVER_MAX: usize = 32;

/// The figures behind a [`Status`].
#[derive(Debug)]
pub(super) struct Figures {
    started: Now,
    syncs: u64,
    full_syncs: u64,
    operations: u64,
    last: Option<(Now, Duration, usize, bool)>,
    failures: u64,
    in_a_row: u64,
    last_failure: Option<String>,
    pub(super) beside: Beside,
    waits: Vec<String>,
    pub(super) stays: Vec<String>,
    pub(super) refused: BTreeMap<ServicePortId, String>,
    pub(super) warned: BTreeMap<ServicePortId, String>,
}

impl Figures {
    pub(super) fn new(started: Now) -> Self {
        Self {
            started,
            syncs: 0,
            full_syncs: 0,
            operations: 0,
            last: None,
            failures: 0,
            in_a_row: 0,
            last_failure: None,
            beside: Beside::default(),
            waits: Vec::new(),
            stays: Vec::new(),
            refused: BTreeMap::new(),
            warned: BTreeMap::new(),
        }
    }

    pub(super) fn elapsed(&self, now: Now) -> Duration {
        now.elapsed.saturating_sub(self.started.elapsed)
    }

    /// A sync of these service ports went well. A full one tells of all.
    pub(super) fn synced(
        &mut self,
        synced: &Synced,
        about: &BTreeSet<ServicePortId>,
        now: Now,
        took: Duration,
    ) {
        self.syncs += 1;
        self.full_syncs += u64::from(synced.was_full);
        self.operations += synced.operations as u64;
        self.last = Some((now, took, synced.operations, synced.was_full));
        self.in_a_row = 0;
        for (known, told) in [(&mut self.refused, &synced.refused), (&mut self.warned, &synced.warned)] {
            known.retain(|id, _| !synced.was_full && !about.contains(id));
            known.extend(told.clone());
        }
        self.took_over(&synced.replaced);
        self.waits.clone_from(&synced.waits);
        if synced.was_full {
            self.stays.clone_from(&synced.stays);
        }
    }

    pub(super) fn errand_done(&mut self, errand: ErrandKind, done: &Done) {
        self.beside.failing.remove(errand.doing());
        self.beside.flows_forgotten += done.flows;
        self.took_over(&done.removed);
        if errand == ErrandKind::TakeOver {
            self.beside.stays.clone_from(&done.stays);
        }
    }

    /// The same is told once, and not without end.
    fn took_over(&mut self, what: &[String]) {
        let known = &mut self.beside.took_over;
        for one in what {
            if known.len() < TOOK_OVER_MAX && !known.contains(one) {
                known.push(one.clone());
            }
        }
    }

    /// Whether it is news that this errand fails for this reason.
    pub(super) fn errand_failed(&mut self, errand: ErrandKind, reason: &str) -> bool {
        self.beside.failing.insert(errand.doing().to_owned(), reason.to_owned()).as_deref() != Some(reason)
    }

    pub(super) fn settled(&mut self, synced: &Synced) {
        self.operations += synced.operations as u64;
    }

    pub(super) fn failed(&mut self, reason: String) {
        self.failures += 1;
        self.in_a_row += 1;
        self.last_failure = Some(reason);
    }

    /// Addresses could not be given.
    pub(super) fn store_failed(&mut self, reason: String) {
        self.failures += 1;
        self.last_failure = Some(reason);
    }

    /// What is not written because something else must come first.
    pub(super) fn waits(&self) -> &[String] {
        &self.waits
    }

    /// Whether a sync ever went well.
    pub(super) fn has_synced(&self) -> bool {
        self.syncs > 0
    }

    /// The part of the gauges that the figures tell.
    pub(super) fn gauges(&self) -> Gauges {
        let (refused, warned) = (self.refused.len(), self.warned.len());
        Gauges { refused, warned, operations: self.operations, ..Gauges::default() }
    }

    /// When a sync last went well.
    pub(super) fn updated(&self) -> Option<Timestamp> {
        self.last.map(|(at, ..)| at.wall)
    }

    pub(super) fn failures_in_a_row(&self) -> u64 {
        self.in_a_row
    }

    /// Why a sync, or an allocation of addresses, last failed.
    pub(super) fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// The part of the status that the figures tell.
    pub(super) fn status(&self, now: Now, retry_at: Option<Duration>) -> Status {
        let retry_in_ms = retry_at.map(|at| milliseconds(at.saturating_sub(now.elapsed)));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: text(self.started.wall),
            uptime_seconds: self.elapsed(now).as_secs(),
            last_sync: self.last.map(|last| last_sync(last, now)),
            syncs: self.syncs,
            full_syncs: self.full_syncs,
            operations: self.operations,
            failures: Failures {
                total: self.failures,
                in_a_row: self.in_a_row,
                last: self.last_failure.clone(),
                retry_in_ms,
            },
            beside: Beside {
                stays: self.waits.iter().chain(&self.stays).chain(&self.beside.stays).cloned().collect(),
                ..self.beside.clone()
            },
            refused: named(&self.refused),
            warned: named(&self.warned),
            ..Status::default()
        }
    }
}

pub(super) fn named(reasons: &BTreeMap<impl ToString, String>) -> BTreeMap<String, String> {
    reasons.iter().map(|(id, reason)| (id.to_string(), reason.clone())).collect()
}

fn last_sync((at, took, operations, full): (Now, Duration, usize, bool), now: Now) -> LastSync {
    let seconds_ago = now.elapsed.saturating_sub(at.elapsed).as_secs();
    LastSync { at: text(at.wall), seconds_ago, took_ms: milliseconds(took), operations, full }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn text(moment: Timestamp) -> String {
    jiff::Timestamp::from_second(moment.0).map(|moment| moment.to_string()).unwrap_or_default()
}
