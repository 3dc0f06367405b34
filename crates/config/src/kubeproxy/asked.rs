//! From a document that is right to what a run needs: one pure function for each group.
//!
//! In: a validated document, and the mode that an empty one means. Out: [`Asked`]. What a run needs and a document does not say, such as
//! the folder of the lock, is the command line's.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use dataplane::{Mode, ModeSettings, relay};
use model::net::{IpNet, parse_cidr, parse_ip};
use model::{Config, DetectLocal, NodePortAddress};
use serde_json::json;
use standalone::host;
use tracing_subscriber::filter::LevelFilter;

use super::document::Document;
use super::duration::GoDuration;
use super::gates;
use super::of_modes::{masquerade, mode_settings};
use crate::options::{ConntrackMax, ListenOptions, PaceOptions, Tuning};

/// Comparing everything without a pause would do nothing else.
pub const SHORTEST: Duration = Duration::from_secs(1);

/// The gate that lets external IPs be served.
const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

/// What a document asks of a run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The mode, and what belongs to it.
    pub mode: ModeSettings,
    /// The choices that decide packets.
    pub config: Config,
    /// The pace.
    pub pace: PaceOptions,
    /// Where to answer by HTTP.
    pub serve: ListenOptions,
    /// Settings of the kernel.
    pub tuning: Tuning,
    /// The way to the API server; `None`: the account of our Pod.
    pub kubeconfig: Option<PathBuf>,
    /// The ports of mode userspace, in that mode.
    pub ports: Option<RangeInclusive<u16>>,
    /// The log.
    pub log: Log,
}

/// How much is logged, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// How much.
    pub level: LevelFilter,
    /// One JSON object for each line.
    pub is_json: bool,
}

impl Asked {
    /// What this document asks for. Where it says no mode, it is `usual`.
    pub fn of(document: &Document, usual: Mode) -> Self {
        let mode = document.mode(usual).unwrap_or(usual);
        Self {
            mode: mode_settings(document, mode),
            config: config(document, mode),
            pace: pace(document, mode),
            serve: serving(document),
            tuning: tuning(document),
            kubeconfig: kubeconfig(document),
            ports: relay_ports(&mode_settings(document, mode)),
            log: log(document),
        }
    }

    /// The same, for a machine without a cluster: nobody asks there by HTTP, and settings of the kernel are not ours alone, so a port is
    /// opened and a setting made only where the file itself names it.
    #[must_use]
    pub fn without_cluster(mut self, said: &BTreeSet<&'static str>) -> Self {
        fn keep<T>(value: &mut Option<T>, is_said: bool) {
            if !is_said {
                *value = None;
            }
        }
        let says = |path: &str| said.contains(path);
        keep(&mut self.serve.healthz, says("healthzBindAddress"));
        keep(&mut self.serve.metrics, says("metricsBindAddress"));
        let tuning = &mut self.tuning;
        keep(&mut tuning.conntrack_max, says("conntrack.maxPerCore") || says("conntrack.min"));
        keep(&mut tuning.tcp_established, says("conntrack.tcpEstablishedTimeout"));
        keep(&mut tuning.tcp_close_wait, says("conntrack.tcpCloseWaitTimeout"));
        keep(&mut tuning.oom_score_adj, says("oomScoreAdj"));
        self
    }
}

impl Document {
    /// The mode; `usual` where it says none, and `None` where it says one that there is not.
    pub fn mode(&self, usual: Mode) -> Option<Mode> {
        if self.mode.is_empty() { Some(usual) } else { Mode::named(&self.mode) }
    }

    /// The place of the pace of a mode, its `syncPeriod` and its `minSyncPeriod`.
    pub(super) fn pace(&self, mode: Mode) -> (&'static str, GoDuration, GoDuration) {
        let section = mode.sections().pace;
        let (document, nothing) = (json!(self), GoDuration::default());
        let time = |name: &str| GoDuration::of(&document[section][name]).unwrap_or(nothing);
        (section, time("syncPeriod"), time("minSyncPeriod"))
    }
}

