//! Our own metrics: what upstream does not count.

use dataplane::checks::Severity;
use dataplane::{ModeMetric, TrafficSource, registry};
use kernel::sysctl::{Sysctls, ThisMachine};

use super::Scrape;
use super::text::{Kind, Page};
use crate::traffic::{Carried, Traffic};

/// Writes them.
pub(super) fn write(page: &mut Page, scrape: &Scrape<'_>) {
    let version = [("mode", scrape.mode.name()), ("version", env!("CARGO_PKG_VERSION"))];
    page.family("portway_build_info", Kind::Gauge, "The running version and mode; always 1")
        .sample(&version, 1);
    tracker(page);
    preconditions(page, scrape);
    loop_of(page, scrape);
    for ModeMetric { name, help, value } in &scrape.counted.own {
        page.family(&format!("portway_{name}"), Kind::Counter, help).sample(&[], value);
    }
    traffic(page, scrape.traffic);
}

/// How full the connection tracker is. When it is full, new connections are dropped.
fn tracker(page: &mut Page) {
    let settings = [
        ("portway_conntrack_entries", "nf_conntrack_count", "Entries of the connection tracker"),
        (
            "portway_conntrack_entries_max",
            "nf_conntrack_max",
            "Entries that the connection tracker has room for",
        ),
    ];
    for (name, setting, help) in settings {
        let read = ThisMachine.read(&format!("net/netfilter/{setting}")).ok().flatten();
        if let Some(value) = read.and_then(|text| text.parse::<u64>().ok()) {
            page.family(name, Kind::Gauge, help).sample(&[], value);
        }
    }
}

/// Whether a check of this host found something.
fn preconditions(page: &mut Page, scrape: &Scrape<'_>) {
    let help = "Whether a check of this host found something; `portway doctor` says what";
    let mut family = page.family("portway_precondition", Kind::Gauge, help);
    for check in scrape.mode.checks() {
        for severity in Severity::ALL {
            let is_found = scrape.metrics.gauges.findings.get(check.name) == Some(&severity);
            family.sample(&[("check", check.name), ("severity", severity.name())], u64::from(is_found));
        }
    }
}

