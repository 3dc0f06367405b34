//! What a document means where it says nothing: as upstream, but for the shortest wait between writes.

use std::net::IpAddr;

use dataplane::Mode;
use model::NodePortAddress;
use model::net::parse_ip;
use serde_json::json;

use super::document::{API_VERSION, Document, KIND};
use super::duration::GoDuration;

/// The port of `/healthz`.
pub(super) const HEALTHZ_PORT: u16 = 10256;
/// The port of `/metrics`.
pub(super) const METRICS_PORT: u16 = 10249;

/// Upstream waits a second after each write, to write less often. Here a single change costs so little that a wait only delays it
/// (docs/config.md has the figures), and where writing is slow the pace slows down by itself.
const MIN_SYNC_PERIOD: GoDuration = GoDuration::milliseconds(50);
const SYNC_PERIOD: GoDuration = GoDuration::seconds(30);

impl Document {
    /// A document that says nothing.
    pub fn usual() -> Self {
        Self::default().with_defaults()
    }

    /// The same, with what a run decides where it says nothing: the mode, and where node ports answer.
    #[must_use]
    pub fn decided(mut self, usual: Mode) -> Self {
        or(&mut self.mode, usual.name());
        let default = Mode::named(&self.mode).map(|mode| mode.semantics().default_node_port_addresses);
        if default == Some(NodePortAddress::Primary) && self.node_port_addresses.is_empty() {
            self.node_port_addresses.push("primary".to_owned());
        }
        self
    }

    /// As `--write-config-to` writes it: in the order of names.
    pub fn to_yaml(&self) -> Result<String, String> {
        serde_saphyr::to_string(&json!(self)).map_err(|error| error.to_string())
    }

    /// The same, with all that it does not say.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        API_VERSION.clone_into(&mut self.api_version);
        KIND.clone_into(&mut self.kind);
        self.fill_addresses();
        self.fill_client_and_log();
        self.fill_modes();
        self.fill_conntrack();
        self.modes.complete();
        self.oom_score_adj.get_or_insert(-999);
        or(&mut self.detect_local_mode, "ClusterCIDR");
        or_time(&mut self.config_sync_period, GoDuration::seconds(15 * 60));
        self
    }

    fn fill_addresses(&mut self) {
        or(&mut self.bind_address, "0.0.0.0");
        let is_v6 = parse_ip(&self.bind_address).is_some_and(|ip| ip.is_ipv6());
        let (everywhere, here) = if is_v6 { ("::", "::1") } else { ("0.0.0.0", "127.0.0.1") };
        or(&mut self.healthz_bind_address, everywhere);
        or(&mut self.metrics_bind_address, here);
        self.healthz_bind_address = with_port(&self.healthz_bind_address, HEALTHZ_PORT);
        self.metrics_bind_address = with_port(&self.metrics_bind_address, METRICS_PORT);
    }

    fn fill_client_and_log(&mut self) {
        or(&mut self.client_connection.content_type, "application/vnd.kubernetes.protobuf");
        if self.client_connection.qps == 0.0 {
            self.client_connection.qps = 5.0;
        }
        if self.client_connection.burst == 0 {
            self.client_connection.burst = 10;
        }
        or(&mut self.logging.format, "text");
        or_time(&mut self.logging.flush_frequency, GoDuration::seconds(5));
        or(&mut self.logging.options.text.info_buffer_size, "0");
        or(&mut self.logging.options.json.info_buffer_size, "0");
    }

    fn fill_modes(&mut self) {
        self.iptables.masquerade_bit.get_or_insert(14);
        self.nftables.masquerade_bit.get_or_insert(14);
        self.iptables.localhost_node_ports.get_or_insert(true);
        or_time(&mut self.iptables.sync_period, SYNC_PERIOD);
        or_time(&mut self.iptables.min_sync_period, MIN_SYNC_PERIOD);
        or_time(&mut self.nftables.sync_period, SYNC_PERIOD);
        or_time(&mut self.nftables.min_sync_period, MIN_SYNC_PERIOD);
        or_time(&mut self.ipvs.sync_period, SYNC_PERIOD);
    }

    fn fill_conntrack(&mut self) {
        let conntrack = &mut self.conntrack;
        conntrack.max_per_core.get_or_insert(32_768);
        conntrack.min.get_or_insert(131_072);
        conntrack.tcp_established_timeout.get_or_insert(GoDuration::seconds(24 * 3600));
        conntrack.tcp_close_wait_timeout.get_or_insert(GoDuration::seconds(3600));
    }
}

