//! `/configz`: the effective configuration, in the words of `KubeProxyConfiguration` (`kubeproxy.config.k8s.io/v1alpha1`).
//!
//! What the document says, with its defaults, and over it what is in force. What only portway has stands in `/flagz`, where an option
//! that was not given has the value that is in force.

use std::time::Duration;

use apiserver::Access;
use dataplane::{Mode, ModeSettings};
use model::{Config, DetectLocal, NodePortAddress};
use serde_json::{Value, json};

use crate::kubeproxy::{Field, Flag, GoDuration, section_of};
use crate::options::{ListenOptions, PaceOptions, Tuning};
use crate::settings::{Origin, Settings};
use crate::written::node_port_addresses;

/// What is in force, as the pages show it.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    /// For `/configz`.
    pub config: Value,
    /// For `/flagz`: the options with their values.
    pub flags: Vec<(String, String)>,
}

impl Effective {
    /// What a run with these settings has.
    pub fn of(settings: &Settings) -> Self {
        let document = document(settings);
        let flags = flags(settings, &document);
        Self { config: json!({ GROUP: document }), flags }
    }
}

/// The one key of the page.
const GROUP: &str = "kubeproxy.config.k8s.io";

/// The options with their values; those that were not given, with what is in force.
fn flags(settings: &Settings, document: &Value) -> Vec<(String, String)> {
    let mode = settings.mode.mode;
    let shown = |(name, given): &(String, String)| {
        let in_force = || field(name, mode).map(|field| text(field.of(document)));
        let value = if given.is_empty() { in_force().unwrap_or_default() } else { given.clone() };
        (name.clone(), value)
    };
    settings.flags.iter().map(shown).collect()
}

/// The field for what an option of this name chooses. Of two, the one that acts in this mode.
fn field(name: &str, mode: Mode) -> Option<&'static Field> {
    let section = mode.sections().pace;
    match name {
        "mode" => Field::at("mode"),
        "node-name" => Field::at("hostnameOverride"),
        "log-format" => Field::at("logging.format"),
        "sync-period" => Field::at(&format!("{section}.syncPeriod")),
        "min-sync-period" => Field::at(&format!("{section}.minSyncPeriod")),
        name => {
            let fields = || Flag::named(name).into_iter().flat_map(Flag::fields);
            fields().find(|field| field.acts_in(mode)).or_else(|| fields().next())
        }
    }
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

/// The configuration that a run has.
fn document(settings: &Settings) -> Value {
    let Settings { config, pace, tuning, serve, mode: chosen, .. } = settings;
    let mut all = json!(settings.document);
    let in_force = json!({
        "mode": chosen.mode.name(),
        "hostnameOverride": config.node_name,
        "nodePortAddresses": node_ports(config, chosen),
        "conntrack": conntrack(tuning),
        "oomScoreAdj": tuning.oom_score_adj,
    });
    let connection = json!({ "clientConnection": { "kubeconfig": kubeconfig(&settings.origin) } });
    for part in [in_force, connection, addresses(serve), local(config), of_mode(chosen, config, *pace)] {
        put_over(&mut all, part);
    }
    all
}

/// Where node ports answer; upstream names what its nftables mode does where nothing is chosen, and only that.
fn node_ports(config: &Config, settings: &ModeSettings) -> Vec<String> {
    let chosen = node_port_addresses(config);
    let is_primary = settings.semantics().default_node_port_addresses == NodePortAddress::Primary;
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

fn addresses(options: &ListenOptions) -> Value {
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

fn of_mode(settings: &ModeSettings, config: &Config, pace: PaceOptions) -> Value {
    let sections = settings.mode.sections();
    let mut of_mode = section_of(settings);
    put_over(
        &mut of_mode,
        json!({ "syncPeriod": time(pace.sync_period), "minSyncPeriod": time(pace.min_sync_period) }),
    );
    let mut parts = json!({ sections.pace: of_mode });
    let masquerade =
        json!({ "masqueradeAll": config.masquerade_all, "masqueradeBit": settings.masquerade_bit });
    put_over(&mut parts, json!({ sections.masquerade: masquerade }));
    parts
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubeproxy::Given;

    /// A run in this mode, with all that a mode has for itself changed from what the document says.
    fn settings(mode: Mode) -> Settings {
        let mut settings = Settings::of_tests();
        settings.mode.mode = mode;
        settings.mode.masquerade_bit = 17;
        settings.config.masquerade_all = true;
        settings.pace.sync_period = Duration::from_secs(7);
        settings
    }

    #[test]
    fn what_is_in_force_stands_where_the_document_has_it_for_the_mode() {
        for (mode, hidden_in, paced_in) in [
            (dataplane::nftables::MODE, "nftables", "nftables"),
            (dataplane::iptables::MODE, "iptables", "iptables"),
            (dataplane::userspace::MODE, "iptables", "iptables"),
            (dataplane::ipvs::MODE, "iptables", "ipvs"),
        ] {
            let page = &Effective::of(&settings(mode)).config[GROUP];
            for section in ["nftables", "iptables"] {
                let is_here = section == hidden_in;
                assert_eq!(page[section]["masqueradeAll"], is_here, "{section} in mode {mode}");
                assert_eq!(page[section]["masqueradeBit"] == 17, is_here, "{section} in mode {mode}");
            }
            for section in ["nftables", "iptables", "ipvs"] {
                let is_here = section == paced_in;
                assert_eq!(page[section]["syncPeriod"] == "7s", is_here, "{section} in mode {mode}");
            }
        }
    }

    fn flag<'a>(page: &'a Effective, name: &str) -> &'a str {
        let found = page.flags.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).expect("every flag is shown")
    }

    #[test]
    fn a_flag_of_two_fields_shows_the_one_of_the_mode() {
        for (mode, sync_period) in [
            (dataplane::nftables::MODE, "7s"),
            (dataplane::iptables::MODE, "7s"),
            (dataplane::ipvs::MODE, "30s"),
        ] {
            let page = Effective::of(&Settings { flags: Given::default().shown(), ..settings(mode) });
            assert_eq!(flag(&page, "masquerade-all"), "true", "{mode}");
            assert_eq!(flag(&page, "iptables-sync-period"), sync_period, "{mode}");
        }
    }

    #[test]
    fn a_flag_that_a_file_passes_over_shows_what_is_in_force() {
        let words = ["--config=f", "--proxy-mode=ipvs", "--masquerade-all=false", "--v=4"].map(str::to_owned);
        let given = Given::parse(&words).expect("they are flags");
        let page = Effective::of(&Settings { flags: given.shown(), ..settings(dataplane::nftables::MODE) });
        assert_eq!((flag(&page, "proxy-mode"), flag(&page, "masquerade-all")), ("nftables", "true"));
        assert_eq!((flag(&page, "v"), flag(&page, "config")), ("4", "f"), "these count beside it");
    }
}
