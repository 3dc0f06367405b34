//! `/configz`: the effective configuration, in the words of `KubeProxyConfiguration` (`kubeproxy.config.k8s.io/v1alpha1`).
//!
//! Fields that portway has no choice for are left out. What only portway has stands in `/flagz`.

use std::time::Duration;

use model::{Config, DetectLocal};
use serde_json::{Value, json};

use super::Options;
use crate::modes::Mode;
use crate::run::{PaceOptions, Settings, Tuning};
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
    let parts = [addresses(serve), local(config), of_mode(wish.mode, config, *pace)];
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

fn of_mode(mode: Mode, config: &Config, pace: PaceOptions) -> Value {
    let mut of_mode =
        json!({ "syncPeriod": time(pace.sync_period), "minSyncPeriod": time(pace.min_sync_period) });
    if mode != Mode::Ipvs {
        of_mode["masqueradeAll"] = config.masquerade_all.into();
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

/// As Go writes durations: `24h0m0s`, `1m0s`, `30s`, `50ms`.
fn time(time: Duration) -> String {
    let (seconds, milliseconds) = (time.as_secs(), time.subsec_millis());
    let fraction = if milliseconds == 0 {
        String::new()
    } else {
        format!(".{milliseconds:03}").trim_end_matches('0').to_owned()
    };
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) if milliseconds > 0 => format!("{milliseconds}ms"),
        (0, 0, seconds) => format!("{seconds}{fraction}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}{fraction}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_does() {
        let cases = [
            (0, "0s"),
            (50, "50ms"),
            (1500, "1.5s"),
            (30_000, "30s"),
            (60_000, "1m0s"),
            (86_400_000, "24h0m0s"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(time(Duration::from_millis(milliseconds)), text);
        }
    }
}