fn or(text: &mut String, usual: &str) {
    if text.is_empty() {
        usual.clone_into(text);
    }
}

fn or_time(time: &mut GoDuration, usual: GoDuration) {
    if *time == GoDuration::default() {
        *time = usual;
    }
}

/// An address alone gets the port; all else stays as it is, for validation to judge. An address in brackets or with a blank is none, as
/// upstream.
pub(super) fn with_port(text: &str, port: impl Into<i64>) -> String {
    let port = port.into();
    match parse_ip(text).filter(|_| !text.contains(char::is_whitespace)) {
        Some(IpAddr::V4(ip)) => format!("{ip}:{port}"),
        Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Field;
    use super::*;

    #[test]
    fn defaults_are_upstreams() {
        let usual = serde_json::to_value(Document::usual()).expect("it can be written");
        for (path, value) in [
            ("clientConnection.contentType", json!("application/vnd.kubernetes.protobuf")),
            ("clientConnection.qps", json!(5.0)),
            ("clientConnection.burst", json!(10)),
            ("logging.format", json!("text")),
            ("logging.flushFrequency", json!("5s")),
            ("logging.verbosity", json!(0)),
            ("bindAddress", json!("0.0.0.0")),
            ("healthzBindAddress", json!("0.0.0.0:10256")),
            ("metricsBindAddress", json!("127.0.0.1:10249")),
            ("bindAddressHardFail", json!(false)),
            ("mode", json!("")),
            ("iptables.masqueradeBit", json!(14)),
            ("iptables.masqueradeAll", json!(false)),
            ("iptables.localhostNodePorts", json!(true)),
            ("iptables.syncPeriod", json!("30s")),
            ("ipvs.syncPeriod", json!("30s")),
            ("ipvs.minSyncPeriod", json!("0s")),
            ("ipvs.scheduler", json!("")),
            ("nftables.masqueradeBit", json!(14)),
            ("nftables.syncPeriod", json!("30s")),
            ("detectLocalMode", json!("ClusterCIDR")),
            ("nodePortAddresses", json!([])),
            ("oomScoreAdj", json!(-999)),
            ("conntrack.maxPerCore", json!(32_768)),
            ("conntrack.min", json!(131_072)),
            ("conntrack.tcpEstablishedTimeout", json!("24h0m0s")),
            ("conntrack.tcpCloseWaitTimeout", json!("1h0m0s")),
            ("conntrack.udpTimeout", json!("0s")),
            ("configSyncPeriod", json!("15m0s")),
            // Ours, on purpose.
            ("iptables.minSyncPeriod", json!("50ms")),
            ("nftables.minSyncPeriod", json!("50ms")),
        ] {
            assert_eq!(Field::at(path).expect("it is a field").of(&usual), &value, "{path}");
        }
    }

    #[test]
    fn addresses_get_the_family_of_the_bind_address_and_the_usual_port() {
        let v6 = Document { bind_address: "::".into(), ..Document::default() }.with_defaults();
        assert_eq!((&*v6.healthz_bind_address, &*v6.metrics_bind_address), ("[::]:10256", "[::1]:10249"));
        let alone = Document { healthz_bind_address: "10.0.0.1".into(), ..Document::default() };
        assert_eq!(alone.with_defaults().healthz_bind_address, "10.0.0.1:10256");
        assert_eq!(with_port("10.0.0.1:7", 1), "10.0.0.1:7");
        assert_eq!((with_port("::1", 7), with_port("[::1]", 7)), ("[::1]:7".to_owned(), "[::1]".to_owned()));
        assert_eq!(with_port("nowhere", 1), "nowhere");
    }
}
