//! The operator's choices as JSON, and back.

use std::net::IpAddr;

use config::node_port_addresses;
use model::net::IpNet;
use model::{Config, DetectLocal, NodePortAddress};
use serde::{Deserialize, Serialize};

/// [`Config`], as it goes over the wire.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireConfig {
    node_name: String,
    node_ips: Vec<IpAddr>,
    detect_local: WireDetectLocal,
    masquerade_all: bool,
    node_port_addresses: Vec<String>,
    service_proxy_name: Option<String>,
    allowed_external_ips: Vec<String>,
    #[serde(default)]
    refuses_external_ips: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WireDetectLocal {
    ClusterCidr(Vec<String>),
    NodeCidr,
    BridgeInterface(String),
    InterfaceNamePrefix(String),
}

impl From<&Config> for WireConfig {
    fn from(config: &Config) -> Self {
        Self {
            node_name: config.node_name.clone(),
            node_ips: config.node_ips.clone(),
            detect_local: match &config.detect_local {
                DetectLocal::ClusterCidr(nets) => WireDetectLocal::ClusterCidr(texts(nets)),
                DetectLocal::NodeCidr => WireDetectLocal::NodeCidr,
                DetectLocal::BridgeInterface(name) => WireDetectLocal::BridgeInterface(name.clone()),
                DetectLocal::InterfaceNamePrefix(prefix) => {
                    WireDetectLocal::InterfaceNamePrefix(prefix.clone())
                }
            },
            masquerade_all: config.masquerade_all,
            node_port_addresses: node_port_addresses(config),
            service_proxy_name: config.service_proxy_name.clone(),
            allowed_external_ips: texts(&config.allowed_external_ips),
            refuses_external_ips: config.refuses_external_ips,
        }
    }
}

impl TryFrom<WireConfig> for Config {
    type Error = String;

    fn try_from(wire: WireConfig) -> Result<Self, String> {
        let node_port = |text: String| NodePortAddress::parse(&text).ok_or_else(|| strange(&text));
        Ok(Self {
            node_name: wire.node_name,
            node_ips: wire.node_ips,
            detect_local: match wire.detect_local {
                WireDetectLocal::ClusterCidr(cidrs) => DetectLocal::ClusterCidr(nets(&cidrs)?),
                WireDetectLocal::NodeCidr => DetectLocal::NodeCidr,
                WireDetectLocal::BridgeInterface(name) => DetectLocal::BridgeInterface(name),
                WireDetectLocal::InterfaceNamePrefix(prefix) => DetectLocal::InterfaceNamePrefix(prefix),
            },
            masquerade_all: wire.masquerade_all,
            node_port_addresses: wire
                .node_port_addresses
                .into_iter()
                .map(node_port)
                .collect::<Result<_, _>>()?,
            service_proxy_name: wire.service_proxy_name,
            allowed_external_ips: nets(&wire.allowed_external_ips)?,
            refuses_external_ips: wire.refuses_external_ips,
        })
    }
}

pub(super) fn texts(nets: &[IpNet]) -> Vec<String> {
    nets.iter().map(ToString::to_string).collect()
}

pub(super) fn nets(texts: &[String]) -> Result<Vec<IpNet>, String> {
    texts.iter().map(|text| model::net::parse_cidr(text).ok_or_else(|| strange(text))).collect()
}

fn strange(text: &str) -> String {
    format!("`{}` in its answer makes no sense", text.escape_debug())
}
