//! `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1`: the fields, as upstream has them.
//!
//! What a field means here, and how it is called, stands in `fields`; a test holds the two together. An `Option` is one of upstream's
//! pointers: `null` and absent are the same, and differ from 0. Of all others 0 and absent are the same, as in Go.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::duration::GoDuration;
use super::of_modes::ModeSections;

/// The version of the document.
pub(super) const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// Its kind.
pub(super) const KIND: &str = "KubeProxyConfiguration";

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Document {
    pub api_version: String,
    pub kind: String,
    pub feature_gates: BTreeMap<String, bool>,
    pub client_connection: ClientConnection,
    pub logging: Logging,
    pub hostname_override: String,
    pub bind_address: String,
    pub healthz_bind_address: String,
    pub metrics_bind_address: String,
    pub bind_address_hard_fail: bool,
    pub enable_profiling: bool,
    pub show_hidden_metrics_for_version: String,
    pub mode: String,
    pub iptables: Iptables,
    pub ipvs: Ipvs,
    pub nftables: Nftables,
    pub winkernel: Winkernel,
    pub detect_local_mode: String,
    pub detect_local: DetectLocal,
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: String,
    pub node_port_addresses: Vec<String>,
    pub oom_score_adj: Option<i64>,
    pub conntrack: Conntrack,
    pub config_sync_period: GoDuration,
    pub port_range: String,
    pub windows_run_as_service: bool,
    /// Sections of modes that upstream does not have.
    #[serde(flatten)]
    pub modes: ModeSections,
}

/// The way to the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    pub kubeconfig: String,
    pub accept_content_types: String,
    pub content_type: String,
    pub qps: f64,
    pub burst: i64,
}

/// The log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    pub format: String,
    pub flush_frequency: GoDuration,
    pub verbosity: i64,
    pub vmodule: Vec<Vmodule>,
    pub options: LoggingOptions,
}

/// The verbosity of files of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vmodule {
    pub file_pattern: String,
    pub verbosity: i64,
}

/// Options of one log format each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoggingOptions {
    pub text: FormatOptions,
    pub json: FormatOptions,
}

/// Options of a log format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormatOptions {
    pub split_stream: bool,
    /// A quantity of Kubernetes: `0`, `64Ki`.
    pub info_buffer_size: String,
}

/// Mode iptables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Iptables {
    pub masquerade_bit: Option<i64>,
    pub masquerade_all: bool,
    pub localhost_node_ports: Option<bool>,
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
}

/// Mode ipvs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ipvs {
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
    pub scheduler: String,
    #[serde(rename = "excludeCIDRs")]
    pub exclude_cidrs: Vec<String>,
    #[serde(rename = "strictARP")]
    pub strict_arp: bool,
    pub tcp_timeout: GoDuration,
    pub tcp_fin_timeout: GoDuration,
    pub udp_timeout: GoDuration,
}

/// Mode nftables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nftables {
    pub masquerade_bit: Option<i64>,
    pub masquerade_all: bool,
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
}

/// The mode of Windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Winkernel {
    #[serde(rename = "enableDSR")]
    pub enable_dsr: bool,
    pub forward_health_check_vip: bool,
    pub network_name: String,
    pub root_hns_endpoint_name: String,
    pub source_vip: String,
}

/// What makes a packet one of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DetectLocal {
    pub bridge_interface: String,
    pub interface_name_prefix: String,
}

/// Settings of the connection tracker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conntrack {
    pub max_per_core: Option<i64>,
    pub min: Option<i64>,
    pub tcp_established_timeout: Option<GoDuration>,
    pub tcp_close_wait_timeout: Option<GoDuration>,
    pub tcp_be_liberal: bool,
    pub udp_timeout: GoDuration,
    pub udp_stream_timeout: GoDuration,
}
