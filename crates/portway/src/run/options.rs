//! The options of `portway run`, and what they ask for together with a document.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::KubeconfigFile;
use config::kubeproxy::{self, Asked, Before, Document, Given, Loaded, Reload, SHORTEST, Which};
use config::{Arrival, Origin, PaceOptions, RelaySettings, Settings, VanishedTcp};
use dataplane::relay::{PORTS_FLAG, ports};
use dataplane::{Mode, ModeSettings, registry};
use model::Config;

use crate::serve::ServeArgs;
use clap::Args;

use super::{over_fields, server};
use crate::args::Shared;
use crate::flags::Flags;
use crate::logging;
use crate::mode::with_flags;
use crate::mode_flags::{ModeFlags, ModeName, Run, refuse_foreign_settings};
use crate::output::Output;
use crate::said::Failure;
use crate::tuning::TuningArgs;
use crate::values::{Sentence, Words, duration};

/// Beside an API server.
const OR_MANIFESTS: &str = ", or manifests with `--from FILE|DIR` or PORTWAY_FROM";

/// With `{default}`, `{other}` and `{relayed}` in the place of modes.
const EXAMPLES: &str = "\
Examples:
  portway run                                      in a Pod of a cluster, by its account
  portway run --kubeconfig /etc/portway/kubeconfig --mode {other}
  portway run --mode {default} --from /etc/portway
  portway run --config /etc/portway/config.conf    as upstream's kube-proxy takes it
  portway run --from examples --cluster-cidr 10.244.0.0/16 --node-name a
  portway run --from /etc/portway --take-over      instead of the portway that runs here, without a gap

Needs root, or CAP_NET_ADMIN. SIGHUP has it read manifests and the file of `--config` again. SIGTERM and SIGINT end it; the rules stay in place, so that connections go on while it is
upgraded. In mode {relayed} portway itself carries them: upgrade it with `--take-over`. `portway cleanup` removes them. While it runs, `portway status`, and `portway get`, `describe` and `explain`
without `--from`, ask it by the socket in its folder (`--run-dir`), which answers root only.";

fn examples() -> String {
    let default = registry::default_mode();
    let other = registry::product_modes().find(|mode| *mode != default).unwrap_or(default);
    let relayed = registry::names_of(|mode| mode.behaviour().relays_connections);
    let text = EXAMPLES.replace("{default}", default.name()).replace("{other}", other.name());
    text.replace("{relayed}", &relayed)
}

/// `portway run`.
#[derive(Args, Debug)]
#[command(after_help = examples())]
pub(crate) struct RunArgs {
    /// The way to the API server, where Services come from unless `--from` names manifests [default: the account of our Pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The URL of the API server, in place of the one in `--kubeconfig`
    #[arg(long, value_name = "URL")]
    master: Option<String>,

    /// A document of kind `KubeProxyConfiguration` (kubeproxy.config.k8s.io/v1alpha1), as upstream's kube-proxy takes it; options go before
    /// it. Its changes count without a restart where that is safe
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The mode, if not the default one
    #[arg(long, value_parser = ModeName)]
    mode: Option<Mode>,

    /// The shortest time from the end of a write to the begin of the next; a single change is written at once [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration))]
    min_sync_period: Option<Duration>,

    /// How often everything is compared with the kernel; every 20 times as long as that takes, where that is longer [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration))]
    sync_period: Option<Duration>,

    /// A UDP client of the relay (connections that portway itself carries, node ports on localhost) is forgotten when nothing came or went for so long
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), default_value = "30s")]
    udp_timeout: Duration,

    /// How long connections that portway itself carries (where its mode has it do so, and for node ports on localhost) may go on when their Service is
    /// gone, or when portway ends or hands over
    #[arg(long, value_name = "TIME", value_parser = Sentence(duration), default_value = "30s")]
    drain_timeout: Duration,

    /// What becomes of TCP connections to a Pod that has vanished (it was terminating and is in no EndpointSlice any more, or its Node
    /// was deleted): `reset` tells their clients, `leave` lets them wait for about 15 minutes, as upstream does
    #[arg(long, value_name = "CHOICE", value_parser = Words::<VanishedTcp>::called("choice"), default_value = "reset")]
    vanished_tcp: VanishedTcp,

    /// A path of `--from` without any object is meant: at the start, rules in the kernel that no object asks for are removed
    #[arg(long)]
    allow_empty: bool,

    /// Go on in the place of the portway that runs here, which then stands by until it is told to end
    #[arg(long, conflicts_with = "stand_by")]
    take_over: bool,

    /// Wait until no other portway runs here
    #[arg(long)]
    stand_by: bool,

    #[command(flatten)]
    own: ModeFlags<Run>,

    #[command(flatten)]
    serve: ServeArgs,

    #[command(flatten)]
    tuning: TuningArgs,

    /// The process to which this one has just handed over
    #[arg(long, hide = true, requires = "stand_by")]
    successor: Option<u32>,
}

