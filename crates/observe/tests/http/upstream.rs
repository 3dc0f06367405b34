//! Every metric of upstream is there with its name, type, labels, buckets and help: dashboards keep working.
//!
//! `upstream-metrics.txt` was written down from upstream's source, not from what we show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::{Counted, Mode, RuleCount, Synced, registry};
use jiff::Timestamp;
use model::{ByFamily, Family, Protocol};
use observe::metrics::Pass;
use observe::metrics::{self, Gauges, Metrics, Probe, Probes, Recorder, Scrape};
use observe::traffic::{Carried, Traffic};
use serde_json::json;
use standalone::objects::{Change, Kind, Object, ObjectKey};

/// What a page shows of a metric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shown {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    buckets: Vec<String>,
}

/// A page on which everything has happened once.
fn page(mode: Mode) -> String {
    let mut recorder = Recorder::new(Timestamp::UNIX_EPOCH);
    let slice = json!({ "metadata": { "name": "web", "namespace": "default" } });
    let key = ObjectKey::of(Kind::EndpointSlice, &slice).unwrap();
    recorder.heard(
        &[Change::Apply(Object { key, origin: None, value: Arc::new(slice) })],
        Timestamp::from_second(1).unwrap(),
    );
    let count = RuleCount { total: 9, written: 3 };
    let rules = [((Family::V4, "nat"), count), ((Family::V6, "filter"), count)].into();
    let took = Duration::from_millis(3);
    for was_full in [true, false] {
        let result = Ok(Synced { rules: BTreeMap::clone(&rules), ..Synced::default() });
        recorder.synced(&result, was_full, took, Timestamp::from_second(2).unwrap());
    }
    recorder.ran(0, &[Pass { family: Family::V4, flows: 2, took }]);
    let mut probes = Probes::default();
    probes.count(Probe::Healthz, 200);
    probes.count(Probe::Livez, 503);
    metrics::page(&Scrape {
        mode,
        families: &Family::ALL,
        metrics: &recorder.metrics_with(Gauges::default()),
        probes: &probes,
        is_healthy: true,
        uptime: Duration::from_secs(1),
        traffic: &[],
        counted: &Counted {
            invalid_dropped: Some(3),
            localhost_accepted: Some(0),
            localhost_rejected: [((Family::V4, Protocol::Sctp), 5)].into(),
            listener_failures: ByFamily { v4: 1, v6: 0 },
            own: Vec::new(),
        },
    })
}

/// The metrics on a page, by name.
fn shown(page: &str) -> BTreeMap<String, Shown> {
    let mut found: BTreeMap<String, Shown> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            name.clone_into(&mut current);
            assert!(
                found.insert(current.clone(), Shown { help: help.to_owned(), ..Shown::default() }).is_none()
            );
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            rest.split_once(' ').unwrap().1.clone_into(&mut found.get_mut(&current).unwrap().kind);
        } else {
            sample(line, &current, found.get_mut(&current).unwrap());
        }
    }
    found
}

fn sample(line: &str, name: &str, shown: &mut Shown) {
    assert!(line.starts_with(name), "{line} stands below {name}");
    let labels =
        line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
    for (label, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
        if label != "le" {
            shown.labels.insert(label.to_owned());
        } else if !shown.buckets.iter().any(|known| known == value) {
            shown.buckets.push(value.to_owned());
        }
    }
}

/// The bounds as a running kube-proxy shows them: it begins those of programming with a 0 that its source does not name.
fn buckets(word: &str) -> Vec<String> {
    let bounds: Vec<f64> = match word {
        "doubling" => (0..15).map(|n| 0.001 * f64::from(1 << n)).collect(),
        "programming" => {
            let fine = [0.0, 0.25, 0.5].into_iter().chain((1..60).map(f64::from));
            fine.chain((0..12).map(|n| 60.0 + 5.0 * f64::from(n)))
                .chain((0..7).map(|n| 120.0 + 30.0 * f64::from(n)))
                .collect()
        }
        _ => return Vec::new(),
    };
    bounds.iter().map(|bound| format!("\"{bound}\"")).chain(["\"+Inf\"".to_owned()]).collect()
}

fn expected(mode: Mode) -> BTreeMap<String, Shown> {
    let rows = include_str!("upstream-metrics.txt").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let [name, kind, labels, bounds, modes, help] =
            line.split(" | ").collect::<Vec<_>>().try_into().expect("six columns");
        let labels = labels.split(',').filter(|label| *label != "-").map(str::to_owned).collect();
        let help = format!("[ALPHA] {help}");
        let shown = Shown { kind: kind.to_owned(), help, labels, buckets: buckets(bounds) };
        modes.split(' ').any(|known| known == mode.name()).then(|| (name.to_owned(), shown))
    };
    rows.filter_map(row).collect()
}

