//! From a document that is right to what a run needs: one pure function for each group.
//!
//! In: a validated document, and the mode that an empty one means. Out: [`Asked`]. What a run needs and a document does not say, such as
//! the folder of the lock, is the command line's.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum as _;
use dataplane::ipvs::{self, Scheduler};
use kernel::ipvs::Timeouts;
use model::net::{IpNet, parse_cidr, parse_ip};
use model::{Config, DetectLocal, NodePortAddress};
use tracing_subscriber::filter::LevelFilter;

use super::document::Document;
use super::duration::GoDuration;
use super::gates;
use crate::modes::{Mode, Program};
use crate::run::{ConntrackMax, LocalhostNodePorts, PaceOptions, Tuning, Wish};
use crate::{host, serve};

/// Comparing everything without a pause would do nothing else.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// The gate that lets external IPs be served.
const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

/// What a document asks of a run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The mode, and what belongs to it.
    pub wish: Wish,
    /// The choices that decide packets.
    pub config: Config,
    /// The pace.
    pub pace: PaceOptions,
    /// Where to answer by HTTP.
    pub serve: serve::Options,
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
            wish: wish(document, mode),
            config: config(document, mode),
            pace: pace(document, mode),
            serve: serving(document),
            tuning: tuning(document),
            kubeconfig: kubeconfig(document),
            ports: of_userspace(document, mode),
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
        if self.mode.is_empty() { Some(usual) } else { Mode::from_str(&self.mode, false).ok() }
    }

    /// The place of the pace of a mode, its `syncPeriod` and its `minSyncPeriod`.
    pub(super) fn pace(&self, mode: Mode) -> (&'static str, GoDuration, GoDuration) {
        match mode {
            Mode::Ipvs => ("ipvs", self.ipvs.sync_period, self.ipvs.min_sync_period),
            Mode::Nftables => ("nftables", self.nftables.sync_period, self.nftables.min_sync_period),
            Mode::Iptables | Mode::Userspace => {
                ("iptables", self.iptables.sync_period, self.iptables.min_sync_period)
            }
        }
    }
}

/// The mode. `localhostNodePorts` is served by listening, without `route_localnet`; it is one of the iptables mode alone.
fn wish(document: &Document, mode: Mode) -> Wish {
    let is_off = mode == Mode::Iptables && document.iptables.localhost_node_ports == Some(false);
    let bit = if mode == Mode::Nftables {
        document.nftables.masquerade_bit
    } else {
        document.iptables.masquerade_bit
    };
    Wish {
        mode,
        program: Program::Auto,
        localhost_node_ports: if is_off {
            LocalhostNodePorts::Nowhere
        } else {
            LocalhostNodePorts::Listening
        },
        masquerade_bit: bit.and_then(|bit| u8::try_from(bit).ok()).unwrap_or(crate::run::MASQUERADE_BIT),
        ipvs: of_ipvs(document),
    }
}

fn of_ipvs(document: &Document) -> ipvs::Options {
    let ipvs = &document.ipvs;
    ipvs::Options {
        scheduler: Scheduler::named(&ipvs.scheduler).ok(),
        excluded: ipvs.exclude_cidrs.iter().filter_map(|cidr| parse_cidr(cidr)).collect(),
        strict_arp: ipvs.strict_arp,
        timeouts: Timeouts {
            tcp_s: seconds(ipvs.tcp_timeout),
            tcp_fin_s: seconds(ipvs.tcp_fin_timeout),
            udp_s: seconds(ipvs.udp_timeout),
        },
        ..ipvs::Options::default()
    }
}

/// The kernel counts in seconds. Less than one of them is one: 0 would mean something else.
fn seconds(time: GoDuration) -> u32 {
    u32::try_from(time.duration().as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// What decides packets.
fn config(document: &Document, mode: Mode) -> Config {
    let masquerade_all = match mode {
        Mode::Nftables => document.nftables.masquerade_all,
        Mode::Iptables | Mode::Ipvs | Mode::Userspace => document.iptables.masquerade_all,
    };
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
fn serving(document: &Document) -> serve::Options {
    serve::Options {
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
fn of_userspace(document: &Document, mode: Mode) -> Option<RangeInclusive<u16>> {
    ports(&document.port_range).ok().flatten().filter(|_| mode == Mode::Userspace)
}

/// `30000-30100`, `30000+100`, `30000`; empty or `0` leaves it to the kernel, as it did upstream.
pub(crate) fn ports(text: &str) -> Result<Option<RangeInclusive<u16>>, String> {
    if matches!(text, "" | "0" | "0-0") {
        return Ok(None);
    }
    let parse = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let range = match (text.split_once('-'), text.split_once('+')) {
        (Some((first, last)), _) => parse(first).zip(parse(last)),
        (None, Some((first, size))) => parse(first)
            .zip(size.trim().parse::<u16>().ok())
            .and_then(|(first, size)| Some((first, first.checked_add(size)?))),
        (None, None) => parse(text).map(|port| (port, port)),
    };
    range
        .filter(|(first, last)| first <= last)
        .map(|(first, last)| Some(first..=last))
        .ok_or_else(|| format!("`{text}` is no range of ports: write it as `40000-40999` or `40000+999`"))
}

#[cfg(test)]
mod tests;
