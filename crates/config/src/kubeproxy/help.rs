//! What `kube-proxy --help` says: each flag of today with its type, what it does, the fields that it sets, and its default.
//!
//! Types and defaults come from the tables and from a document of defaults, so that they cannot differ from what is done. The sentences
//! stand here, since those of the tables compare with upstream.

use serde_json::{Value, json};

use super::document::Document;
use super::fields::Status;
use super::flags::{FLAGS, Flag, Purpose};
use super::kind::Kind;

/// What flags that set fields do.
const ABOUT: &[(&str, &str)] = &[
    (
        "feature-gates",
        "Switches features: NAME=true or NAME=false, with commas between them; docs/config.md lists them",
    ),
    (
        "kubeconfig",
        "The file that says where the API server is and who we are there; without it and --master, the account of the Pod",
    ),
    ("kube-api-content-type", "The format in which the API server is spoken to"),
    ("kube-api-burst", "How many requests the API server may get at once"),
    ("kube-api-qps", "How many requests the API server may get in a second"),
    (
        "hostname-override",
        "The name of this Node, where it is another than the host's; counts beside --config",
    ),
    (
        "bind-address",
        "The primary address of this node, to which nothing is bound; 0.0.0.0 and :: leave it to the Node",
    ),
    ("healthz-bind-address", "Where /healthz and /livez answer"),
    (
        "metrics-bind-address",
        "Where /metrics, /configz and other pages answer; 0.0.0.0:10249 or [::]:10249 answers everybody",
    ),
    ("bind-address-hard-fail", "Ends where one of these ports cannot be had, instead of trying again"),
    ("profiling", "Answers at /debug/pprof"),
    (
        "show-hidden-metrics-for-version",
        "Shows metrics that are hidden since this version, MAJOR.MINOR: the previous one",
    ),
    ("proxy-mode", "How the kernel is told: iptables, ipvs, nftables or userspace; empty is iptables"),
    (
        "iptables-masquerade-bit",
        "The bit of the packet mark that asks for another source, 0 to 31; modes iptables and ipvs",
    ),
    ("masquerade-all", "Hides the source of all that goes to a cluster IP"),
    ("iptables-localhost-nodeports", "Mode iptables: node ports answer on loopback addresses too"),
    (
        "iptables-sync-period",
        "How often everything is compared with the kernel in modes iptables and nftables; more than 0",
    ),
    (
        "iptables-min-sync-period",
        "The shortest time from one write to the next in modes iptables and nftables; 0 is none",
    ),
    ("ipvs-sync-period", "How often everything is compared with the kernel in mode ipvs; more than 0"),
    ("ipvs-min-sync-period", "The shortest time from one write to the next in mode ipvs; 0 is none"),
    ("ipvs-scheduler", "How virtual servers choose an endpoint; empty is rr, and wrr where weights differ"),
    (
        "ipvs-exclude-cidrs",
        "Networks whose virtual servers and addresses belong to others, with commas between them",
    ),
    (
        "ipvs-strict-arp",
        "Answers ARP for addresses of Services on their own interface alone: arp_ignore 1, arp_announce 2",
    ),
    ("ipvs-tcp-timeout", "How long IPVS remembers a silent TCP connection; 0 leaves the kernel's choice"),
    (
        "ipvs-tcpfin-timeout",
        "How long IPVS remembers a TCP connection after its FIN; 0 leaves the kernel's choice",
    ),
    ("ipvs-udp-timeout", "How long IPVS remembers a silent UDP client; 0 leaves the kernel's choice"),
    (
        "detect-local-mode",
        "How a packet of a pod is known: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
    ),
    ("pod-bridge-interface", "The bridge that pods are behind, for BridgeInterface"),
    ("pod-interface-name-prefix", "How the names of pods' interfaces begin, for InterfaceNamePrefix"),
    (
        "cluster-cidr",
        "The network of this cluster's pods, for ClusterCIDR; or one of each family with a comma between them",
    ),
    (
        "nodeport-addresses",
        "Where node ports answer: networks, primary, localhost or all; empty is all, and primary in mode nftables",
    ),
    (
        "oom-score-adj",
        "When the kernel ends this process if memory runs out: from -1000, never, to 1000, first",
    ),
    (
        "conntrack-max-per-core",
        "How many connections may be tracked for each core; 0 leaves the limit alone, and --conntrack-min too",
    ),
    ("conntrack-min", "How many connections may be tracked at least, however few cores there are"),
    (
        "conntrack-tcp-timeout-established",
        "How long a silent TCP connection is tracked; 0 leaves the kernel's choice",
    ),
    (
        "conntrack-tcp-timeout-close-wait",
        "How long a half-closed TCP connection is tracked; 0 leaves the kernel's choice",
    ),
    ("conntrack-tcp-be-liberal", "Lets packets pass that are outside of TCP's window"),
    (
        "conntrack-udp-timeout",
        "How long a UDP flow is tracked that got no answer; 0 leaves the kernel's choice",
    ),
    (
        "conntrack-udp-timeout-stream",
        "How long a UDP flow is tracked that got one; 0 leaves the kernel's choice",
    ),
    ("config-sync-period", "How often everything is told again"),
    ("v", "How much is logged: up to 3 what is done, from 4 details, from 6 all; counts beside --config"),
    ("vmodule", "How much single files log, PATTERN=N with commas between them"),
    ("logging-format", "Lines for people (text) or for programs (json); counts beside --config"),
    ("log-flush-frequency", "How long a line of the log may wait to be written; none waits"),
    ("log-text-split-stream", "Format text: what is no error goes to standard output"),
    ("log-text-info-buffer-size", "Format text: the size of the buffer of standard output"),
    ("log-json-split-stream", "Format json: what is no error goes to standard output"),
    ("log-json-info-buffer-size", "Format json: the size of the buffer of standard output"),
];

