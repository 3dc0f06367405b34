//! The metrics of kube-proxy 1.37, in the order of their names, as it shows them.
//!
//! Departures: both families are written in one sync, so durations and failures of syncs are the same for both; counters are there
//! from the start with 0, where upstream shows them after their first use.

use dataplane::{Counted, Mode, registry};
use jiff::Timestamp;
use model::{ByFamily, Family};

use super::histogram::Histogram;
use super::text::{Kind, Page, Samples};
use super::{Metrics, Probe, Probes, Scrape};

/// Writes all that the mode has.
pub(super) fn write(page: &mut Page, scrape: &Scrape<'_>) {
    let mut writer = Writer { page, mode: scrape.mode, families: scrape.families };
    let Scrape { metrics, probes: asked, .. } = scrape;
    flows(&mut writer, metrics);
    packets_of_rules(&mut writer, scrape.counted);
    writer.both(
        "network_programming_duration_seconds",
        Kind::Histogram,
        "In Cluster Network Programming Latency in seconds",
        |samples, family, label| samples.histogram(label, metrics.programming.get(family)),
    );
    listener_failures(&mut writer, scrape.counted);
    localhost_listeners(&mut writer, scrape);
    localhost_rejected(&mut writer, scrape);
    probes(&mut writer, asked, Probe::Healthz, "proxy_healthz_total", "Cumulative proxy healthz HTTP status");
    probes(&mut writer, asked, Probe::Livez, "proxy_livez_total", "Cumulative proxy livez HTTP status");
    let help = "SyncProxyRules latency in seconds for full resyncs";
    writer.duration("sync_full_proxy_rules_duration_seconds", help, &metrics.full_syncs);
    let help = "SyncProxyRules latency in seconds for partial resyncs";
    writer.duration("sync_partial_proxy_rules_duration_seconds", help, &metrics.partial_syncs);
    let help = "SyncProxyRules latency in seconds";
    writer.duration("sync_proxy_rules_duration_seconds", help, &metrics.syncs);
    let (services, endpoints) = (metrics.services, metrics.endpoints);
    let pending = |count: u64| if metrics.gauges.is_pending { count } else { 0 };
    let one = "sync_proxy_rules_endpoint_changes";
    writer.gauge(
        &format!("{one}_pending"),
        "Pending proxy rules Endpoint changes",
        pending(endpoints.pending),
    );
    writer.counter(&format!("{one}_total"), "Cumulative proxy rules Endpoint changes", endpoints.total);
    rules(&mut writer, metrics);
    let name = "sync_proxy_rules_iptables_restore_failures_total";
    writer.failures(name, "Cumulative proxy iptables restore failures", metrics.failures);
    rules_in_all(&mut writer, metrics);
    moment(
        &mut writer,
        "sync_proxy_rules_last_queued_timestamp_seconds",
        "The last time a sync of proxy rules was queued",
        metrics.queued_at,
    );
    moment(
        &mut writer,
        "sync_proxy_rules_last_timestamp_seconds",
        "The last time proxy rules were successfully synced",
        metrics.synced_at,
    );
    let name = "sync_proxy_rules_nftables_cleanup_failures_total";
    writer.failures(name, "Cumulative proxy nftables cleanup failures", metrics.cleanup_failures);
    let name = "sync_proxy_rules_nftables_sync_failures_total";
    writer.failures(name, "Cumulative proxy nftables sync failures", metrics.failures);
    without_local(&mut writer, scrape);
    let one = "sync_proxy_rules_service_changes";
    writer.gauge(&format!("{one}_pending"), "Pending proxy rules Service changes", pending(services.pending));
    writer.counter(&format!("{one}_total"), "Cumulative proxy rules Service changes", services.total);
}

fn flows(writer: &mut Writer<'_>, metrics: &Metrics) {
    writer.both(
        "conntrack_reconciler_deleted_entries_total",
        Kind::Counter,
        "Cumulative conntrack flows deleted by conntrack reconciler",
        |samples, family, label| samples.sample(label, metrics.flows.get(family)),
    );
    writer.both(
        "conntrack_reconciler_sync_duration_seconds",
        Kind::Histogram,
        "ReconcileConntrackFlowsLatency latency in seconds",
        |samples, family, label| samples.histogram(label, metrics.reconciling.get(family)),
    );
}

/// Of both families together, as upstream's. What could not be read is not shown: 0 would say that there were none.
fn packets_of_rules(writer: &mut Writer<'_>, counted: &Counted) {
    for (name, help, packets) in [
        (
            "iptables_ct_state_invalid_dropped_packets_total",
            "packets dropped by iptables to work around conntrack problems",
            counted.invalid_dropped,
        ),
        (
            "iptables_localhost_nodeports_accepted_packets_total",
            "Number of packets accepted on nodeports of loopback interface",
            counted.localhost_accepted,
        ),
    ] {
        writer.family(name, Kind::Counter, help, |samples| {
            if let Some(packets) = packets {
                samples.sample(&[], packets);
            }
        });
    }
}

/// Upstream has this one and the two that follow behind an alpha gate.
fn listener_failures(writer: &mut Writer<'_>, counted: &Counted) {
    writer.both(
        "nftables_localhost_nodeport_listener_creation_failures_total",
        Kind::Counter,
        "Number of localhost NodePort userspace proxy listener creation failures.",
        |samples, family, label| samples.sample(label, counted.listener_failures.get(family)),
    );
}

