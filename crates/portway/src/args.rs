//! The options that every command shares, and what they mean for the model and for the control plane.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice, ValueEnum};
use ipnet::IpNet;
use model::{Config, DetectLocal, NodePortAddress};
use standalone::{host, ipam};

use super::said::Failure;
use super::values::{Sentence, Words, address, cidr, name, node_port_address, port_range};

const SOURCES: &str = "Where Services come from";
const NODE: &str = "This node";
const ALLOCATION: &str = "What Services are given";
const POLICY: &str = "How packets are treated";
const SPEECH: &str = "How portway speaks";

/// The options that say what the picture is made of.
#[derive(Args, Clone, Debug)]
pub(super) struct Shared {
    /// Manifests to read: Services, EndpointSlices, Pods, Nodes, ServiceCIDRs; may be repeated. Without it, the
    /// environment variable `PORTWAY_FROM`, a list separated by colons; without that, the running portway is asked
    #[arg(long, global = true, value_name = "FILE|DIR", help_heading = SOURCES)]
    from: Vec<PathBuf>,

    /// The folder of the running portway: its lock, and the socket by which root can ask it
    #[arg(long, global = true, value_name = "DIR", default_value = "/run/portway", help_heading = SOURCES)]
    run_dir: PathBuf,

    /// The name of this node: endpoints with this nodeName are local [default: the host name]
    #[arg(long, global = true, value_name = "NAME", value_parser = Sentence(name), help_heading = NODE)]
    node_name: Option<String>,

    /// An address of this node; may be repeated, the first of each family is the primary one [default: those of its
    /// Node object, else those of this host]
    #[arg(long, global = true, value_name = "IP", value_delimiter = ',', value_parser = Sentence(address), help_heading = NODE)]
    node_ip: Vec<IpAddr>,

    /// Where cluster IPs come from; two, separated by a comma, for dual stack
    #[arg(long, global = true, value_name = "CIDR", value_delimiter = ',', value_parser = Sentence(cidr),
          default_value = "10.96.0.0/12", help_heading = ALLOCATION)]
    service_cidr: Vec<IpNet>,

    /// Where load balancer IPs come from; without it EXTERNAL-IP stays <pending> and the node port works
    #[arg(long, global = true, value_name = "CIDR", value_delimiter = ',', value_parser = Sentence(cidr), help_heading = ALLOCATION)]
    load_balancer_cidr: Vec<IpNet>,

    /// Where node ports come from
    #[arg(long, global = true, value_name = "FIRST-LAST", value_parser = Sentence(port_range),
          default_value = "30000-32767", help_heading = ALLOCATION)]
    node_port_range: RangeInclusive<u16>,

    /// Where given addresses are remembered: `run` writes there, other commands only read [default: /var/lib/portway for root, else the
    /// user's state folder; reading commands take root's where the user has none]
    #[arg(long, global = true, value_name = "DIR", help_heading = ALLOCATION)]
    state_dir: Option<PathBuf>,

    /// The networks of this cluster's pods, separated by commas
    #[arg(long, global = true, value_name = "CIDR", value_delimiter = ',', value_parser = Sentence(cidr), help_heading = POLICY)]
    cluster_cidr: Vec<IpNet>,

    /// How a packet of a pod is told from others [default: `ClusterCIDR`]
    #[arg(long, global = true, value_name = "MODE", value_parser = Words::<DetectLocalMode>::called("way to detect pods"),
          help_heading = POLICY)]
    detect_local_mode: Option<DetectLocalMode>,

    /// The bridge that pods are behind, for `BridgeInterface`
    #[arg(long, global = true, value_name = "NAME", value_parser = Sentence(name), help_heading = POLICY)]
    pod_bridge_interface: Option<String>,

    /// How the names of pods' interfaces begin, for `InterfaceNamePrefix`
    #[arg(long, global = true, value_name = "PREFIX", value_parser = Sentence(name), help_heading = POLICY)]
    pod_interface_name_prefix: Option<String>,

    /// Masquerade all traffic to cluster IPs
    #[arg(long, global = true, help_heading = POLICY)]
    masquerade_all: bool,

    /// Where node ports answer: networks, `primary`, `localhost` or `all`, separated by commas [default: as the mode does]
    #[arg(long, global = true, value_name = "WHERE", value_delimiter = ',', value_parser = Sentence(node_port_address), help_heading = POLICY)]
    nodeport_addresses: Vec<NodePortAddress>,

    /// Serve Services whose label service.kubernetes.io/service-proxy-name is this one [default: those without it]
    #[arg(long, global = true, value_name = "NAME", value_parser = Sentence(name), help_heading = POLICY)]
    service_proxy_name: Option<String>,

    /// Refuse external and load balancer IPs outside these networks, separated by commas [default: none is refused]
    #[arg(long, global = true, value_name = "CIDR", value_delimiter = ',', value_parser = Sentence(cidr), help_heading = POLICY)]
    allowed_external_ips: Vec<IpNet>,
}

/// The options that say how to speak.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Global {
    /// How warnings and logs are written to standard error [default: text]
    #[arg(long, global = true, value_name = "FORMAT", value_parser = Words::<LogFormat>::called("log format"), help_heading = SPEECH)]
    pub(super) log_format: Option<LogFormat>,

    /// When to use colours; auto: on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_name = "WHEN", value_parser = Words::<ColorWhen>::called("time for colours"), default_value = "auto", help_heading = SPEECH)]
    pub(super) color: ColorWhen,
}

