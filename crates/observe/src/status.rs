//! How the loop is doing: a value for people and programs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use config::ConfigStatus;
use dataplane::{LocalhostNodePorts, Mode, registry};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::doctor::FindingStatus;
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
    pub fn tell_of_mode(&mut self, mode: Mode, section: Option<Value>) {
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

/// What others did to our rules, for people and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// How often our rules were put right after somebody else had changed them.
    pub repairs: u64,
    /// Operations that this took.
    pub operations: u64,
    /// Foreign writes to our tables of which the kernel told.
    pub heard: u64,
    /// How often the kernel could not tell, and everything was compared.
    pub lost: u64,
    /// The last repair.
    pub last: Option<Repair>,
    /// Programs that come back again and again: what they do is put right at a bounded pace.
    pub fighting: Vec<String>,
}

/// A repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// When it was done.
    pub at: String,
    /// How long ago that is.
    pub seconds_ago: u64,
    /// Who had changed our rules, where the kernel told.
    pub by: Option<String>,
    /// How many operations it took.
    pub operations: usize,
}