fn loop_of(page: &mut Page, scrape: &Scrape<'_>) {
    let metrics = scrape.metrics;
    let gauges = &metrics.gauges;
    let since = |at: std::time::Duration| scrape.uptime.saturating_sub(at).as_secs_f64();
    let (age, heard) = (gauges.changed_at.map(since), gauges.heard_at.map(since));
    let mut gauge = |name: &str, help: &str, value: f64| {
        page.family(name, Kind::Gauge, help).sample(&[], value);
    };
    if let Some(age) = heard {
        let help = "How long ago the API server last said something about every part of the picture";
        gauge("portway_api_server_heard_age_seconds", help, age);
    }
    gauge(
        "portway_fighting_programs",
        "Programs that change our rules again and again",
        float(gauges.fighting),
    );
    gauge("portway_healthy", "Whether /livez is green", f64::from(u8::from(scrape.is_healthy)));
    gauge(
        "portway_not_listening",
        "Ports of ours at which nobody can be answered",
        float(gauges.not_listening),
    );
    if let Some(age) = age {
        gauge("portway_picture_age_seconds", "How long ago the picture of the cluster last changed", age);
    }
    gauge(
        "portway_problems",
        "Files, and fields of objects, that have something wrong",
        float(gauges.problems),
    );
    gauge("portway_refused_service_ports", "Service ports that the kernel refused", float(gauges.refused));
    gauge("portway_service_ports", "Service ports in the table", float(gauges.service_ports));
    gauge(
        "portway_warned_service_ports",
        "Service ports in force with something wrong",
        float(gauges.warned),
    );
    let mut counter = |name: &str, help: &str, value: u64| {
        page.family(name, Kind::Counter, help).sample(&[], value);
    };
    let help = "How often our rules were put right after somebody else had changed them";
    counter("portway_drift_repairs_total", help, metrics.repairs);
    counter(
        "portway_drift_repair_operations_total",
        "Operations that repairs took",
        metrics.repair_operations,
    );
    counter("portway_operations_total", "Operations written to the kernel", metrics.operations);
    let help = "TCP connections to Pods that have vanished, which were ended";
    counter("portway_vanished_connections_ended_total", help, metrics.ended);
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 service ports")]
fn float(count: usize) -> f64 {
    count as f64
}

/// A figure of what was carried.
struct Figure {
    name: &'static str,
    kind: Kind,
    /// With `{carrier}` in the place of [`carrier`].
    help: &'static str,
    of: fn(&Carried) -> u64,
}

const fn counter(name: &'static str, help: &'static str, of: fn(&Carried) -> u64) -> Figure {
    Figure { name, kind: Kind::Counter, help, of }
}

/// What is told of a service port.
const OF_SERVICE_PORTS: [Figure; 8] = [
    counter("portway_service_bytes_in_total", "Bytes from clients that {carrier} carried", |c| c.bytes_in),
    counter("portway_service_bytes_out_total", "Bytes to clients that {carrier} carried", |c| c.bytes_out),
    counter("portway_service_connections_total", "Connections that {carrier} made", |c| c.connections),
    counter("portway_service_failed_total", "Connections reset because no endpoint answered", |c| c.failed),
    counter("portway_service_failed_dials_total", "Dials that failed", |c| c.failed_dials),
    counter("portway_service_refused_total", "Connections or datagrams turned away at a limit", |c| {
        c.refused
    }),
    counter("portway_service_retries_total", "Dials made because another had failed", |c| c.retries),
    Figure {
        name: "portway_service_active_connections",
        kind: Kind::Gauge,
        help: "Connections that {carrier} carries now",
        of: |c| c.active,
    },
];

/// What is told of an endpoint.
const OF_ENDPOINTS: [Figure; 4] = [
    counter("portway_endpoint_bytes_in_total", "Bytes from clients to this endpoint", |c| c.bytes_in),
    counter("portway_endpoint_bytes_out_total", "Bytes to clients from this endpoint", |c| c.bytes_out),
    counter("portway_endpoint_connections_total", "Connections made to this endpoint", |c| c.connections),
    counter("portway_endpoint_failed_dials_total", "Dials of this endpoint that failed", |c| c.failed_dials),
];

/// Who carries and counts what is told of service ports.
fn carrier() -> String {
    let by_kernel = registry::names_of(|mode| mode.traffic_source() == TrafficSource::Kernel);
    if by_kernel.is_empty() {
        "the relay".to_owned()
    } else {
        format!("the relay, or the kernel in mode {by_kernel},")
    }
}

fn traffic(page: &mut Page, traffic: &[Traffic]) {
    let carrier = carrier();
    for figure in OF_SERVICE_PORTS {
        let help = figure.help.replace("{carrier}", &carrier);
        let mut family = page.family(figure.name, figure.kind, &help);
        for one in traffic {
            family.one_of_many(&labels(one), (figure.of)(&one.all));
        }
    }
    for figure in OF_ENDPOINTS {
        let mut family = page.family(figure.name, figure.kind, figure.help);
        for one in traffic {
            for (address, carried) in &one.endpoints {
                let [port, family_of, purpose] = labels(one);
                let labels = [("endpoint", &*address.to_string()), port, family_of, purpose];
                family.one_of_many(&labels, (figure.of)(carried));
            }
        }
    }
}

fn labels(of: &Traffic) -> [(&str, &str); 3] {
    [("service_port", &of.service_port), ("ip_family", &of.family), ("purpose", &of.purpose)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dataplane::Counted;

    use super::*;
    use crate::metrics::{Gauges, Metrics, Probes};

    #[test]
    fn each_check_of_the_mode_has_a_gauge_by_severity() {
        let shown = |mode| {
            let gauges = Gauges { findings: [("ip-forward", Severity::Error)].into(), ..Gauges::default() };
            let metrics = Metrics { gauges, ..Metrics::default() };
            let (families, traffic, uptime) = (&model::Family::ALL[..], &[][..], Duration::ZERO);
            let scrape = Scrape {
                mode,
                families,
                metrics: &metrics,
                probes: &Probes::default(),
                is_healthy: true,
                uptime,
                traffic,
                counted: &Counted::default(),
            };
            crate::metrics::page(&scrape)
        };
        let page = shown(dataplane::nftables::MODE);
        for line in [
            "portway_precondition{check=\"ip-forward\",severity=\"error\"} 1\n",
            "portway_precondition{check=\"ip-forward\",severity=\"possible\"} 0\n",
            "portway_precondition{check=\"node-name\",severity=\"error\"} 0\n",
        ] {
            assert!(page.contains(line), "no {line} in {page}");
        }
        assert!(!shown(dataplane::userspace::MODE).contains("check=\"ip-forward\""), "it forwards nothing");
    }
}
