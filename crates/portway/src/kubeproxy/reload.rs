//! Follows the file of `--config` while a portway runs.
//!
//! In: the file, and what the command line says. Out: what may change while the loop runs, and lines for the log: what is in force now,
//! what waits for a restart, or why the file cannot be used, in which case all stays as it was.
//!
//! Upstream ends instead, and is started anew.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{NodePortAddress, Rechoice};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use super::asked::Asked;
use super::document::Document;
use super::fields::{Change, FIELDS, Field, Status};
use super::line::Given;
use super::{Loaded, Which, choose, notices, read, validate};
use crate::run::{Live, PaceOptions};

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
}

impl Before {
    /// The pace, where a document asks for this one.
    pub fn pace(&self, asked: PaceOptions) -> PaceOptions {
        PaceOptions {
            min_sync_period: self.min_sync_period.unwrap_or(asked.min_sync_period),
            sync_period: self.sync_period.unwrap_or(asked.sync_period),
        }
    }

    fn live(&self, asked: Asked) -> Live {
        let node_port_addresses = if self.node_port_addresses.is_empty() {
            asked.config.node_port_addresses
        } else {
            self.node_port_addresses.clone()
        };
        let masquerade_all = self.masquerade_all || asked.config.masquerade_all;
        Live { pace: self.pace(asked.pace), packets: Rechoice { masquerade_all, node_port_addresses } }
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
    set_level: fn(LevelFilter),
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
            set_level,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the file. What can change now is returned, and the log told.
    pub fn look(&mut self) -> Option<Live> {
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
        looked.live
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
        let mut looked = self.compare(&document);
        let told = self.warnings(chosen.warnings, &document);
        looked.warned.extend(told.iter().filter(|warning| !self.told.contains(warning)).cloned());
        self.told = told;
        looked
    }

    /// Once for each text.
    fn refuse(&mut self, text: &str, error: &str) -> Looked {
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
        let is_other =
            |field: &&Field| field.status != Status::NotOffered && field.of(&before) != field.of(&after);
        let (live, later): (Vec<&Field>, Vec<&Field>) =
            FIELDS.iter().filter(is_other).partition(|field| field.change == Change::Live);
        let mut looked = Looked::default();
        if !live.is_empty() {
            for field in &live {
                field.put(&mut before, field.of(&after).clone());
            }
            self.document = serde_json::from_value(before).unwrap_or_else(|_| self.document.clone());
            let asked = Asked::of(&self.document, self.which.usual);
            looked.level = Some(asked.log.level);
            looked.live = Some(self.before.live(asked));
            looked.said.push(format!("the config file has changed; in force now: {}", names(&live)));
        }
        if !later.is_empty() {
            looked
                .warned
                .push(format!("the config file has changed; restart to bring into force: {}", names(&later)));
        }
        looked
    }
}

fn names(fields: &[&Field]) -> String {
    fields.iter().map(|field| format!("`{}`", field.path)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Mode;

    const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

    fn reload(text: &str, before: Before) -> Reload {
        let text = format!("{HEAD}{text}");
        let chosen = choose(&Given::default(), Some(&text)).expect("it is right");
        let which = Which { usual: Mode::Iptables, forced: None };
        let told = notices(&chosen.document, Mode::Nftables);
        let loaded = Loaded { document: chosen.document, text: Some(text), warnings: told };
        Reload::new(&loaded, Path::new("f"), &Given::default(), before, which, |_| ())
    }

    #[test]
    fn what_is_safe_counts_at_once_and_the_rest_waits_for_a_restart() {
        let mut reload = reload("mode: nftables\n", Before::default());
        let looked = reload.take(format!(
            "{HEAD}mode: nftables\nnodePortAddresses: [primary]\nnftables: {{ masqueradeAll: true, syncPeriod: 7s }}\n\
             logging: {{ verbosity: 4 }}\nclusterCIDR: 10.0.0.0/8\n"
        ));
        let live = looked.live.expect("something may change");
        assert_eq!(live.pace.sync_period, Duration::from_secs(7));
        assert_eq!(live.pace.min_sync_period, Duration::from_millis(50));
        assert!(live.packets.masquerade_all);
        assert_eq!(live.packets.node_port_addresses, [NodePortAddress::Primary]);
        assert_eq!(looked.level, Some(LevelFilter::DEBUG));
        for name in
            ["logging.verbosity", "nftables.masqueradeAll", "nftables.syncPeriod", "nodePortAddresses"]
        {
            assert!(looked.said[0].contains(&format!("`{name}`")), "{:?}", looked.said);
        }
        assert_eq!(
            looked.warned,
            ["the config file has changed; restart to bring into force: `clusterCIDR`"]
        );
        let back = reload.take(format!("{HEAD}mode: nftables\n"));
        assert!(back.said[0].contains("`nodePortAddresses`") && back.warned.is_empty(), "{back:?}");
    }

    #[test]
    fn a_broken_file_changes_nothing_and_says_why() {
        let mut reload = reload("mode: nftables\n", Before::default());
        let looked = reload.take(format!("{HEAD}mode: nftables\noomScoreAdj: 5000\n"));
        assert_eq!((looked.live, looked.level), (None, None));
        assert!(looked.warned[0].contains("all stays as it was"), "{:?}", looked.warned);
        assert!(looked.warned[0].contains("KubeProxyConfiguration.oomScoreAdj"), "{:?}", looked.warned);
        let half = reload.take("mode: [".to_owned());
        assert!(half.live.is_none() && half.warned[0].contains("line 1"), "{half:?}");
        let right = reload.take(format!("{HEAD}mode: nftables\n"));
        assert_eq!(right, Looked::default(), "back to what is in force: nothing to tell");
    }

    #[test]
    fn another_mode_waits_and_the_pace_is_that_of_the_mode_in_force() {
        let mut reload = reload("mode: nftables\n", Before::default());
        let looked = reload
            .take(format!("{HEAD}mode: ipvs\nnftables: {{ syncPeriod: 9s }}\nipvs: {{ syncPeriod: 3s }}\n"));
        assert_eq!(looked.live.expect("a period has changed").pace.sync_period, Duration::from_secs(9));
        assert!(looked.warned[0].ends_with("restart to bring into force: `mode`"), "{:?}", looked.warned);
    }

    #[test]
    fn what_the_command_line_says_goes_before_the_file() {
        let before = Before {
            sync_period: Some(Duration::from_secs(2)),
            node_port_addresses: vec![NodePortAddress::All],
            ..Before::default()
        };
        let mut reload = reload("mode: nftables\n", before);
        let looked = reload.take(format!(
            "{HEAD}mode: nftables\nnodePortAddresses: [primary]\nnftables: {{ syncPeriod: 9s }}\n"
        ));
        let live = looked.live.expect("something may change");
        assert_eq!(live.pace.sync_period, Duration::from_secs(2));
        assert_eq!(live.packets.node_port_addresses, [NodePortAddress::All]);
    }

    #[test]
    fn a_new_slip_is_told_once() {
        let mut reload = reload("mode: nftables\n", Before::default());
        let slip = format!("{HEAD}mode: nftables\nmodee: x\n");
        assert_eq!(reload.take(slip.clone()).warned, ["unknown field `modee`: did you mean `mode`?"]);
        assert_eq!(reload.take(format!("{slip}# more\n")).warned, Vec::<String>::new());
    }
}
