//! What upstream kube-proxy took in its nftables mode, measured once and written down here.
//!
//! Built from its master branch of August 2026 (1.37), with a real API server, on a machine of the same kind: two shared
//! cores, Linux 6.18, nft 1.0.6, four endpoints per service. Its times contain what ours do not: process start and the
//! list from the API server (cold), the watch (change).

use crate::page::{number, time};
use crate::results::Results;

/// One size.
pub(crate) struct Point {
    pub(crate) services: u32,
    /// Process start → last rule.
    pub(crate) cold_ms: f64,
    /// One endpoint, API server's answer → kernel, median; with its pace set from 1 s to 1 ms.
    pub(crate) change_ms: f64,
    /// CPU of such a change, the `nft` program included.
    pub(crate) cpu_ms: f64,
    /// Of the proxy, and the peak of the `nft` program that it starts, in MB.
    pub(crate) rss_mb: (f64, f64),
}

/// What was measured; of two runs the mean.
pub(crate) const POINTS: [Point; 4] = [
    Point { services: 100, cold_ms: 640.0, change_ms: 8.0, cpu_ms: 10.0, rss_mb: (63.0, 5.0) },
    Point { services: 1_000, cold_ms: 1_000.0, change_ms: 29.0, cpu_ms: 30.0, rss_mb: (75.0, 25.0) },
    Point { services: 10_000, cold_ms: 18_600.0, change_ms: 310.0, cpu_ms: 359.0, rss_mb: (206.0, 212.0) },
    Point {
        services: 30_000,
        cold_ms: 163_000.0,
        change_ms: 1_774.0,
        cpu_ms: 1_955.0,
        rss_mb: (357.0, 628.0),
    },
];

/// Both, size by size.
pub(crate) fn table(results: &Results) -> String {
    let ours = results.sizes.iter().map(|size| {
        let replaced = size.loaded.changes.first();
        let row = vec![
            "portway".into(),
            number(size.services),
            time(size.cold_ms().median * 1e3),
            replaced.map_or_else(String::new, |change| time(change.whole.p50_us)),
            replaced.map_or_else(String::new, |change| time(change.cpu_us)),
            format!("{:.0} MiB", size.loaded.rss_mib),
        ];
        (size.services, row)
    });
    let theirs = POINTS.iter().map(|point| {
        let row = vec![
            "upstream 1.37".into(),
            number(point.services),
            time(point.cold_ms * 1e3),
            time(point.change_ms * 1e3),
            time(point.cpu_ms * 1e3),
            format!("{:.0} + {:.0} MB", point.rss_mb.0, point.rss_mb.1),
        ];
        (point.services, row)
    });
    let mut rows: Vec<_> = theirs.chain(ours).collect();
    rows.sort_by_key(|(services, _)| *services);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    crate::table::table(&["", "services", "cold", "one endpoint p50", "CPU of it", "RSS"], &rows)
}

/// What the reader must know about these rows.
pub(crate) fn note() -> String {
    "Upstream's rows are not of this run: its master of August 2026 with a real API server on a machine of the same kind, loaded; \
     differences below a factor of two mean nothing. They contain process start, list and watch, which ours do not, \
     and its pace was set from its default of 1 s to 1 ms. RSS: the proxy + the peak of the `nft` program that it starts."
        .into()
}
