//! Which mode a command is about.
//!
//! In: the options, and the document of `--config`, or the running portway where it is the one that is asked. Out: the mode, with what
//! belongs to it, and the document's choices that decide packets.

use std::path::PathBuf;

use clap::{Args, ValueEnum as _};
use kernel::sysctl::{Sysctls as _, ThisMachine};
use model::Config;

use super::args::Shared;
use super::ipvs::IpvsArgs;
use super::said::Failure;
use super::values::Words;
use crate::kubeproxy::{self, Asked, Given, Loaded, Which};
use crate::modes::{Mode, Program};
use crate::run::{IpvsStatus, LocalhostNodePorts, MASQUERADE_BIT, Status, Wish};
use crate::socket;

/// The options.
#[derive(Args, Debug)]
pub(super) struct ModeArgs {
    /// The mode; without it that of the running portway where no `--from` is given, else nftables
    #[arg(long, value_parser = Words::<Mode>::called("mode"))]
    mode: Option<Mode>,

    /// With `--from`: a document of kind `KubeProxyConfiguration`, as `portway run --config` takes it; options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Mode iptables: as with the same option of `portway run`, node ports answer on 127.0.0.0/8 too
    #[arg(long)]
    iptables_localhost_nodeports: bool,

    #[command(flatten)]
    ipvs: IpvsArgs,
}

/// What was chosen.
#[derive(Debug)]
pub(super) struct ModeChoice {
    /// The mode, with what belongs to it.
    pub(super) wish: Wish,
    /// The choices of the document that decide packets.
    pub(super) config: Option<Config>,
    /// What there is to tell about the document.
    pub(super) warnings: Vec<String>,
    /// The settings of the connection tracker that decide rules.
    pub(super) tracker: Tracker,
}

/// Settings of the connection tracker: those of the document, or of this host where its portway is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tracker {
    /// `nf_conntrack_tcp_be_liberal`.
    pub(super) is_liberal: bool,
    /// `nf_conntrack_tcp_loose` is 0.
    pub(super) is_strict: bool,
}

impl Tracker {
    fn of_this_host() -> Self {
        let is = |name: &str, value: &str| {
            let found = ThisMachine.read(&format!("net/netfilter/nf_conntrack_tcp_{name}"));
            found.is_ok_and(|found| found.as_deref() == Some(value))
        };
        Self { is_liberal: is("be_liberal", "1"), is_strict: is("loose", "0") }
    }
}

impl ModeArgs {
    /// What was chosen. A portway that cannot be asked is told by who asks it for its picture.
    pub(super) fn choose(&self, shared: &Shared) -> Result<ModeChoice, Failure> {
        let Some(loaded) = self.load(shared)? else {
            let wish = self.without_document(shared)?;
            let is_asked = shared.named_sources().is_empty();
            let tracker = if is_asked { Tracker::of_this_host() } else { Tracker::default() };
            return Ok(ModeChoice { wish, config: None, warnings: Vec::new(), tracker });
        };
        let asked = Asked::of(&loaded.document, Mode::Nftables);
        let wish = self.over(asked.wish)?;
        let tracker = Tracker { is_liberal: asked.tuning.tcp_be_liberal, is_strict: false };
        Ok(ModeChoice { wish, config: Some(asked.config), warnings: loaded.warnings, tracker })
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
        let which = Which { usual: Mode::Nftables, forced: self.mode };
        kubeproxy::load(&Given::default(), Some(file), which).map(Some).map_err(Failure::refused)
    }

    fn without_document(&self, shared: &Shared) -> Result<Wish, Failure> {
        let is_asked = shared.named_sources().is_empty();
        let running = is_asked.then(|| socket::status(shared.run_dir()).ok()).flatten();
        let of_running = running.as_ref().and_then(|status| Mode::from_str(&status.mode, false).ok());
        let mode = self.mode.or(of_running).unwrap_or(Mode::Nftables);
        let running = running.filter(|_| of_running == Some(mode)).unwrap_or_default();
        self.over(Wish {
            mode,
            program: program(&running),
            localhost_node_ports: running.localhost_node_ports,
            masquerade_bit: running.masquerade_bit.unwrap_or(MASQUERADE_BIT),
            ipvs: running.ipvs.as_ref().map(IpvsStatus::options).unwrap_or_default(),
        })
    }

    /// These settings, but the options override them.
    fn over(&self, wish: Wish) -> Result<Wish, Failure> {
        let localhost = if_given("--iptables-localhost-nodeports", self.iptables_localhost_nodeports);
        let own: [Own; 2] = [(localhost, &[Mode::Iptables]), (self.ipvs.given(), &[Mode::Ipvs])];
        refuse_foreign_options(wish.mode, &own)?;
        Ok(Wish {
            localhost_node_ports: by_rules(self.iptables_localhost_nodeports)
                .unwrap_or(wish.localhost_node_ports),
            ipvs: self.ipvs.over(wish.ipvs),
            ..wish
        })
    }
}

/// An option that not every mode has: its name, if it was given, and the modes that have it.
pub(super) type Own = (Option<&'static str>, &'static [Mode]);

/// What `--iptables-localhost-nodeports` says, if it was given.
pub(super) fn by_rules(is_given: bool) -> Option<LocalhostNodePorts> {
    is_given.then_some(LocalhostNodePorts::ByRules)
}

/// `name`, if it was given.
pub(super) fn if_given(name: &'static str, is_given: bool) -> Option<&'static str> {
    is_given.then_some(name)
}

/// Refuses options that mean nothing to a mode.
pub(super) fn refuse_foreign_options(mode: Mode, given: &[Own]) -> Result<(), Failure> {
    let foreign =
        given.iter().find_map(|(option, of)| (*option).filter(|_| !of.contains(&mode)).zip(of.first()));
    let Some((option, home)) = foreign else { return Ok(()) };
    Err(Failure::usage(format!(
        "`{option}` means nothing in mode `{mode}`: leave it out, or add `--mode {home}`"
    )))
}

/// The modes that use an iptables program.
pub(super) const WITH_PROGRAM: &[Mode] = &[Mode::Iptables, Mode::Userspace, Mode::Ipvs];

fn program(running: &Status) -> Program {
    match running.program.as_deref() {
        Some("iptables-nft") => Program::Nft,
        Some("iptables-legacy") => Program::Legacy,
        _ => Program::Auto,
    }
}
