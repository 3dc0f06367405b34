//! Metrics, Events and pages: those of upstream, and what becomes of each here.

use std::fs;
use std::path::Path;

use crate::markdown::table;

/// Metrics that upstream has and we do not, with the reason.
const MISSING_METRICS: [(&str, &str); 5] = [
    (
        "rest_client_*",
        "`portway_api_server_heard_age_seconds` and *Trouble* in `portway status` tell how old the picture is, which is what matters",
    ),
    ("go_*", "they tell of Go's runtime; `process_*` is there"),
    (
        "process_network_receive_bytes_total, process_network_transmit_bytes_total, process_virtual_memory_max_bytes",
        "they tell of the node's network and of a limit that is not set, not of the process",
    ),
    (
        "kubernetes_build_info, kubernetes_feature_enabled",
        "they tell of Kubernetes' releases; `portway_build_info` is there",
    ),
    ("native histograms", "classic ones are there with upstream's buckets"),
];

/// Metrics that are not quite upstream's, with the reason. All others that upstream has are the same.
const BETTER_METRICS: [(&str, &str); 4] = [
    (
        "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
        "the rule's own counter is read, so no module for nfacct is needed; it begins with 0 at each start, where upstream's goes on while the node is up",
    ),
    (
        "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
        "connections that our listeners took on 127.0.0.1 and `::1` are counted too, since these serve in place of upstream's rules, and whoever reads it \
         wants to know whether anything uses node ports on localhost; with `--iptables-localhost-nodeports` one rule counts for all node ports; it \
         begins with 0 at each start. With iptables-legacy and more than 1,000 rules in the table it is as old as the last full sync, as the one above",
    ),
    (
        "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
        "needs no gate; UDP has listeners too",
    ),
    (
        "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
        "needs no gate. First packets to a node port on localhost that no listener of ours takes are counted: SCTP, and TCP and UDP where `nodePortAddresses` \
         leaves localhost out. They are not rejected by a rule: the kernel refuses them, and a program of the host that listens there is still reached",
    ),
];

/// Reason, what it is about, and what becomes of it.
const EVENTS: [(&str, &str, &str); 7] = [
    ("Starting", "Node", "same"),
    (
        "KubeProxyDefaultMode",
        "Node",
        "same, as `kube-proxy`; `portway run` sends none, since its default does not change",
    ),
    (
        "IPVSDeprecation",
        "Node",
        "not offered: upstream announces the end of its ipvs mode, and this one stays, so a Warning for every node would not be true here. `/proxyMode` \
         tells which nodes use it; docs/config.md says what a return to upstream needs",
    ),
    ("FailedToStartProxierHealthcheck", "Node", "better: also without `bindAddressHardFail`"),
    ("FailedToStartMetricServer", "Node", "better: also without `bindAddressHardFail`"),
    ("FailedToStartServiceHealthcheck", "Service", "same"),
    ("ServicePortRefused", "Service", "better: upstream has none, since its whole sync fails then"),
];

const PAGES: [(&str, &str); 12] = [
    (
        "`/healthz`, `/livez` (10256)",
        "same, with upstream's JSON; both families are written in one sync, so their status is the same",
    ),
    (
        "`healthCheckNodePort`",
        "same, with upstream's body and weight header; a request that races with the removal gets `503`, upstream's an empty `200`",
    ),
    ("`/metrics` (127.0.0.1:10249)", "same; counters that are 0 are shown, since alerts need the 0"),
    ("`/proxyMode`", "same"),
    ("`/configz`", "same"),
    ("`/healthz` on the metrics port", "same"),
    ("`/statusz`, `/flagz`", "text; upstream: also JSON, YAML, CBOR"),
    ("`/metrics/slis`", "same"),
    ("`/state`", "better: the whole picture as JSON; upstream has none"),
    ("`/debug/pprof`, `/debug/flags/v`", "not offered: they are of Go's runtime; use `perf` and `RUST_LOG`"),
    (
        "`--metrics-bind-address \"\"`, `--healthz-bind-address \"\"`",
        "off with `portway run`; as `kube-proxy` it is the default, as upstream, and `--metrics-port=0` and `--healthz-port=0` are off (upstream: the former fails)",
    ),
    (
        "the size of the tracker's hash table",
        "same number, by `nf_conntrack_buckets` instead of the module's parameter",
    ),
];

/// Written down from upstream's source; a test of the pages holds the program to it.
fn upstream_metrics() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe/tests/http/upstream-metrics.txt");
    fs::read_to_string(file).unwrap()
}

pub(crate) fn section() -> String {
    let text = upstream_metrics();
    let offered = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let better = BETTER_METRICS.iter().find(|(name, _)| *name == cells[0]);
        let here = better.map_or_else(|| "same".to_owned(), |(_, why)| format!("better: {why}"));
        vec![format!("`{}`", cells[0]), cells[4].to_owned(), here]
    });
    let missing = MISSING_METRICS
        .iter()
        .map(|(name, why)| vec![format!("`{name}`"), String::new(), format!("not offered: {why}")]);
    let metrics = table(&["metric", "modes", "here"], offered.chain(missing));
    let events = EVENTS
        .iter()
        .map(|(reason, about, here)| vec![format!("`{reason}`"), (*about).to_owned(), (*here).to_owned()]);
    let events = table(&["reason", "about", "here"], events);
    let pages = PAGES.iter().map(|(page, here)| vec![(*page).to_owned(), (*here).to_owned()]);
    let pages = table(&["page", "here"], pages);
    format!(
        "## Metrics\n\n{metrics}\nOur own begin with `portway_`. Those of each Service and endpoint are of what the relay carries (userspace mode, and node ports on localhost in every \
         mode) and, in ipvs mode, of what the kernel counts (endpoints in clusters of up to 200 virtual servers). The rules of nftables mode count \
         nothing but packets to node ports on localhost that are not served, since a counter costs every packet; those of iptables count by themselves, and two are \
         read.\n\n## Events\n\n{events}\n\
         `regarding` has `apiVersion: v1` and no `uid`, as upstream's since 1.35. Equal ones are one Event with a series, as upstream's. Of different ones 25 are sent at once, then one every 10 s; while the server is \
         away 64 wait, and each is tried 8 times: a bad day of a node must not be the API server's.\n\n## Pages\n\n{pages}"
    )
}

pub(crate) fn shown_by() -> impl Iterator<Item = &'static str> {
    [
        "each_mode_shows_exactly_upstreams_metrics_beside_ours",
        "root_what_a_move_to_nftables_would_change_is_counted",
        "root_what_is_not_served_on_localhost_is_counted",
        "whoever_names_no_mode_is_told_of_upstreams_next_default_and_nobody_else_is",
        "a_health_check_that_cannot_be_answered_is_told_as_upstream_does",
    ]
    .into_iter()
}

/// What is said to be better is there.
#[test]
fn metrics_that_are_better_are_those_of_the_list() {
    for (name, _) in BETTER_METRICS {
        assert!(upstream_metrics().lines().any(|line| line.starts_with(&format!("{name} |"))), "{name}");
    }
}

/// The reasons in the list are those that the program has, and no others but the ones that it says it lacks.
#[test]
fn events_are_those_of_the_program() {
    let source =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/src/reconciler/announce.rs"))
            .unwrap();
    for (reason, _, here) in EVENTS {
        let is_sent = source.contains(&format!("\"{reason}\""));
        assert_eq!(is_sent, !here.starts_with("not offered"), "{reason}: {here}");
    }
}
