//! Follows the file of `--config` while a portway runs.
//!
//! In: the file, and what the command line says. Out: what may change while the loop runs, how it stands with the file, and lines for
//! the log: what is in force now, what waits for a restart, what has no effect, or why the file cannot be used, in which case all stays
//! as it was.
//!
//! Upstream ends instead, and is started anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dataplane::Mode;
use model::{NodePortAddress, Rechoice};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use super::asked::Asked;
use super::document::Document;
use super::fields::{Change, FIELDS, Field, Status};
use super::flags::Flag;
use super::line::Given;
use super::{Loaded, Which, choose, notices, read, validate};
use crate::live::{ConfigStatus, Live};
use crate::options::PaceOptions;

/// What the command line says before the file does.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// `--min-sync-period`.
    pub min_sync_period: Option<Duration>,
    /// `--sync-period`.
    pub sync_period: Option<Duration>,
    /// `--masquerade-all`.
    pub masquerade_all: bool,
    /// `--nodeport-addresses`.
    pub node_port_addresses: Vec<NodePortAddress>,
    /// The fields that have no effect, each with what goes before it.
    pub over: BTreeMap<&'static str, String>,
}

/// Options of `portway run` that are not called as upstream's flags are, or set more fields than these.
const OWN_OPTIONS: &[(&str, &[&str])] = &[
    ("node-name", &["hostnameOverride"]),
    ("node-ip", &["bindAddress"]),
    ("sync-period", &["iptables.syncPeriod", "ipvs.syncPeriod", "nftables.syncPeriod"]),
    ("min-sync-period", &["iptables.minSyncPeriod", "ipvs.minSyncPeriod", "nftables.minSyncPeriod"]),
    ("proxy-port-range", &["portRange"]),
    ("log-format", &["logging.format"]),
    ("cluster-cidr", DETECT_LOCAL),
    ("detect-local-mode", DETECT_LOCAL),
];
const DETECT_LOCAL: &[&str] =
    &["detectLocalMode", "clusterCIDR", "detectLocal.bridgeInterface", "detectLocal.interfaceNamePrefix"];

/// The fields that these options of `portway run`, written without dashes, go before.
pub fn over_fields(options: &[String]) -> BTreeMap<&'static str, String> {
    let mut over = BTreeMap::new();
    for option in options {
        over.extend(fields_of(option).into_iter().map(|field| (field, format!("--{option}"))));
    }
    over
}

fn fields_of(option: &str) -> Vec<&'static str> {
    match OWN_OPTIONS.iter().find(|(name, _)| *name == option) {
        Some((_, fields)) => fields.to_vec(),
        None => Flag::named(option).into_iter().flat_map(Flag::fields).map(|field| field.path).collect(),
    }
}

impl Before {
    /// The pace, where a document asks for this one.
    pub fn pace(&self, asked: PaceOptions) -> PaceOptions {
        PaceOptions {
            min_sync_period: self.min_sync_period.unwrap_or(asked.min_sync_period),
            sync_period: self.sync_period.unwrap_or(asked.sync_period),
        }
    }

    fn live(&self, asked: Asked, verbosity: i64) -> Live {
        let node_port_addresses = if self.node_port_addresses.is_empty() {
            asked.config.node_port_addresses
        } else {
            self.node_port_addresses.clone()
        };
        let masquerade_all = self.masquerade_all || asked.config.masquerade_all;
        let packets = Rechoice { masquerade_all, node_port_addresses };
        Live { pace: self.pace(asked.pace), packets, verbosity }
    }
}

/// A file that is followed.
#[derive(Clone, Debug)]
pub struct Reload {
    path: PathBuf,
    given: Given,
    before: Before,
    which: Which,
    /// What is in force.
    document: Document,
    /// The text that was last looked at.
    text: String,
    /// What was told of the file when it was last right.
    told: Vec<String>,
    standing: ConfigStatus,
    set_level: fn(LevelFilter),
}

/// What the loop learns of a file that has changed.
#[derive(Debug)]
pub struct Reread {
    /// What may change now.
    pub live: Option<Live>,
    /// How it stands with the file.
    pub standing: ConfigStatus,
}

/// What becomes of a field that has changed.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Now,
    AfterRestart,
    /// For this reason.
    Never(String),
}

/// What became of a look at the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Looked {
    live: Option<Live>,
    level: Option<LevelFilter>,
    /// For the log, at level info.
    said: Vec<String>,
    /// For the log, as warnings.
    warned: Vec<String>,
}

