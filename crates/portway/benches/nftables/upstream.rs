//! What upstream kube-proxy took in its nftables mode, measured once and written down here; of two runs the mean.
//!
//! Built from its master branch of August 2026 (1.37), with a real API server, on a machine of the same kind: two shared
//! cores, Linux 6.18, nft 1.0.6, four endpoints per service. Its times contain what ours do not: process start and the
//! list from the API server (cold), the watch (change).

use harness::{number, table};

use crate::page::time;
use crate::{Cold, Results};

/// Services; process start → last rule, in ms; one endpoint, API server's answer → kernel, in ms, median, with its pace set from 1 s to
/// 1 ms; CPU of such a change, the `nft` program included, in ms; RSS of the proxy, and the peak of the `nft` program, in MB.
pub(crate) const POINTS: [(u32, f64, f64, f64, u32, u32); 4] = [
    (100, 640.0, 8.0, 10.0, 63, 5),
    (1_000, 1_000.0, 29.0, 30.0, 75, 25),
    (10_000, 18_600.0, 310.0, 359.0, 206, 212),
    (30_000, 163_000.0, 1_774.0, 1_955.0, 357, 628),
];

pub(crate) const NOTE: &str = "Upstream's rows are not of this run: its master of August 2026 with a real API server on a machine of the same kind, loaded; \
     differences below a factor of two mean nothing. They contain process start, list and watch, which ours do not, \
     and its pace was set from its default of 1 s to 1 ms. RSS: the proxy + the peak of the `nft` program that it starts.";

/// Who, services, times in µs, memory.
type Row = (&'static str, u32, [f64; 3], String);

/// Both, size by size.
pub(crate) fn beside(results: &Results) -> String {
    let theirs = POINTS.map(|(services, cold_ms, change_ms, cpu_ms, proxy, nft)| {
        (
            "upstream 1.37",
            services,
            [cold_ms, change_ms, cpu_ms].map(|ms| ms * 1e3),
            format!("{proxy} + {nft} MB"),
        )
    });
    let ours = results.sizes.iter().map(|size| {
        let replaced = &size.loaded.changes[0];
        let times = [size.cold(Cold::wall_ms).median * 1e3, replaced.whole.p50_us, replaced.cpu_us];
        ("portway", size.services, times, format!("{:.0} MiB", size.loaded.rss_mib))
    });
    let mut rows: Vec<Row> = theirs.into_iter().chain(ours).collect();
    rows.sort_by_key(|(_, services, ..)| *services);
    table(&rows).columns(&[
        ("", &|(who, ..)| (*who).to_owned()),
        ("services", &|(_, services, ..)| number(*services)),
        ("cold", &|(_, _, times, _)| time(times[0])),
        ("one endpoint p50", &|(_, _, times, _)| time(times[1])),
        ("CPU of it", &|(_, _, times, _)| time(times[2])),
        ("RSS", &|(.., rss)| rss.clone()),
    ])
}
