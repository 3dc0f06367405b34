//! `/configz`: the effective configuration, in the words of `KubeProxyConfiguration` (`kubeproxy.config.k8s.io/v1alpha1`).
//!
//! Fields that portway has no choice for are left out. What only portway has stands in `/flagz`.

use std::time::Duration;

use model::{Config, DetectLocal};
use serde_json::{Value, json};

use super::Options;
use crate::kubeproxy::GoDuration;
use crate::modes::Mode;
use crate::run::{PaceOptions, Settings, Tuning, Wish};
use crate::socket;

/// The configuration that a run has.
pub fn config(settings: &Settings) -> Value {
    let Settings { config, pace, tuning, serve, wish, .. } = settings;
    let mut all = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": wish.mode.name(),
        "hostnameOverride": config.node_name,
        "nodePortAddresses": socket::node_port_addresses(config),
        "conntrack": conntrack(tuning),
        "oomScoreAdj": tuning.oom_score_adj,
    });
    let parts = [addresses(serve), local(config), of_mode(wish, config, *pace)];
    for (name, value) in parts.into_iter().flat_map(|part| part.as_object().cloned().unwrap_or_default()) {
        all[name] = value;
    }
    json!({ "kubeproxy.config.k8s.io": all })
}

fn addresses(options: &Options) -> Value {
    let text = |at: Option<std::net::SocketAddr>| at.map(|at| at.to_string()).unwrap_or_default();
    json!({
        "healthzBindAddress": text(options.healthz),
        "metricsBindAddress": text(options.metrics),
        "bindAddressHardFail": options.hard_fail,
    })
}

fn local(config: &Config) -> Value {
    let (mode, cluster_cidr, bridge, prefix) = match &config.detect_local {
        DetectLocal::ClusterCidr(nets) => {
            let nets: Vec<String> = nets.iter().map(ToString::to_string).collect();
            ("ClusterCIDR", nets.join(","), "", "")
        }
        DetectLocal::NodeCidr => ("NodeCIDR", String::new(), "", ""),
        DetectLocal::BridgeInterface(name) => ("BridgeInterface", String::new(), &**name, ""),
        DetectLocal::InterfaceNamePrefix(prefix) => ("InterfaceNamePrefix", String::new(), "", &**prefix),
    };
    json!({
        "detectLocalMode": mode,
        "clusterCIDR": cluster_cidr,
        "detectLocal": { "bridgeInterface": bridge, "interfaceNamePrefix": prefix },
    })
}

fn of_mode(wish: &Wish, config: &Config, pace: PaceOptions) -> Value {
    let mode = wish.mode;
    let mut of_mode =
        json!({ "syncPeriod": time(pace.sync_period), "minSyncPeriod": time(pace.min_sync_period) });
    if mode != Mode::Ipvs {
        of_mode["masqueradeAll"] = config.masquerade_all.into();
        of_mode["masqueradeBit"] = wish.masquerade_bit.into();
    }
    // The mode that upstream has no more is shown as the one that it became.
    let name = if mode == Mode::Userspace { Mode::Iptables } else { mode }.name();
    json!({ name: of_mode })
}

fn conntrack(tuning: &Tuning) -> Value {
    let timeout = |timeout: Option<Duration>| time(timeout.unwrap_or_default());
    json!({
        "maxPerCore": tuning.conntrack_max.map_or(0, |max| max.per_core),
        "min": tuning.conntrack_max.map_or(0, |max| max.min),
        "tcpEstablishedTimeout": timeout(tuning.tcp_established),
        "tcpCloseWaitTimeout": timeout(tuning.tcp_close_wait),
        "tcpBeLiberal": tuning.tcp_be_liberal,
        "udpTimeout": timeout(tuning.udp),
        "udpStreamTimeout": timeout(tuning.udp_stream),
    })
}

fn time(time: Duration) -> String {
    GoDuration::from(time).to_string()
}
