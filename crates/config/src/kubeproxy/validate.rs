//! What is wrong with a document: upstream's rules, all errors together, each with the place of its field.
//!
//! In: a document with its defaults, and the mode that it leads to. Out: lines such as
//! `KubeProxyConfiguration.clusterCIDR: Invalid value: "10/8": must be a valid CIDR block`.

use dataplane::{Mode, registry};
use model::net::{IpNet, parse_cidr, parse_ip};
use model::{Family, NodePortAddress};
use serde_json::{Value, json};

use super::document::Document;
use super::duration::GoDuration;
use super::gates;
use super::of_modes::{default_mode, masquerade, objections};

/// The only version whose hidden metrics upstream would show.
const PREVIOUS: &str = "1.36";

/// What is wrong; nothing, where all is right.
pub(super) fn errors(document: &Document, mode: Option<Mode>) -> Vec<String> {
    let mut found = Errors::default();
    found.gates(document);
    found.mode(document, mode);
    found.bits(document, mode);
    found.pace(document, mode);
    found.of_mode(document, mode);
    found.conntrack(document);
    found.addresses(document);
    found.pods(document);
    found.node_ports(document);
    found.log(document);
    found.rest(document);
    found.0
}

#[derive(Debug, Default)]
struct Errors(Vec<String>);

impl Errors {
    fn check(&mut self, is_right: bool, path: &str, value: impl Into<Value>, must: &str) {
        if !is_right {
            self.0.push(format!("KubeProxyConfiguration.{path}: Invalid value: {}: {must}", value.into()));
        }
    }

    fn duplicate(&mut self, path: &str, value: &str) {
        self.0.push(format!("KubeProxyConfiguration.{path}: Duplicate value: {}", json!(value)));
    }

    fn at_least_0(&mut self, path: &str, time: GoDuration) {
        self.check(time.0 >= 0, path, time.to_string(), "must be greater than or equal to 0");
    }

    fn gates(&mut self, document: &Document) {
        for error in gates::errors(&document.feature_gates) {
            self.check(false, "featureGates", json!(document.feature_gates), &error);
        }
    }

    fn mode(&mut self, document: &Document, mode: Option<Mode>) {
        self.check(mode.is_some(), "mode", &*document.mode, &format!("must be {}, or blank", names()));
        let gate = mode.and_then(|mode| mode.upstream_gate());
        if let Some(gate) = gate.filter(|gate| !gates::is_on(&document.feature_gates, gate)) {
            let must = format!("needs the feature gate {gate}, which is off");
            self.check(false, "mode", &*document.mode, &must);
        }
    }

    /// That of another section than the default mode's counts in modes alone that have it there, as upstream has it.
    fn bits(&mut self, document: &Document, mode: Option<Mode>) {
        let must = "must be within the range [0, 31]";
        let usual = document.iptables.masquerade_bit.unwrap_or(14);
        self.check((0..=31).contains(&usual), "iptables.masqueradeBit", usual, must);
        let Some(mode) = mode else { return };
        let bit = masquerade(document, mode)["masqueradeBit"].as_i64().unwrap_or(14);
        let path = format!("{}.masqueradeBit", mode.sections().masquerade);
        if mode.sections().masquerade != default_mode().sections().masquerade {
            self.check((0..=31).contains(&bit), &path, bit, must);
        }
        if let Some(must) = mode.objection_to_masquerade_bit(bit) {
            self.check(false, &path, bit, must);
        }
    }

    /// That of the mode alone, as upstream has it.
    fn pace(&mut self, document: &Document, mode: Option<Mode>) {
        let (of, sync, min) = document.pace(mode.unwrap_or_else(default_mode));
        self.check(sync.0 > 0, &format!("{of}.syncPeriod"), sync.to_string(), "must be greater than 0");
        self.at_least_0(&format!("{of}.minSyncPeriod"), min);
        let must = format!("must be greater than or equal to {of}.minSyncPeriod");
        self.check(min <= sync || sync.0 <= 0, &format!("{of}.syncPeriod"), sync.to_string(), &must);
    }

    /// The settings of the mode alone, as upstream has it.
    fn of_mode(&mut self, document: &Document, mode: Option<Mode>) {
        for (path, value, must) in mode.map(|mode| objections(document, mode)).unwrap_or_default() {
            self.check(false, &path, value, &must);
        }
    }

    fn conntrack(&mut self, document: &Document) {
        let conntrack = &document.conntrack;
        let must = "must be greater than or equal to 0";
        for (path, number) in
            [("conntrack.maxPerCore", conntrack.max_per_core), ("conntrack.min", conntrack.min)]
        {
            self.check(number.is_none_or(|number| number >= 0), path, number, must);
        }
        self.at_least_0(
            "conntrack.tcpEstablishedTimeout",
            conntrack.tcp_established_timeout.unwrap_or_default(),
        );
        self.at_least_0(
            "conntrack.tcpCloseWaitTimeout",
            conntrack.tcp_close_wait_timeout.unwrap_or_default(),
        );
        self.at_least_0("conntrack.udpTimeout", conntrack.udp_timeout);
        self.at_least_0("conntrack.udpStreamTimeout", conntrack.udp_stream_timeout);
    }