fn localhost_rejected(writer: &mut Writer<'_>, scrape: &Scrape<'_>) {
    let help = "Number of packets rejected on localhost NodePorts. UDP and SCTP are always rejected; TCP is rejected when the \
                localhost NodePort proxy is not running";
    let is_served = |family: &Family| scrape.families.contains(family);
    writer.family("nftables_localhost_nodeport_rejected_packets_total", Kind::Counter, help, |samples| {
        let counts = scrape.counted.localhost_rejected.iter();
        for ((family, protocol), packets) in counts.filter(|((family, _), _)| is_served(family)) {
            let (family, protocol) = (family.to_string(), protocol.to_string().to_uppercase());
            samples.sample(&[("ip_family", &family), ("protocol", &protocol)], packets);
        }
    });
}

fn localhost_listeners(writer: &mut Writer<'_>, scrape: &Scrape<'_>) {
    let count = |family: Family| {
        let is_of = |traffic: &&crate::traffic::Traffic| {
            traffic.is_of_localhost() && traffic.family == family.to_string()
        };
        scrape.traffic.iter().filter(is_of).count()
    };
    writer.both(
        "nftables_localhost_nodeport_listeners",
        Kind::Gauge,
        "Number of active localhost NodePort userspace proxy listeners.",
        |samples, family, label| samples.sample(label, count(family)),
    );
}

fn probes(writer: &mut Writer<'_>, asked: &Probes, probe: Probe, name: &str, help: &str) {
    writer.family(name, Kind::Counter, help, |samples| {
        for ((_, code), count) in asked.0.iter().filter(|((of, _), _)| *of == probe) {
            samples.sample(&[("code", &code.to_string())], count);
        }
    });
}

fn rules(writer: &mut Writer<'_>, metrics: &Metrics) {
    let help = "Number of iptables rules written by kube-proxy in last sync";
    writer.family("sync_proxy_rules_iptables_last", Kind::Gauge, help, |samples| {
        for ((family, table), count) in &metrics.rules {
            samples.sample(&[("ip_family", &family.to_string()), ("table", table)], count.written);
        }
    });
    let name = "sync_proxy_rules_iptables_partial_restore_failures_total";
    writer.failures(name, "Cumulative proxy iptables partial restore failures", metrics.partial_failures);
}

fn rules_in_all(writer: &mut Writer<'_>, metrics: &Metrics) {
    let help = "Total number of iptables rules owned by kube-proxy";
    writer.family("sync_proxy_rules_iptables_total", Kind::Gauge, help, |samples| {
        for ((family, table), count) in &metrics.rules {
            samples.sample(&[("ip_family", &family.to_string()), ("table", table)], count.total);
        }
    });
}

#[expect(clippy::cast_precision_loss, reason = "a moment is shown to the microsecond")]
fn moment(writer: &mut Writer<'_>, name: &str, help: &str, at: Option<Timestamp>) {
    let Some(at) = at else { return };
    let seconds = at.as_microsecond() as f64 / 1e6;
    writer.both(name, Kind::Gauge, help, |samples, _, label| samples.sample(label, seconds));
}

fn without_local(writer: &mut Writer<'_>, scrape: &Scrape<'_>) {
    let name = "sync_proxy_rules_no_local_endpoints_total";
    let help = "Number of services with a Local traffic policy and no endpoints";
    let families = scrape.families;
    let by_policy: [(&str, &ByFamily<usize>); 2] = [
        ("external", &scrape.metrics.gauges.without_local.external),
        ("internal", &scrape.metrics.gauges.without_local.internal),
    ];
    writer.family(name, Kind::Gauge, help, |samples| {
        for family in families {
            for (policy, counts) in by_policy {
                let labels = [("ip_family", &*family.to_string()), ("traffic_policy", policy)];
                samples.sample(&labels, counts.get(*family));
            }
        }
    });
}

/// Puts before each name and help what upstream puts there.
struct Writer<'a> {
    page: &'a mut Page,
    mode: Mode,
    families: &'a [Family],
}

impl Writer<'_> {
    fn family(&mut self, name: &str, kind: Kind, help: &str, write: impl FnOnce(&mut Samples<'_>)) {
        // Some metrics are those of some modes; all others every mode has.
        if !self.mode.has_metric(name) && registry::MODES.iter().any(|mode| mode.has_metric(name)) {
            return;
        }
        let (name, help) = (format!("kubeproxy_{name}"), format!("[ALPHA] {help}"));
        write(&mut self.page.family(&name, kind, &help));
    }

    /// A sample for each family that is served.
    fn both(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        write: impl Fn(&mut Samples<'_>, Family, super::text::Labels<'_>),
    ) {
        let families = self.families;
        self.family(name, kind, help, |samples| {
            for family in families {
                write(samples, *family, &[("ip_family", &family.to_string())]);
            }
        });
    }

    fn duration(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.both(name, Kind::Histogram, help, |samples, _, label| samples.histogram(label, histogram));
    }

    fn failures(&mut self, name: &str, help: &str, count: u64) {
        self.both(name, Kind::Counter, help, |samples, _, label| samples.sample(label, count));
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, Kind::Gauge, help, |samples| samples.sample(&[], value));
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help, |samples| samples.sample(&[], value));
    }
}