/// `--detect-local-mode`, as kube-proxy spells it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DetectLocalMode {
    #[value(name = "ClusterCIDR")]
    ClusterCidr,
    #[value(name = "NodeCIDR")]
    NodeCidr,
    #[value(name = "BridgeInterface")]
    BridgeInterface,
    #[value(name = "InterfaceNamePrefix")]
    InterfaceNamePrefix,
}

/// `--log-format`: lines for people, or one JSON object per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

/// `--color`: on a terminal, everywhere, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorWhen {
    Auto,
    Always,
    Never,
}

impl ColorWhen {
    /// What the arguments say, before they are read in earnest: help and errors have colours too.
    pub(super) fn among(arguments: &[OsString]) -> Self {
        let mut texts = arguments.iter().filter_map(|argument| argument.to_str());
        let mut value = None;
        while let Some(text) = texts.next() {
            value = match text.strip_prefix("--color") {
                Some("") => texts.next(),
                Some(rest) => rest.strip_prefix('='),
                None => value,
            };
        }
        value.and_then(|value| Self::from_str(value, true).ok()).unwrap_or(Self::Auto)
    }
}

impl From<ColorWhen> for ColorChoice {
    fn from(when: ColorWhen) -> Self {
        match when {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        }
    }
}

impl Shared {
    /// The files and folders to read; none where nobody named any.
    pub(super) fn named_sources(&self) -> Vec<PathBuf> {
        if self.from.is_empty() { from_environment() } else { self.from.clone() }
    }

    /// The files and folders to read, which must have been named.
    pub(super) fn sources(&self) -> Result<Vec<PathBuf>, Failure> {
        let told = self.named_sources();
        if told.is_empty() {
            return Err(Failure::usage(
                "no source of Services: add `--from FILE|DIR` (try `--from examples`), or set PORTWAY_FROM",
            ));
        }
        Ok(told)
    }

    /// The folder of the running portway.
    pub(super) fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The choices that may change while a portway runs: `--masquerade-all` and `--nodeport-addresses`.
    pub(super) fn rechoice(&self) -> (bool, Vec<NodePortAddress>) {
        (self.masquerade_all, self.nodeport_addresses.clone())
    }

    /// The choices that decide packets. Where the options say nothing, a document does.
    pub(super) fn config(&self, of_document: Option<&Config>) -> Result<Config, Failure> {
        let asked =
            of_document.cloned().unwrap_or_else(|| Config { node_name: host::name(), ..Config::default() });
        let or = |given: &[NodePortAddress]| {
            if given.is_empty() { asked.node_port_addresses.clone() } else { given.to_vec() }
        };
        Ok(Config {
            node_name: self.node_name.clone().unwrap_or(asked.node_name),
            node_ips: if self.node_ip.is_empty() { asked.node_ips } else { self.node_ip.clone() },
            detect_local: self.detect_local()?.unwrap_or(asked.detect_local),
            masquerade_all: self.masquerade_all || asked.masquerade_all,
            node_port_addresses: or(&self.nodeport_addresses),
            service_proxy_name: self.service_proxy_name.clone(),
            allowed_external_ips: self.allowed_external_ips.clone(),
            refuses_external_ips: asked.refuses_external_ips,
        })
    }

    /// Where node ports come from.
    pub(super) fn node_port_range(&self) -> &RangeInclusive<u16> {
        &self.node_port_range
    }

    /// What the control plane gives out, and where it remembers it.
    pub(super) fn allocation(&self) -> ipam::Options {
        ipam::Options {
            service_cidrs: self.service_cidr.clone(),
            load_balancer_cidrs: self.load_balancer_cidr.clone(),
            node_port_range: self.node_port_range.clone(),
            state_dir: self.state_dir.clone().unwrap_or_else(ipam::default_state_dir),
            dry_run: false,
        }
    }

    /// What it would give out, over what is remembered. Nothing is written.
    pub(super) fn preview(&self) -> ipam::Options {
        let state_dir = self.state_dir.clone().unwrap_or_else(ipam::default_state_dir_to_read);
        ipam::Options { state_dir, dry_run: true, ..self.allocation() }
    }

    /// `None` where nobody says anything.
    fn detect_local(&self) -> Result<Option<DetectLocal>, Failure> {
        let needed = |value: &Option<String>, mode: &str, option: &str| {
            value.clone().ok_or_else(|| {
                Failure::usage(format!("`--detect-local-mode {mode}` needs a name: add `{option} NAME`"))
            })
        };
        let chosen = match self.detect_local_mode {
            None if self.cluster_cidr.is_empty() => return Ok(None),
            None | Some(DetectLocalMode::ClusterCidr) => {
                Ok(DetectLocal::ClusterCidr(self.cluster_cidr.clone()))
            }
            Some(DetectLocalMode::NodeCidr) => Ok(DetectLocal::NodeCidr),
            Some(DetectLocalMode::BridgeInterface) => {
                needed(&self.pod_bridge_interface, "BridgeInterface", "--pod-bridge-interface")
                    .map(DetectLocal::BridgeInterface)
            }
            Some(DetectLocalMode::InterfaceNamePrefix) => {
                needed(&self.pod_interface_name_prefix, "InterfaceNamePrefix", "--pod-interface-name-prefix")
                    .map(DetectLocal::InterfaceNamePrefix)
            }
        };
        chosen.map(Some)
    }
}

fn from_environment() -> Vec<PathBuf> {
    let value = std::env::var_os("PORTWAY_FROM").unwrap_or_default();
    std::env::split_paths(&value).filter(|path| path.as_os_str() != OsStr::new("")).collect()
}
