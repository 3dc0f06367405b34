//! The figures as tables, with the goal beside each.

use std::fmt::Write as _;

use crate::{Results, Storm};

const START_S: f64 = 6.0;
const RSS_MIB: f64 = 150.0;
const CHANGE_MS: f64 = 5.0;
const BEHIND_MS: f64 = 1_000.0;

pub(crate) fn render(results: &Results) -> String {
    let Results { services, load_before, starts, changes, storms } = results;
    let storm = &storms[0];
    let took: Vec<f64> = starts.iter().map(|start| start.took / 1e3).collect();
    let start = quantile(&took, 50);
    let worst = |of: fn(&crate::Start) -> f64| starts.iter().map(of).fold(0.0, f64::max);
    let (rss, peak) = (worst(|start| start.rss), worst(|start| start.rss_peak));
    let change = |percent| quantile(changes, percent);
    let mut text = format!(
        "{services} Services with four endpoints each, served over HTTP on loopback from the same cores; nftables; load average \
         before the run {load_before:.1}.\n\n| goal | measured | |\n|---|---:|---:|\n"
    );
    let mut row = |goal: &str, measured: String, is_met: bool| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {goal} | {measured} | {} |", if is_met { "met" } else { "missed" });
    };
    row(
        "process start → last rule in the kernel within 6 s",
        format!("{start:.2} s ({:.2} to {:.2})", quantile(&took, 0), quantile(&took, 100)),
        start <= START_S,
    );
    row("at most 150 MiB resident", format!("{rss:.0} MiB, {peak:.0} at its peak"), rss <= RSS_MIB);
    row(
        "one EndpointSlice → the kernel within 5 ms (p50), no minimum interval",
        format!("{:.2} ms; p99 {:.2} ms", change(50), change(99)),
        change(50) <= CHANGE_MS,
    );
    row(
        &format!(
            "{} slices in {:.0} s: the kernel up to date within 1 s after the last",
            storm.changes,
            storm.lasted / 1e3
        ),
        format!("{:.0} ms", storm.behind),
        storm.behind <= BEHIND_MS,
    );
    let _ = writeln!(
        text,
        "\nThe storm was written in {:.0} syncs: {:.0} changes in each on average. {:.0} MiB were resident after it.\n\
         {} starts, the median is shown; {} single changes.",
        storm.syncs,
        f64::from(storm.changes) / storm.syncs.max(1.0),
        storm.rss,
        starts.len(),
        changes.len()
    );
    text += "\n| `minSyncPeriod` | syncs of the storm | changes in each | the last one written after | CPU of portway | of a core |\n";
    text += "|---|---:|---:|---:|---:|---:|\n";
    text.extend(storms.iter().map(row_of));
    text
}

/// What a shortest wait between writes costs, and what it brings.
fn row_of(storm: &Storm) -> String {
    let each = f64::from(storm.changes) / storm.syncs.max(1.0);
    let core = storm.cpu * 100.0 / (storm.lasted + storm.behind);
    format!(
        "| {} | {:.0} | {each:.0} | {:.0} ms | {:.2} s | {core:.1} % |\n",
        storm.min_sync_period,
        storm.syncs,
        storm.behind,
        storm.cpu / 1e3
    )
}

fn quantile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}
