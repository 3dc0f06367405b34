//! Every flag of upstream's kube-proxy, as data: its name, what it sets, and what it means here.
//!
//! The command line, its help and the parity page walk this table. A flag that sets a field of the document means what the field means.

use super::fields::{Field, Status};
use super::leaked::LEAKED;

/// A flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Whether it stands alone, as `--cleanup` does.
    pub is_switch: bool,
    /// What it is for.
    pub purpose: Purpose,
    /// It counts beside `--config` too.
    pub beside_config: bool,
    /// How it compares with upstream's.
    pub status: Status,
    /// What to use instead of one that upstream calls deprecated, and that still has its effect.
    pub instead: Option<&'static str>,
    /// What it does; for one that sets a field, what upstream's does not say.
    pub why: &'static str,
}

/// What a flag is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It sets these fields of the document.
    Sets(&'static [&'static str]),
    /// It is no field, and the command line knows what it is.
    Command,
    /// Upstream had it once. It has no effect, and `why` says what has.
    Obsolete,
    /// It is ours alone.
    Own,
}

const fn sets(name: &'static str, fields: &'static [&'static str]) -> Flag {
    Flag {
        name,
        is_switch: false,
        purpose: Purpose::Sets(fields),
        beside_config: false,
        status: Status::Same,
        instead: None,
        why: "",
    }
}

const fn switch(name: &'static str, fields: &'static [&'static str]) -> Flag {
    Flag { is_switch: true, ..sets(name, fields) }
}

const fn command(name: &'static str, why: &'static str) -> Flag {
    Flag { purpose: Purpose::Command, beside_config: true, why, ..sets(name, &[]) }
}

const fn deprecated(name: &'static str, instead: &'static str, why: &'static str) -> Flag {
    Flag { beside_config: false, instead: Some(instead), ..command(name, why) }
}

pub(super) const fn obsolete(name: &'static str, why: &'static str) -> Flag {
    Flag { purpose: Purpose::Obsolete, status: Status::NotOffered, ..command(name, why) }
}

const fn own(name: &'static str, why: &'static str) -> Flag {
    Flag { purpose: Purpose::Own, status: Status::Better, ..command(name, why) }
}

pub(super) const fn alone(flag: Flag) -> Flag {
    Flag { is_switch: true, ..flag }
}

const fn beside_config(flag: Flag) -> Flag {
    Flag { beside_config: true, ..flag }
}

const LOGS: &str = "lines go to standard error, one by one: redirect it";

/// All of them.
pub const FLAGS: &[Flag] = &[
    command("config", "the document; then all other flags are passed over but those that say otherwise"),
    command("write-config-to", "writes the document with its defaults to this file, and ends"),
    alone(command("cleanup", "removes the rules of all modes, and ends")),
    alone(command(
        "init-only",
        "makes the settings of the kernel that need more than CAP_NET_ADMIN, and ends",
    )),
    alone(command(
        "version",
        "prints name and version, and ends; `--version=raw` prints the same line, where upstream's has more",
    )),
    alone(command("help", "prints this")),
    command("master", "the URL of the API server, in place of the kubeconfig's"),
    sets("feature-gates", &["featureGates"]),
    sets("kubeconfig", &["clientConnection.kubeconfig"]),
    sets("kube-api-content-type", &["clientConnection.contentType"]),
    sets("kube-api-burst", &["clientConnection.burst"]),
    sets("kube-api-qps", &["clientConnection.qps"]),
    beside_config(sets("hostname-override", &["hostnameOverride"])),
    sets("bind-address", &["bindAddress"]),
    sets("healthz-bind-address", &["healthzBindAddress"]),
    sets("metrics-bind-address", &["metricsBindAddress"]),
    switch("bind-address-hard-fail", &["bindAddressHardFail"]),
    switch("profiling", &["enableProfiling"]),
    sets("show-hidden-metrics-for-version", &["showHiddenMetricsForVersion"]),
    sets("proxy-mode", &["mode"]),
    sets("iptables-masquerade-bit", &["iptables.masqueradeBit"]),
    switch("masquerade-all", &["iptables.masqueradeAll", "nftables.masqueradeAll"]),
    switch("iptables-localhost-nodeports", &["iptables.localhostNodePorts"]),
    sets("iptables-sync-period", &["iptables.syncPeriod", "nftables.syncPeriod"]),
    sets("iptables-min-sync-period", &["iptables.minSyncPeriod", "nftables.minSyncPeriod"]),
    sets("ipvs-sync-period", &["ipvs.syncPeriod"]),
    sets("ipvs-min-sync-period", &["ipvs.minSyncPeriod"]),
    sets("ipvs-scheduler", &["ipvs.scheduler"]),
    sets("ipvs-exclude-cidrs", &["ipvs.excludeCIDRs"]),
    switch("ipvs-strict-arp", &["ipvs.strictARP"]),
    sets("ipvs-tcp-timeout", &["ipvs.tcpTimeout"]),
    sets("ipvs-tcpfin-timeout", &["ipvs.tcpFinTimeout"]),
    sets("ipvs-udp-timeout", &["ipvs.udpTimeout"]),
    sets("detect-local-mode", &["detectLocalMode"]),
    sets("pod-bridge-interface", &["detectLocal.bridgeInterface"]),
    sets("pod-interface-name-prefix", &["detectLocal.interfaceNamePrefix"]),
    sets("cluster-cidr", &["clusterCIDR"]),
    sets("nodeport-addresses", &["nodePortAddresses"]),
    sets("oom-score-adj", &["oomScoreAdj"]),
    sets("conntrack-max-per-core", &["conntrack.maxPerCore"]),
    sets("conntrack-min", &["conntrack.min"]),
    sets("conntrack-tcp-timeout-established", &["conntrack.tcpEstablishedTimeout"]),
    sets("conntrack-tcp-timeout-close-wait", &["conntrack.tcpCloseWaitTimeout"]),
    switch("conntrack-tcp-be-liberal", &["conntrack.tcpBeLiberal"]),
    sets("conntrack-udp-timeout", &["conntrack.udpTimeout"]),
    sets("conntrack-udp-timeout-stream", &["conntrack.udpStreamTimeout"]),
    sets("config-sync-period", &["configSyncPeriod"]),
    beside_config(sets("v", &["logging.verbosity"])),
    beside_config(sets("vmodule", &["logging.vmodule"])),
    beside_config(sets("logging-format", &["logging.format"])),
    beside_config(sets("log-flush-frequency", &["logging.flushFrequency"])),
    beside_config(switch("log-text-split-stream", &["logging.options.text.splitStream"])),
    beside_config(sets("log-text-info-buffer-size", &["logging.options.text.infoBufferSize"])),
    beside_config(switch("log-json-split-stream", &["logging.options.json.splitStream"])),
    beside_config(sets("log-json-info-buffer-size", &["logging.options.json.infoBufferSize"])),
    deprecated(
        "healthz-port",
        "--healthz-bind-address",
        "deprecated: the port of a --healthz-bind-address without one; 0 answers nowhere",
    ),
    deprecated(
        "metrics-port",
        "--metrics-bind-address",
        "deprecated: the port of a --metrics-bind-address without one; 0 answers nowhere",
    ),
    own("run-dir", "the folder of the lock, and of the socket by which root can ask"),
    alone(own("take-over", "goes on in the place of the portway that runs here, without a gap")),
    alone(own(
        "set-ip-forward",
        "has this host forward packets of both families: sets net.ipv4.ip_forward and net.ipv6.conf.all.forwarding to 1, and accept_ra from 1 to 2",
    )),
    alone(own("stand-by", "waits until no other portway runs here")),
    own("successor", "given by a portway that hands over to its successor, never by a person"),
    obsolete(
        "proxy-port-range",
        "upstream removed it in 1.31: portRange of a document sets the ports of mode userspace",
    ),
    obsolete(
        "udp-timeout",
        "upstream removed it in 1.26: `portway run --udp-timeout` sets that of mode userspace",
    ),
    obsolete("conntrack-max", "use --conntrack-max-per-core and --conntrack-min"),
    obsolete("resource-container", "limits are the container's"),
    alone(obsolete("cleanup-iptables", "use --cleanup")),
    alone(obsolete("cleanup-ipvs", "--cleanup removes what mode ipvs wrote too")),
    alone(obsolete("windows-service", "Windows only")),
    alone(obsolete("enable-dsr", "Windows only")),
    alone(obsolete("forward-healthcheck-vip", "Windows only")),
    obsolete("network-name", "Windows only"),
    obsolete("root-hnsendpoint-name", "Windows only"),
    obsolete("source-vip", "Windows only"),
    alone(obsolete("add-dir-header", LOGS)),
    alone(obsolete("alsologtostderr", LOGS)),
    alone(obsolete("logtostderr", LOGS)),
    alone(obsolete("one-output", LOGS)),
    alone(obsolete("skip-headers", LOGS)),
    alone(obsolete("skip-log-headers", LOGS)),
    obsolete("log-backtrace-at", "RUST_BACKTRACE=1 shows where the program broke"),
    obsolete("log-dir", LOGS),
    obsolete("log-file", LOGS),
    obsolete("log-file-max-size", LOGS),
    obsolete("stderrthreshold", LOGS),
];

impl Flag {
    /// The flag of this name. Upstream takes an underscore for a dash.
    pub fn named(name: &str) -> Option<&'static Flag> {
        let name = name.replace('_', "-");
        FLAGS.iter().chain(LEAKED).find(|flag| flag.name == name)
    }

    /// The fields that it sets.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
        let fields = match self.purpose {
            Purpose::Sets(fields) => fields,
            _ => &[],
        };
        fields.iter().filter_map(|path| Field::at(path))
    }

    /// How it compares with upstream's: one that sets a field, as the field does.
    pub fn standing(&self) -> (Status, &'static str) {
        self.fields().next().map_or((self.status, self.why), |field| (field.status, field.why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    #[test]
    fn flags_set_fields_that_there_are_and_switches_set_truths() {
        for flag in FLAGS {
            let Purpose::Sets(fields) = flag.purpose else {
                assert!(
                    !flag.why.is_empty() || flag.name == "successor",
                    "--{} says what it does",
                    flag.name
                );
                continue;
            };
            assert_eq!(flag.fields().count(), fields.len(), "--{}", flag.name);
            for field in flag.fields() {
                assert_eq!(field.kind == Kind::Bool, flag.is_switch, "--{}", flag.name);
            }
        }
    }

    #[test]
    fn a_name_stands_once_and_underscores_are_dashes() {
        for flag in FLAGS.iter().chain(LEAKED) {
            let same = FLAGS.iter().chain(LEAKED).filter(|other| other.name == flag.name).count();
            assert_eq!(same, 1, "--{}", flag.name);
        }
        assert_eq!(Flag::named("hostname_override").map(|flag| flag.name), Some("hostname-override"));
        assert!(Flag::named("hostname").is_none());
    }

    #[test]
    fn these_count_beside_a_file_as_upstream_has_it() {
        let counted: Vec<&str> = FLAGS
            .iter()
            .filter(|flag| flag.beside_config && matches!(flag.purpose, Purpose::Sets(_)))
            .map(|flag| flag.name)
            .collect();
        assert_eq!(counted[..4], ["hostname-override", "v", "vmodule", "logging-format"]);
        assert!(counted[4..].iter().all(|name| name.starts_with("log-")), "{counted:?}");
    }
}
