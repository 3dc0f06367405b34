//! Each group of a document, and what a run makes of it: one row for each field that acts.

use std::fmt::Debug;

use super::super::choose;
use super::super::fields::{FIELDS, Field, Status};
use super::super::line::Given;
use super::super::of_modes;
use super::*;

fn asked(yaml: &str) -> Asked {
    let head =
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nhostnameOverride: a\n";
    let text = format!("{head}{yaml}\n");
    Asked::of(&choose(&Given::default(), Some(&text)).expect(yaml).document, dataplane::iptables::MODE)
}

fn shown<T: Debug>(value: T) -> String {
    format!("{value:?}")
}

/// A field, a document that sets it, what of a run to look at, and what is seen there.
type Row = (&'static str, &'static str, fn(&Asked) -> String, &'static str);

const ROWS: &[Row] = &[
    ("featureGates", "mode: ''", |a| shown(a.config.refuses_external_ips), "false"),
    (
        "featureGates",
        "featureGates: {AllowServiceExternalIPs: false}",
        |a| shown(a.config.refuses_external_ips),
        "true",
    ),
    (
        "clientConnection.kubeconfig",
        "clientConnection: {kubeconfig: /k}",
        |a| shown(&a.kubeconfig),
        "Some(\"/k\")",
    ),
    ("clientConnection.kubeconfig", "mode: ''", |a| shown(&a.kubeconfig), "None"),
    ("logging.format", "logging: {format: json}", |a| shown(a.log.is_json), "true"),
    ("logging.verbosity", "logging: {verbosity: 3}", |a| shown(a.log.level), "LevelFilter::INFO"),
    ("logging.verbosity", "logging: {verbosity: 4}", |a| shown(a.log.level), "LevelFilter::DEBUG"),
    ("logging.verbosity", "logging: {verbosity: 10}", |a| shown(a.log.level), "LevelFilter::TRACE"),
    ("hostnameOverride", "mode: ''", |a| a.config.node_name.clone(), "a"),
    ("bindAddress", "bindAddress: 10.0.0.7", |a| shown(&a.config.node_ips), "[10.0.0.7]"),
    ("bindAddress", "bindAddress: '::'", |a| shown(&a.config.node_ips), "[]"),
    ("healthzBindAddress", "healthzBindAddress: 10.0.0.7:5", |a| shown(a.serve.healthz), "Some(10.0.0.7:5)"),
    ("healthzBindAddress", "bindAddress: '::'", |a| shown(a.serve.healthz), "Some([::]:10256)"),
    (
        "metricsBindAddress",
        "metricsBindAddress: 10.0.0.7",
        |a| shown(a.serve.metrics),
        "Some(10.0.0.7:10249)",
    ),
    ("bindAddressHardFail", "bindAddressHardFail: true", |a| shown(a.serve.hard_fail), "true"),
    ("mode", "mode: ''", |a| a.mode.mode.to_string(), "iptables"),
    ("mode", "mode: nftables", |a| a.mode.mode.to_string(), "nftables"),
    ("mode", "mode: ipvs", |a| a.mode.mode.to_string(), "ipvs"),
    ("mode", "mode: userspace", |a| a.mode.mode.to_string(), "userspace"),
    ("iptables.masqueradeBit", "iptables: {masqueradeBit: 15}", |a| shown(a.mode.masquerade_bit), "15"),
    (
        "iptables.masqueradeBit",
        "mode: nftables\niptables: {masqueradeBit: 15}",
        |a| shown(a.mode.masquerade_bit),
        "14",
    ),
    ("iptables.masqueradeAll", "iptables: {masqueradeAll: true}", |a| shown(a.config.masquerade_all), "true"),
    (
        "iptables.masqueradeAll",
        "mode: ipvs\niptables: {masqueradeAll: true}",
        |a| shown(a.config.masquerade_all),
        "true",
    ),
    (
        "iptables.masqueradeAll",
        "mode: nftables\niptables: {masqueradeAll: true}",
        |a| shown(a.config.masquerade_all),
        "false",
    ),
    ("iptables.localhostNodePorts", "mode: ''", |a| shown(a.mode.localhost_node_ports), "Listening"),
    (
        "iptables.localhostNodePorts",
        "iptables: {localhostNodePorts: true}",
        |a| shown(a.mode.localhost_node_ports),
        "Listening",
    ),
    (
        "iptables.localhostNodePorts",
        "iptables: {localhostNodePorts: false}",
        |a| shown(a.mode.localhost_node_ports),
        "Nowhere",
    ),
    (
        "iptables.localhostNodePorts",
        "mode: nftables\niptables: {localhostNodePorts: false}",
        |a| shown(a.mode.localhost_node_ports),
        "Listening",
    ),
    ("iptables.syncPeriod", "iptables: {syncPeriod: 1m}", |a| shown(a.pace.sync_period), "60s"),
    (
        "iptables.syncPeriod",
        "iptables: {syncPeriod: 1ms, minSyncPeriod: 1ms}",
        |a| shown(a.pace.sync_period),
        "1s",
    ),
    ("iptables.minSyncPeriod", "iptables: {minSyncPeriod: 2s}", |a| shown(a.pace.min_sync_period), "2s"),
    ("iptables.minSyncPeriod", "iptables: {minSyncPeriod: 0s}", |a| shown(a.pace.min_sync_period), "50ms"),
    ("ipvs.syncPeriod", "mode: ipvs\nipvs: {syncPeriod: 1m}", |a| shown(a.pace.sync_period), "60s"),
    (
        "ipvs.minSyncPeriod",
        "mode: ipvs\niptables: {minSyncPeriod: 2s}",
        |a| shown(a.pace.min_sync_period),
        "0ns",
    ),
    (
        "ipvs.scheduler",
        "mode: ipvs\nipvs: {scheduler: lc}",
        |a| shown(a.mode.own.text("ipvs-scheduler")),
        "Some(\"lc\")",
    ),
    (
        "ipvs.scheduler",
        "mode: ipvs\nipvs: {scheduler: ''}",
        |a| shown(a.mode.own.has("ipvs-scheduler")),
        "false",
    ),
    (
        "ipvs.excludeCIDRs",
        "mode: ipvs\nipvs: {excludeCIDRs: [10.0.0.0/8]}",
        |a| shown(a.mode.own.list("ipvs-exclude-cidrs").collect::<Vec<_>>()),
        "[\"10.0.0.0/8\"]",
    ),
    (
        "ipvs.strictARP",
        "mode: ipvs\nipvs: {strictARP: true}",
        |a| shown(a.mode.own.is_on("ipvs-strict-arp")),
        "true",
    ),
    (
        "ipvs.tcpTimeout",
        "mode: ipvs\nipvs: {tcpTimeout: 15m}",
        |a| shown(a.mode.own.time("ipvs-tcp-timeout")),
        "Some(900s)",
    ),
    (
        "ipvs.tcpFinTimeout",
        "mode: ipvs\nipvs: {tcpFinTimeout: 1500ms}",
        |a| shown(a.mode.own.time("ipvs-tcpfin-timeout")),
        "Some(1.5s)",
    ),
    (
        "ipvs.udpTimeout",
        "mode: ipvs\nipvs: {udpTimeout: 0s}",
        |a| shown(a.mode.own.time("ipvs-udp-timeout")),
        "Some(0ns)",
    ),
    (
        "nftables.masqueradeBit",
        "mode: nftables\nnftables: {masqueradeBit: 3}",
        |a| shown(a.mode.masquerade_bit),
        "3",
    ),
    (
        "nftables.masqueradeAll",
        "mode: nftables\nnftables: {masqueradeAll: true}",
        |a| shown(a.config.masquerade_all),
        "true",
    ),
    (
        "nftables.syncPeriod",
        "mode: nftables\nnftables: {syncPeriod: 1m}",
        |a| shown(a.pace.sync_period),
        "60s",
    ),
    (
        "nftables.minSyncPeriod",
        "mode: nftables\nnftables: {minSyncPeriod: 1s}",
        |a| shown(a.pace.min_sync_period),
        "1s",
    ),
    ("detectLocalMode", "detectLocalMode: NodeCIDR", |a| shown(&a.config.detect_local), "NodeCidr"),
    (
        "detectLocal.bridgeInterface",
        "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: br0}",
        |a| shown(&a.config.detect_local),
        "BridgeInterface(\"br0\")",
    ),
    (
        "detectLocal.interfaceNamePrefix",
        "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}",
        |a| shown(&a.config.detect_local),
        "InterfaceNamePrefix(\"veth\")",
    ),
    (
        "clusterCIDR",
        "clusterCIDR: '10.244.0.0/16,fd00::/48'",
        |a| shown(&a.config.detect_local),
        "ClusterCidr([10.244.0.0/16, fd00::/48])",
    ),
    (
        "nodePortAddresses",
        "nodePortAddresses: [primary, 10.0.0.0/8]",
        |a| shown(&a.config.node_port_addresses),
        "[Primary, Within(10.0.0.0/8)]",
    ),
    ("oomScoreAdj", "oomScoreAdj: 0", |a| shown(a.tuning.oom_score_adj), "Some(0)"),
    (
        "conntrack.maxPerCore",
        "conntrack: {maxPerCore: 0}",
        |a| shown(a.tuning.conntrack_max.map(|max| max.per_core)),
        "Some(0)",
    ),
    (
        "conntrack.min",
        "conntrack: {min: 7}",
        |a| shown(a.tuning.conntrack_max),
        "Some(ConntrackMax { per_core: 32768, min: 7 })",
    ),
    (
        "conntrack.tcpEstablishedTimeout",
        "conntrack: {tcpEstablishedTimeout: 0s}",
        |a| shown(a.tuning.tcp_established),
        "None",
    ),
    ("conntrack.tcpCloseWaitTimeout", "conntrack: {}", |a| shown(a.tuning.tcp_close_wait), "Some(3600s)"),
    ("conntrack.tcpBeLiberal", "conntrack: {tcpBeLiberal: true}", |a| shown(a.tuning.tcp_be_liberal), "true"),
    ("conntrack.udpTimeout", "conntrack: {udpTimeout: 7s}", |a| shown(a.tuning.udp), "Some(7s)"),
    (
        "conntrack.udpStreamTimeout",
        "conntrack: {udpStreamTimeout: 7s}",
        |a| shown(a.tuning.udp_stream),
        "Some(7s)",
    ),
    ("portRange", "mode: userspace\nportRange: 40000-40999", |a| shown(&a.ports), "Some(40000..=40999)"),
    ("portRange", "mode: nftables\nportRange: 40000-40999", |a| shown(&a.ports), "None"),
];

#[test]
fn every_field_that_acts_reaches_the_run() {
    for (field, yaml, look, expected) in ROWS {
        assert_eq!(look(&asked(yaml)), *expected, "{field}: {yaml}");
    }
}

/// The type and what is never buffered are not of the run.
const ELSEWHERE: [&str; 3] = ["apiVersion", "kind", "logging.flushFrequency"];

#[test]
fn every_field_that_is_offered_has_a_row() {
    let is_offered = |field: &&Field| field.status != Status::NotOffered && !field.is_test_only();
    let offered = FIELDS.iter().filter(is_offered).map(|field| field.path);
    // One walk over the settings of the mode reads those in sections that upstream does not have.
    for path in offered.filter(|path| !ELSEWHERE.contains(path) && !of_modes::is_of_an_own_section(path)) {
        assert!(ROWS.iter().any(|(field, ..)| *field == path), "no row for {path}");
    }
}

#[test]
fn without_a_name_the_node_is_called_as_the_host_is() {
    let document = Document::usual();
    assert_eq!(Asked::of(&document, dataplane::nftables::MODE).config.node_name, standalone::host::name());
    assert_eq!(
        Asked::of(&document, dataplane::nftables::MODE).mode.mode,
        dataplane::nftables::MODE,
        "each command has a mode of its own"
    );
}

#[test]
fn without_a_cluster_only_what_a_file_names_is_opened_and_set() {
    let of = |yaml: &str| {
        let text =
            format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{yaml}");
        let chosen = choose(&Given::default(), Some(&text)).expect(yaml);
        Asked::of(&chosen.document, dataplane::nftables::MODE).without_cluster(&chosen.said)
    };
    let silent = of("mode: nftables");
    assert_eq!((silent.serve, silent.tuning), (ListenOptions::default(), Tuning::default()));
    let named = of("metricsBindAddress: 127.0.0.1\nconntrack: {min: 7}\noomScoreAdj: 5\n");
    assert_eq!((named.serve.healthz, shown(named.serve.metrics)), (None, "Some(127.0.0.1:10249)".to_owned()));
    let size = Some(ConntrackMax { per_core: 32_768, min: 7 });
    assert_eq!(named.tuning, Tuning { conntrack_max: size, oom_score_adj: Some(5), ..Tuning::default() });
}