/// All flags of today, two lines for each.
pub fn flags() -> String {
    let usual = json!(Document::usual());
    FLAGS.iter().filter_map(|flag| Some(shown(flag, &about(flag)?, &usual))).collect()
}

/// What a flag does; `None` for one that is not for people.
fn about(flag: &Flag) -> Option<String> {
    match flag.purpose {
        Purpose::Sets(_) => {
            let (_, about) = ABOUT.iter().find(|(name, _)| *name == flag.name)?;
            let (status, why) = flag.standing();
            let is_idle = status == Status::NotOffered;
            Some(if is_idle { format!("{about}. No effect here: {why}") } else { (*about).to_owned() })
        }
        Purpose::Command | Purpose::Own if flag.name != "successor" => Some(flag.why.to_owned()),
        Purpose::Command | Purpose::Own | Purpose::Obsolete => None,
    }
}

fn shown(flag: &Flag, about: &str, usual: &Value) -> String {
    let short = match flag.name {
        "v" => "-v, ",
        "help" => "-h, ",
        _ => "    ",
    };
    let kind = kind_of(flag).map(|kind| format!(" {kind}")).unwrap_or_default();
    let fields: Vec<&str> = flag.fields().map(|field| field.path).collect();
    let fields = if fields.is_empty() { String::new() } else { format!(" [{}]", fields.join(", ")) };
    let usual = usual_of(flag, usual).map(|usual| format!(" (default {usual})")).unwrap_or_default();
    format!("  {short}--{}{kind}\n            {about}{fields}{usual}\n", flag.name)
}

/// The word for its type; `None` for a switch.
fn kind_of(flag: &Flag) -> Option<&'static str> {
    if flag.is_switch {
        return None;
    }
    Some(match (flag.name, flag.fields().next().map(|field| field.kind)) {
        ("bind-address", _) => "ip",
        ("healthz-bind-address" | "metrics-bind-address", _) => "ip:port",
        ("healthz-port" | "metrics-port", _) | (_, Some(Kind::Int)) => "int",
        ("config" | "write-config-to" | "kubeconfig", _) => "file",
        ("run-dir", _) => "folder",
        (_, Some(Kind::Float)) => "float",
        (_, Some(Kind::Duration | Kind::Nanoseconds)) => "duration",
        (_, Some(Kind::Texts)) => "strings",
        (_, Some(Kind::Gates)) => "name=bool,...",
        (_, Some(Kind::Vmodule)) => "pattern=int,...",
        (_, Some(Kind::Quantity)) => "quantity",
        (_, Some(Kind::Text | Kind::Bool) | None) => "string",
    })
}

/// Its default; `None` where it is nothing, no, or 0.
fn usual_of(flag: &Flag, usual: &Value) -> Option<String> {
    match flag.name {
        "healthz-port" => return Some(super::defaults::HEALTHZ_PORT.to_string()),
        "metrics-port" => return Some(super::defaults::METRICS_PORT.to_string()),
        "run-dir" => return Some("/run/portway".to_owned()),
        _ => {}
    }
    match flag.fields().next()?.of(usual) {
        Value::String(text) => Some(text.clone()).filter(|text| !matches!(&**text, "" | "0" | "0s")),
        Value::Bool(true) => Some("true".to_owned()),
        Value::Number(number) => {
            Some(number.to_string().trim_end_matches(".0").to_owned()).filter(|number| number != "0")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_today_is_told_and_every_sentence_is_of_one() {
        for flag in FLAGS.iter().filter(|flag| flag.purpose != Purpose::Obsolete && flag.name != "successor")
        {
            assert!(flags().contains(&format!("--{}", flag.name)), "--{}", flag.name);
            assert!(about(flag).is_some_and(|about| !about.is_empty()), "--{} says what it does", flag.name);
        }
        for (name, _) in ABOUT {
            assert!(Flag::named(name).is_some_and(|flag| matches!(flag.purpose, Purpose::Sets(_))), "{name}");
        }
    }

    #[test]
    fn a_flag_is_told_with_its_type_its_fields_and_its_default() {
        let text = flags();
        for words in [
            "      --bind-address ip\n            The primary address",
            "[bindAddress] (default 0.0.0.0)\n",
            "      --iptables-sync-period duration\n",
            "[iptables.syncPeriod, nftables.syncPeriod] (default 30s)\n",
            "      --iptables-localhost-nodeports\n",
            "[iptables.localhostNodePorts] (default true)\n",
            "      --masquerade-all\n            Hides the source of all that goes to a cluster IP [iptables.masqueradeAll, \
             nftables.masqueradeAll]\n",
            "  -v, --v int\n",
            "      --nodeport-addresses strings\n",
            "      --feature-gates name=bool,...\n",
            "      --oom-score-adj int\n",
            "(default -999)\n",
            "      --conntrack-tcp-timeout-established duration\n",
            "(default 24h0m0s)\n",
            "No effect here: four watches",
            "      --cleanup\n",
        ] {
            assert!(text.contains(words), "no {words:?} in\n{text}");
        }
    }
}
