//! `/configz`: the effective configuration, in the words of `KubeProxyConfiguration` (`kubeproxy.config.k8s.io/v1alpha1`).
//!
//! What the document says, with its defaults, and over it what is in force. What only portway has stands in `/flagz`, where an option
//! that was not given has the value that is in force.

use std::time::Duration;

use apiserver::Access;
use dataplane::ipvs;
use model::{Config, DetectLocal, NodePortAddress};
use serde_json::{Value, json};

use super::Options;
use crate::kubeproxy::{Field, Flag, GoDuration};
use crate::modes::Mode;
use crate::run::{Origin, PaceOptions, Settings, Tuning, Wish};
use crate::socket;

/// The one key of the page.
const GROUP: &str = "kubeproxy.config.k8s.io";

/// The configuration that a run has.
pub fn config(settings: &Settings) -> Value {
    json!({ GROUP: document(settings) })
}

/// The options with their values; those that were not given, with what is in force.
pub fn flags(settings: &Settings) -> Vec<(String, String)> {
    let document = document(settings);
    let section = section(settings.wish.mode);
    let shown = |(name, given): &(String, String)| {
        let in_force =
            || place(name, section).and_then(|path| Field::at(&path)).map(|field| text(field.of(&document)));
        let value = if given.is_empty() { in_force().unwrap_or_default() } else { given.clone() };
        (name.clone(), value)
    };
    settings.flags.iter().map(shown).collect()
}

/// Where the document has what an option of this name chooses.
fn place(name: &str, section: &str) -> Option<String> {
    Some(match name {
        "mode" => "mode".to_owned(),
        "node-name" => "hostnameOverride".to_owned(),
        "log-format" => "logging.format".to_owned(),
        "sync-period" => format!("{section}.syncPeriod"),
        "min-sync-period" => format!("{section}.minSyncPeriod"),
        name => Flag::named(name)?.fields().next()?.path.to_owned(),
    })
}

/// As it would be written on a command line.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(all) => {
            all.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(",")
        }
        // `5`, and not `5.0`.
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        Value::Bool(_) => value.to_string(),
    }
}

fn document(settings: &Settings) -> Value {
    let Settings { config, pace, tuning, serve, wish, .. } = settings;
    let mut all = json!(settings.document);
    let in_force = json!({
        "mode": wish.mode.name(),
        "hostnameOverride": config.node_name,
        "nodePortAddresses": node_ports(config, wish),
        "conntrack": conntrack(tuning),
        "oomScoreAdj": tuning.oom_score_adj,
    });
    let connection = json!({ "clientConnection": { "kubeconfig": kubeconfig(&settings.origin) } });
    for part in [in_force, connection, addresses(serve), local(config), of_mode(wish, config, *pace)] {
        put_over(&mut all, part);
    }
    all
}

/// Where node ports answer; upstream names what its nftables mode does where nothing is chosen, and only that.
fn node_ports(config: &Config, wish: &Wish) -> Vec<String> {
    let chosen = socket::node_port_addresses(config);
    let is_primary = wish.promises().default_node_port_addresses == NodePortAddress::Primary;
    if chosen.is_empty() && is_primary { vec!["primary".to_owned()] } else { chosen }
}

/// Sections are put over sections, field by field.
fn put_over(all: &mut Value, over: Value) {
    match (all, over) {
        (Value::Object(all), Value::Object(over)) => {
            for (name, value) in over {
                put_over(all.entry(name).or_insert(Value::Null), value);
            }
        }
        (place, value) => *place = value,
    }
}

fn kubeconfig(origin: &Origin) -> String {
    match origin {
        Origin::Server(settings) => match &settings.access {
            Access::Kubeconfig { file, .. } => file.path.display().to_string(),
            Access::Master(_) | Access::InCluster(_) => String::new(),
        },
        Origin::Files { .. } => String::new(),
    }
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
    if mode == Mode::Ipvs {
        put_over(&mut of_mode, of_ipvs(&wish.ipvs));
    } else {
        of_mode["masqueradeAll"] = config.masquerade_all.into();
        of_mode["masqueradeBit"] = wish.masquerade_bit.into();
    }
    json!({ section(mode): of_mode })
}

/// The mode that upstream has no more is shown as the one that it became.
fn section(mode: Mode) -> &'static str {
    if mode == Mode::Userspace { Mode::Iptables.name() } else { mode.name() }
}

fn of_ipvs(options: &ipvs::Options) -> Value {
    let seconds = |count: u32| time(Duration::from_secs(count.into()));
    json!({
        "scheduler": options.scheduler.map(|scheduler| scheduler.to_string()).unwrap_or_default(),
        "excludeCIDRs": options.excluded.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "strictARP": options.strict_arp,
        "tcpTimeout": seconds(options.timeouts.tcp_s),
        "tcpFinTimeout": seconds(options.timeouts.tcp_fin_s),
        "udpTimeout": seconds(options.timeouts.udp_s),
    })
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