    fn addresses(&mut self, document: &Document) {
        let is_ip = without_blanks(&document.bind_address, parse_ip).is_some();
        let must = "not a valid textual representation of an IP address";
        self.check(is_ip, "bindAddress", &*document.bind_address, must);
        for (path, text) in [
            ("healthzBindAddress", &document.healthz_bind_address),
            ("metricsBindAddress", &document.metrics_bind_address),
        ] {
            let at = text.parse::<std::net::SocketAddr>().ok().filter(|at| at.port() > 0);
            self.check(
                text.is_empty() || at.is_some(),
                path,
                &**text,
                "must be IP:port, the port from 1 to 65535",
            );
        }
    }

    fn pods(&mut self, document: &Document) {
        let (bridge, prefix) =
            (&document.detect_local.bridge_interface, &document.detect_local.interface_name_prefix);
        let must = "cannot be empty in this detectLocalMode";
        match &*document.detect_local_mode {
            "" | "NodeCIDR" => {}
            "ClusterCIDR" => self.cluster_cidr(&document.cluster_cidr),
            "BridgeInterface" => self.check(!bridge.is_empty(), "detectLocal.bridgeInterface", "", must),
            "InterfaceNamePrefix" => {
                self.check(!prefix.is_empty(), "detectLocal.interfaceNamePrefix", "", must);
            }
            other => {
                let must = "must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix, or blank";
                self.check(false, "detectLocalMode", other, must);
            }
        }
    }

    fn cluster_cidr(&mut self, text: &str) {
        let cidrs: Vec<&str> = text.split(',').filter(|_| !text.is_empty()).collect();
        let nets: Option<Vec<IpNet>> = cidrs.iter().map(|cidr| without_blanks(cidr, parse_cidr)).collect();
        let must = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)";
        self.check(nets.is_some(), "clusterCIDR", text, must);
        let families = nets.iter().flatten().map(Family::of_net);
        let is_pair = cidrs.len() < 2
            || cidrs.len() == 2
                && families.clone().any(|of| of != Family::V4)
                && families.clone().any(|of| of == Family::V4);
        let must = "must be one CIDR, or a dual-stack pair (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)";
        self.check(nets.is_none() || is_pair, "clusterCIDR", text, must);
    }

    fn node_ports(&mut self, document: &Document) {
        let entries = &document.node_port_addresses;
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("nodePortAddresses[{index}]");
            let read = without_blanks(entry, NodePortAddress::parse);
            let must = "must be a valid CIDR block, or one of primary, localhost and all";
            self.check(read.is_some(), &path, &**entry, must);
            let is_word = !matches!(read, Some(NodePortAddress::Within(_)));
            if is_word && entries[..index].contains(entry) {
                self.duplicate(&path, entry);
            }
        }
    }

    fn log(&mut self, document: &Document) {
        let (log, gates) = (&document.logging, &document.feature_gates);
        let is_known = matches!(&*log.format, "text" | "json");
        self.check(is_known, "logging.format", &*log.format, "must be text or json");
        self.check(
            log.verbosity >= 0,
            "logging.verbosity",
            log.verbosity,
            "must be greater than or equal to 0",
        );
        let flush = log.flush_frequency;
        self.check(flush.0 > 0, "logging.flushFrequency", flush.to_string(), "must be greater than 0");
        let has_beta = gates::is_on(gates, "LoggingBetaOptions");
        let must = "needs the feature gate LoggingBetaOptions, which is off";
        self.check(has_beta || log.format != "json", "logging.format", &*log.format, must);
        self.check(
            log.vmodule.is_empty() || log.format == "text",
            "logging.vmodule",
            json!(log.vmodule),
            "only goes with format text",
        );
        let has_alpha = gates::is_on(gates, "LoggingAlphaOptions");
        let must = "needs the feature gate LoggingAlphaOptions, which is off";
        for (of, options) in [("text", &log.options.text), ("json", &log.options.json)] {
            let is_usual = !options.split_stream && matches!(&*options.info_buffer_size, "" | "0");
            self.check(has_alpha || is_usual, &format!("logging.options.{of}"), json!(options), must);
        }
    }

    fn rest(&mut self, document: &Document) {
        let score = document.oom_score_adj.unwrap_or_default();
        self.check(
            (-1000..=1000).contains(&score),
            "oomScoreAdj",
            score,
            "must be within the range [-1000, 1000]",
        );
        let period = document.config_sync_period;
        self.check(period.0 > 0, "configSyncPeriod", period.to_string(), "must be greater than 0");
        let burst = document.client_connection.burst;
        self.check(burst >= 0, "clientConnection.burst", burst, "must be greater than or equal to 0");
        let version = &*document.show_hidden_metrics_for_version;
        let must = format!(
            "must be omitted or have the value {PREVIOUS}: only the previous minor version is allowed"
        );
        self.check(matches!(version, "" | PREVIOUS), "showHiddenMetricsForVersion", version, &must);
    }
}

/// `iptables, ipvs, nftables or userspace`.
fn names() -> String {
    let mut names: Vec<&str> = registry::MODES.iter().map(|mode| mode.name()).collect();
    names.sort_unstable();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Go reads no address and no network with a blank, where our own readers pass over those around it.
fn without_blanks<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    parse(text).filter(|_| !text.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests;