impl RunArgs {
    /// The run that these options and the document ask for.
    pub(super) fn settings(
        &self,
        shared: &Shared,
        loaded: Option<&Loaded>,
        flags: &Flags,
        output: &Output,
    ) -> Result<Settings, Failure> {
        let is_in_cluster = shared.named_sources().is_empty();
        let asked = loaded.map(|loaded| {
            let asked = Asked::of(&loaded.document, registry::default_mode());
            if is_in_cluster { asked } else { asked.without_cluster(&loaded.said) }
        });
        let asked = asked.as_ref();
        let config = shared.config(asked.map(|asked| &asked.config))?;
        let before = self.before(shared, flags);
        Ok(Settings {
            mode: self.mode_settings(asked)?,
            // Our own default stays what it is.
            is_default_mode: false,
            relay: self.relay(shared, asked)?,
            origin: self.origin(shared, &config, asked)?,
            config,
            run_dir: shared.run_dir().to_owned(),
            pace: before.pace(asked.map_or_else(PaceOptions::default, |asked| asked.pace)),
            serve: self.serve.options(asked.map(|asked| &asked.serve), is_in_cluster),
            tuning: self.tuning.tuning(asked.map(|asked| asked.tuning), is_in_cluster),
            vanished_tcp: self.vanished_tcp,
            flags: flags.shown.clone(),
            document: output
                .documented(loaded.map_or_else(Document::usual, |loaded| loaded.document.clone())),
            arrival: self.arrival(),
            reload: loaded.zip(self.config.as_deref()).map(|(loaded, file)| {
                Reload::new(loaded, file, &Given::default(), before, self.which(), logging::set_level)
            }),
        })
    }

    fn arrival(&self) -> Arrival {
        match (self.take_over, self.stand_by) {
            (true, _) => Arrival::TakeOver,
            (false, true) => Arrival::StandBy { for_process: self.successor },
            (false, false) => Arrival::Refuse,
        }
    }

    /// The document of `--config`, where one is named.
    pub(crate) fn load(&self) -> Result<Option<Loaded>, Failure> {
        let Some(file) = &self.config else { return Ok(None) };
        kubeproxy::load(&Given::default(), Some(file), self.which()).map(Some).map_err(Failure::refused)
    }

    fn which(&self) -> Which {
        Which { usual: registry::default_mode(), forced: self.mode }
    }

    /// What goes before the document.
    fn before(&self, shared: &Shared, flags: &Flags) -> Before {
        let (masquerade_all, node_port_addresses) = shared.rechoice();
        Before {
            min_sync_period: self.min_sync_period,
            sync_period: self.sync_period.map(|period| period.max(SHORTEST)),
            masquerade_all,
            node_port_addresses,
            over: over_fields(&flags.given),
        }
    }

    fn mode_settings(&self, asked: Option<&Asked>) -> Result<ModeSettings, Failure> {
        let usual = asked.map_or_else(ModeSettings::default, |asked| asked.mode.clone());
        let mode = self.mode.unwrap_or(usual.mode);
        refuse_foreign_settings(mode, &self.own.values)?;
        Ok(with_flags(ModeSettings { mode, ..usual }, &self.own.values))
    }

    /// Manifests where some are named, else an API server.
    fn origin(&self, shared: &Shared, config: &Config, asked: Option<&Asked>) -> Result<Origin, Failure> {
        let from = shared.named_sources();
        let names_server = self.kubeconfig.is_some() || self.master.is_some();
        let of_document = asked.and_then(|asked| asked.kubeconfig.clone()).map(KubeconfigFile::of_document);
        match (from.is_empty(), names_server) {
            (false, false) => {
                Ok(Origin::Files { from, allocation: shared.allocation(), allow_empty: self.allow_empty })
            }
            (false, true) => Err(Failure::usage(
                "two sources of Services: `--kubeconfig` and `--master` name an API server, and `--from` or PORTWAY_FROM \
                 manifests: leave one out",
            )),
            (true, _) => {
                let kubeconfig = self.kubeconfig.clone().map(KubeconfigFile::of_flag).or(of_document);
                server(kubeconfig, self.master.clone(), config, OR_MANIFESTS)
            }
        }
    }

    fn relay(&self, shared: &Shared, asked: Option<&Asked>) -> Result<RelaySettings, Failure> {
        let node_ports = shared.node_port_range();
        let ports = match (self.own.values.text(PORTS_FLAG), asked) {
            (Some(text), _) => {
                let ports = ports(text).map_err(Failure::usage)?;
                beside_node_ports("--proxy-port-range ", ports, node_ports).map_err(Failure::usage)?
            }
            (None, Some(asked)) => ports_of_document(asked, node_ports)?,
            (None, None) => None,
        };
        Ok(RelaySettings { ports, udp_timeout: self.udp_timeout, drain_timeout: self.drain_timeout })
    }
}

/// The ports of mode userspace that a document chooses.
pub(crate) fn ports_of_document(
    asked: &Asked,
    node_ports: &RangeInclusive<u16>,
) -> Result<Option<RangeInclusive<u16>>, Failure> {
    beside_node_ports("portRange: ", asked.ports.clone(), node_ports).map_err(Failure::refused)
}

/// Ports of ours must not be taken for node ports. `named` is what stands before them where they were chosen.
fn beside_node_ports(
    named: &str,
    ports: Option<RangeInclusive<u16>>,
    node_ports: &RangeInclusive<u16>,
) -> Result<Option<RangeInclusive<u16>>, String> {
    match &ports {
        Some(ours) if ours.start() <= node_ports.end() && node_ports.start() <= ours.end() => Err(format!(
            "`{named}{}-{}` lies over the node ports {}-{}: choose other ports, or leave it out",
            ours.start(),
            ours.end(),
            node_ports.start(),
            node_ports.end()
        )),
        _ => Ok(ports),
    }
}