impl Reload {
    /// Follows this file, from which that was loaded.
    pub fn new(
        loaded: &Loaded,
        path: &Path,
        given: &Given,
        before: Before,
        which: Which,
        set_level: fn(LevelFilter),
    ) -> Self {
        Self {
            path: path.to_owned(),
            given: given.clone(),
            which,
            before,
            document: loaded.document.clone(),
            text: loaded.text.clone().unwrap_or_default(),
            told: loaded.warnings.clone(),
            standing: ConfigStatus::default(),
            set_level,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the file. Where it has changed, the log is told.
    pub fn look(&mut self) -> Option<Reread> {
        let looked = match read::text_of(&self.path) {
            Ok(text) if text == self.text => return None,
            Ok(text) => self.take(text),
            Err(error) => self.refuse("", &error),
        };
        // The level first: what follows may be its first lines.
        if let Some(level) = looked.level {
            (self.set_level)(level);
        }
        looked.said.iter().for_each(|line| tracing::info!("{line}"));
        looked.warned.iter().for_each(|line| tracing::warn!("{line}"));
        Some(Reread { live: looked.live, standing: self.standing.clone() })
    }

    /// Logs what a reload finds that changes nothing, and what was told before and is still so.
    pub fn log_unchanged(&self) {
        match &self.standing {
            ConfigStatus { refused: Some(error), .. } => {
                tracing::warn!("the config file still cannot be used, so all stays as it was: {error}");
            }
            ConfigStatus { waiting, .. } if !waiting.is_empty() => {
                tracing::warn!(
                    "the config file has not changed again; a restart brings into force: {}",
                    waiting.join(", ")
                );
            }
            ConfigStatus { .. } => tracing::info!("the config file has not changed"),
        }
    }

    fn take(&mut self, text: String) -> Looked {
        let file = self.path.display().to_string();
        let chosen = match choose(&self.given, Some(&text)) {
            Ok(chosen) => chosen,
            Err(error) => return self.refuse(&text, &format!("`{file}`: {error}")),
        };
        let document = self.which.over(chosen.document);
        let errors = validate::errors(&document, document.mode(self.which.usual));
        if !errors.is_empty() {
            return self.refuse(&text, &format!("`{file}`: {}", errors.join("; ")));
        }
        self.text = text;
        self.standing.refused = None;
        let mut looked = self.compare(&document);
        let told = self.warnings(chosen.warnings, &document);
        looked.warned.extend(told.iter().filter(|warning| !self.told.contains(warning)).cloned());
        self.told = told;
        looked
    }

    /// Once for each text.
    fn refuse(&mut self, text: &str, error: &str) -> Looked {
        self.standing.refused = Some(error.to_owned());
        if std::mem::replace(&mut self.text, text.to_owned()) == text {
            return Looked::default();
        }
        let why = format!("the config file has changed and cannot be used, so all stays as it was: {error}");
        Looked { warned: vec![why], ..Looked::default() }
    }

    fn warnings(&self, of_reading: Vec<String>, document: &Document) -> Vec<String> {
        let mode = document.mode(self.which.usual).unwrap_or(self.which.usual);
        of_reading.into_iter().chain(notices(document, mode)).collect()
    }

    /// Takes over what may change now.
    fn compare(&mut self, new: &Document) -> Looked {
        let (mut before, after) = (json!(self.document), json!(new));
        let modes = (self.mode_of(&self.document), self.mode_of(new));
        let is_other = |field: &&Field| match field.path {
            // The one that an empty field means may also be written.
            "mode" => modes.0 != modes.1,
            _ => field.status != Status::NotOffered && field.of(&before) != field.of(&after),
        };
        let changed: Vec<(&Field, Turn)> =
            FIELDS.iter().filter(is_other).map(|field| (field, self.turn(field, modes))).collect();
        for (field, _) in changed.iter().filter(|(field, turn)| self.is_settled(field, turn, modes.0)) {
            field.put(&mut before, field.of(&after).clone());
        }
        self.document = serde_json::from_value(before).unwrap_or_else(|_| self.document.clone());
        self.tell(&changed)
    }

    fn mode_of(&self, document: &Document) -> Mode {
        document.mode(self.which.usual).unwrap_or(self.which.usual)
    }

    /// What becomes of a changed field, in the mode that runs and in the one of the file.
    fn turn(&self, field: &Field, (runs, of_file): (Mode, Mode)) -> Turn {
        if let Some(option) = self.before.over.get(field.path) {
            return Turn::Never(format!("{option} goes before it"));
        }
        match (field.change, field.acts_in(runs), field.acts_in(of_file)) {
            (Change::Live, true, _) => Turn::Now,
            (_, _, true) => Turn::AfterRestart,
            (_, _, false) => Turn::Never(format!("the mode is {of_file}")),
        }
    }

    /// Whether nothing is left to be done for what the file says now. What acts in the mode that runs, and would not in the file's,
    /// waits: the file may go back to the mode that runs.
    fn is_settled(&self, field: &Field, turn: &Turn, runs: Mode) -> bool {
        match turn {
            Turn::Now => true,
            Turn::AfterRestart => false,
            Turn::Never(_) => self.before.over.contains_key(field.path) || !field.acts_in(runs),
        }
    }

    fn tell(&mut self, changed: &[(&Field, Turn)]) -> Looked {
        let names = |turn: Turn| -> Vec<String> {
            changed
                .iter()
                .filter(|(_, of)| *of == turn)
                .map(|(field, _)| format!("`{}`", field.path))
                .collect()
        };
        let (now, later) = (names(Turn::Now), names(Turn::AfterRestart));
        let reason = |(field, turn): &(&Field, Turn)| match turn {
            Turn::Never(why) => Some(format!("`{}` ({why})", field.path)),
            Turn::Now | Turn::AfterRestart => None,
        };
        let never: Vec<String> = changed.iter().filter_map(reason).collect();
        let mut looked = Looked::default();
        if !now.is_empty() {
            let asked = Asked::of(&self.document, self.which.usual);
            looked.level = Some(asked.log.level);
            looked.live = Some(self.before.live(asked, self.document.logging.verbosity));
        }
        looked.said.extend(sentence("in force now", &now));
        looked.warned.extend(sentence("restart to bring into force", &later));
        looked.warned.extend(sentence("without effect", &never));
        self.standing.waiting = later.iter().map(|name| name.replace('`', "")).collect();
        looked
    }
}

fn sentence(what: &str, fields: &[String]) -> Option<String> {
    (!fields.is_empty()).then(|| format!("the config file has changed; {what}: {}", fields.join(", ")))
}

#[cfg(test)]
mod tests;