fn modes_of_upstream() -> impl Iterator<Item = Mode> {
    registry::product_modes().filter(|mode| !expected(*mode).is_empty())
}

#[test]
fn each_mode_shows_exactly_upstreams_metrics_beside_ours() {
    for mode in modes_of_upstream() {
        let expected = expected(mode);
        assert!(expected.len() >= 14, "{} metrics of {mode}", expected.len());
        let mut found = shown(&page(mode));
        found.retain(|name, _| name.starts_with("kubeproxy_"));
        assert_eq!(found, expected, "in mode {mode}");
    }
}

#[test]
fn what_the_rules_have_counted_is_shown_and_what_could_not_be_read_is_not() {
    let iptables = page(dataplane::iptables::MODE);
    for line in [
        "kubeproxy_iptables_ct_state_invalid_dropped_packets_total 3",
        "kubeproxy_iptables_localhost_nodeports_accepted_packets_total 0",
    ] {
        assert!(iptables.lines().any(|found| found == line), "no {line}");
    }
    let nftables = page(dataplane::nftables::MODE);
    for line in [
        "kubeproxy_nftables_localhost_nodeport_rejected_packets_total{ip_family=\"IPv4\",protocol=\"SCTP\"} 5",
        "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family=\"IPv4\"} 1",
        "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family=\"IPv6\"} 0",
    ] {
        assert!(nftables.lines().any(|found| found == line), "no {line}");
    }
    let unread = metrics::page(&Scrape {
        mode: dataplane::iptables::MODE,
        families: &Family::ALL,
        metrics: &Metrics::default(),
        probes: &Probes::default(),
        is_healthy: true,
        uptime: Duration::ZERO,
        traffic: &[],
        counted: &Counted::default(),
    });
    assert!(!unread.contains("\nkubeproxy_iptables_ct_state_invalid_dropped_packets_total"), "{unread}");
}

#[test]
fn the_mode_that_upstream_has_no_more_shows_what_all_modes_have() {
    let of = |mode| {
        shown(&page(mode)).into_keys().filter(|name| name.starts_with("kubeproxy_")).collect::<BTreeSet<_>>()
    };
    let all = modes_of_upstream().map(of).reduce(|all, some| &all & &some).unwrap();
    let others: Vec<Mode> = registry::product_modes().filter(|mode| expected(*mode).is_empty()).collect();
    assert!(!others.is_empty());
    for mode in others {
        assert_eq!(of(mode), all, "in mode {mode}");
    }
}

#[test]
fn upstreams_metrics_stand_in_the_order_of_their_names() {
    for mode in registry::product_modes() {
        let page = page(mode);
        let heads = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let names: Vec<&str> = heads.filter(|head| head.starts_with("kubeproxy_")).collect();
        assert!(names.is_sorted(), "{names:#?}");
    }
}

#[test]
fn a_page_of_a_huge_cluster_has_an_end() {
    let carried = Carried { connections: 1 << 40, ..Carried::default() };
    let endpoint = |n: u8| (([10, 244, 0, n], 8080).into(), carried);
    let traffic: Vec<Traffic> = (0..20_000)
        .map(|n| Traffic {
            service_port: format!("some-namespace/a-service-with-a-name-{n}:http/tcp"),
            family: "IPv4".into(),
            purpose: "cluster".into(),
            all: carried,
            endpoints: (0..4).map(endpoint).collect(),
        })
        .collect();
    let begun = Instant::now();
    let page = metrics::page(&Scrape {
        mode: dataplane::userspace::MODE,
        families: &Family::ALL,
        metrics: &Metrics::default(),
        probes: &Probes::default(),
        is_healthy: true,
        uptime: Duration::ZERO,
        traffic: &traffic,
        counted: &Counted::default(),
    });
    let (took, kib) = (begun.elapsed(), page.len() >> 10);
    eprintln!("counted: 20000 service ports of 4 endpoints on a page of {kib} KiB, in {took:?}");
    assert!(kib < 4 << 10, "{kib} KiB");
    assert!(page.ends_with("\nportway_metrics_left_out 460000\n"), "{}", &page[page.len() - 100..]);
}

#[test]
fn our_own_metrics_have_a_head_and_a_type_each() {
    let page = shown(&page(dataplane::nftables::MODE));
    let own: Vec<_> = page.iter().filter(|(name, _)| name.starts_with("portway_")).collect();
    assert!(own.len() >= 10, "{own:#?}");
    for (name, shown) in own {
        let is_counter = name.ends_with("_total");
        assert_eq!(shown.kind, if is_counter { "counter" } else { "gauge" }, "{name}");
        assert!(!shown.help.is_empty() && !shown.help.ends_with('.'), "{name}: {}", shown.help);
    }
}
