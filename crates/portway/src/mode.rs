//! Which mode a command is about.
//!
//! In: the options, and the document of `--config`, or the running portway where it is the one that is asked. Out: the mode, with what
//! belongs to it, and the document's choices that decide packets.

use std::path::PathBuf;

use clap::Args;
use config::kubeproxy::{self, Asked, Given, Loaded, Which};
use dataplane::settings::Values;
use dataplane::{
    ConntrackSettings, LocalhostNodePorts, MASQUERADE_BIT, Mode, ModeSettings, programs, registry,
};
use kernel::sysctl::{Sysctls as _, ThisMachine};
use model::Config;
use observe::socket;
use observe::status::Status;

use super::args::Shared;
use super::mode_flags::{ModeFlags, ModeName, Rules, refuse_foreign_settings};
use super::said::Failure;

/// The options.
#[derive(Args, Debug)]
pub(super) struct ModeArgs {
    /// The mode; without it that of the running portway where no `--from` is given, else the default mode
    #[arg(long, value_parser = ModeName)]
    mode: Option<Mode>,

    /// With `--from`: a document of kind `KubeProxyConfiguration`, as `portway run --config` takes it; options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    own: ModeFlags<Rules>,
}

/// What was chosen.
#[derive(Debug)]
pub(super) struct ModeChoice {
    /// The mode, with what belongs to it.
    pub(super) settings: ModeSettings,
    /// The choices of the document that decide packets.
    pub(super) config: Option<Config>,
    /// What there is to tell about the document.
    pub(super) warnings: Vec<String>,
    /// The settings of the connection tracker that decide rules.
    pub(super) tracker: ConntrackSettings,
}

/// Those of this host.
fn conntrack_of_this_host() -> ConntrackSettings {
    let is = |name: &str, value: &str| {
        let found = ThisMachine.read(&format!("net/netfilter/nf_conntrack_tcp_{name}"));
        found.is_ok_and(|found| found.as_deref() == Some(value))
    };
    ConntrackSettings { is_liberal: is("be_liberal", "1"), is_strict: is("loose", "0") }
}

impl ModeArgs {
    /// What was chosen. A portway that cannot be asked is told by who asks it for its picture.
    pub(super) fn choose(&self, shared: &Shared) -> Result<ModeChoice, Failure> {
        let Some(loaded) = self.load(shared)? else {
            let settings = self.without_document(shared)?;
            let is_asked = shared.named_sources().is_empty();
            let tracker = if is_asked { conntrack_of_this_host() } else { ConntrackSettings::default() };
            return Ok(ModeChoice { settings, config: None, warnings: Vec::new(), tracker });
        };
        let asked = Asked::of(&loaded.document, registry::default_mode());
        let settings = self.over(asked.mode)?;
        let tracker = ConntrackSettings { is_liberal: asked.tuning.tcp_be_liberal, is_strict: false };
        Ok(ModeChoice { settings, config: Some(asked.config), warnings: loaded.warnings, tracker })
    }

    /// The document of `--config`, where one is named.
    fn load(&self, shared: &Shared) -> Result<Option<Loaded>, Failure> {
        let Some(file) = &self.config else { return Ok(None) };
        if shared.named_sources().is_empty() {
            return Err(Failure::usage(
                "`--config` needs manifests: add `--from FILE|DIR`, or set PORTWAY_FROM; without them the running portway is asked, \
                 which has a configuration of its own",
            ));
        }
        let which = Which { usual: registry::default_mode(), forced: self.mode };
        kubeproxy::load(&Given::default(), Some(file), which).map(Some).map_err(Failure::refused)
    }

    fn without_document(&self, shared: &Shared) -> Result<ModeSettings, Failure> {
        let is_asked = shared.named_sources().is_empty();
        let running = is_asked.then(|| socket::status(shared.run_dir()).ok()).flatten();
        let of_running = running.as_ref().and_then(Status::known_mode);
        let mode = self.mode.or(of_running).unwrap_or_else(registry::default_mode);
        let running = running.filter(|_| of_running == Some(mode)).unwrap_or_default();
        self.over(ModeSettings {
            mode,
            localhost_node_ports: running.localhost_node_ports,
            masquerade_bit: running.masquerade_bit.unwrap_or(MASQUERADE_BIT),
            own: values_of(mode, &running),
        })
    }

    /// These settings, but the options override them.
    fn over(&self, settings: ModeSettings) -> Result<ModeSettings, Failure> {
        refuse_foreign_settings(settings.mode, &self.own.values)?;
        Ok(with_flags(settings, &self.own.values))
    }
}

/// These settings, but the flags override them.
pub(super) fn with_flags(settings: ModeSettings, flags: &Values) -> ModeSettings {
    let own = flags.clone().over(settings.own);
    let is_by_rules = settings.mode.serves_localhost_by_rules(&own);
    let localhost_node_ports =
        if is_by_rules { LocalhostNodePorts::ByRules } else { settings.localhost_node_ports };
    ModeSettings { localhost_node_ports, own, ..settings }
}

/// What was chosen for a running portway.
fn values_of(mode: Mode, running: &Status) -> Values {
    let mut values = running.section().map(|section| mode.values_of_status(section)).unwrap_or_default();
    let program = running.program.as_deref().and_then(programs::setting_of);
    if let Some(program) = program.filter(|_| mode.setting(programs::FLAG).is_some()) {
        values.set(programs::FLAG, vec![program.to_owned()]);
    }
    values
}