/// What decides packets.
fn config(document: &Document, mode: Mode) -> Config {
    let masquerade_all = masquerade(document, mode)["masqueradeAll"].as_bool().unwrap_or_default();
    let name = &document.hostname_override;
    Config {
        node_name: if name.is_empty() { host::name() } else { name.clone() },
        node_ips: primary(&document.bind_address).into_iter().collect(),
        detect_local: detect_local(document),
        masquerade_all,
        node_port_addresses: node_port_addresses(document),
        service_proxy_name: None,
        allowed_external_ips: Vec::new(),
        refuses_external_ips: !gates::is_on(&document.feature_gates, EXTERNAL_IPS),
    }
}

/// The address that stands for this node. One that means every address says nothing.
fn primary(bind_address: &str) -> Option<IpAddr> {
    parse_ip(bind_address).filter(|ip| !ip.is_unspecified())
}

fn detect_local(document: &Document) -> DetectLocal {
    let detect = &document.detect_local;
    match &*document.detect_local_mode {
        "NodeCIDR" => DetectLocal::NodeCidr,
        "BridgeInterface" => DetectLocal::BridgeInterface(detect.bridge_interface.clone()),
        "InterfaceNamePrefix" => DetectLocal::InterfaceNamePrefix(detect.interface_name_prefix.clone()),
        _ => DetectLocal::ClusterCidr(nets(&document.cluster_cidr)),
    }
}

fn nets(text: &str) -> Vec<IpNet> {
    text.split(',').filter_map(parse_cidr).collect()
}

fn node_port_addresses(document: &Document) -> Vec<NodePortAddress> {
    document.node_port_addresses.iter().filter_map(|entry| NodePortAddress::parse(entry)).collect()
}

fn pace(document: &Document, mode: Mode) -> PaceOptions {
    let (_, sync, min) = document.pace(mode);
    PaceOptions { min_sync_period: min.duration(), sync_period: sync.duration().max(SHORTEST) }
}

/// Empty is nowhere.
fn serving(document: &Document) -> ListenOptions {
    ListenOptions {
        healthz: document.healthz_bind_address.parse().ok(),
        metrics: document.metrics_bind_address.parse().ok(),
        hard_fail: document.bind_address_hard_fail,
    }
}

/// A time of 0 leaves the kernel's.
fn tuning(document: &Document) -> Tuning {
    let conntrack = &document.conntrack;
    let chosen = |time: GoDuration| Some(time.duration()).filter(|time| !time.is_zero());
    let number =
        |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    Tuning {
        ip_forward: false,
        conntrack_max: Some(ConntrackMax {
            per_core: number(conntrack.max_per_core),
            min: number(conntrack.min),
        }),
        tcp_established: chosen(conntrack.tcp_established_timeout.unwrap_or_default()),
        tcp_close_wait: chosen(conntrack.tcp_close_wait_timeout.unwrap_or_default()),
        tcp_be_liberal: conntrack.tcp_be_liberal,
        udp: chosen(conntrack.udp_timeout),
        udp_stream: chosen(conntrack.udp_stream_timeout),
        oom_score_adj: document.oom_score_adj.and_then(|score| i32::try_from(score).ok()),
    }
}

fn kubeconfig(document: &Document) -> Option<PathBuf> {
    let path = &document.client_connection.kubeconfig;
    (!path.is_empty()).then(|| path.into())
}

/// What klog calls 4 is for those who look for a mistake, and 6 shows each request.
fn log(document: &Document) -> Log {
    let level = match document.logging.verbosity {
        ..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    Log { level, is_json: document.logging.format == "json" }
}

/// In other modes nothing uses them, and upstream's files of today still say some.
fn relay_ports(settings: &ModeSettings) -> Option<RangeInclusive<u16>> {
    settings.own.text(relay::PORTS_FLAG).and_then(|text| relay::ports(text).ok().flatten())
}

#[cfg(test)]
mod tests;
