//! The figures as tables, with the goal beside each.

use harness::page::goal_table;
use harness::{Goal, Page, Spread, table};

use crate::{Results, Storm};

pub(crate) fn of(results: &Results) -> Page {
    let Results { services, load_before, starts, changes, storms } = results;
    let storm = &storms[0];
    Page::new(format!(
        "{services} Services with four endpoints each, served over HTTP on loopback from the same cores; nftables; load average \
         before the run {load_before:.1}."
    ))
    .text(goal_table(&goals(results)))
    .text(format!(
        "The storm was written in {:.0} syncs: {:.0} changes in each on average. {:.0} MiB were resident after it.\n\
         {} starts, the median is shown; {} single changes.",
        storm.syncs,
        storm.in_each(),
        storm.rss,
        starts.len(),
        changes.len()
    ))
    .text(table(storms).columns(&[
        ("`minSyncPeriod`", &|storm| storm.min_sync_period.clone()),
        ("syncs of the storm", &|storm| format!("{:.0}", storm.syncs)),
        ("changes in each", &|storm| format!("{:.0}", storm.in_each())),
        ("the last one written after", &|storm| format!("{:.0} ms", storm.behind)),
        ("CPU of portway", &|storm| format!("{:.2} s", storm.cpu / 1e3)),
        ("of a core", &|storm| format!("{:.1} %", storm.cpu * 100.0 / (storm.lasted + storm.behind))),
    ]))
}

fn goals(Results { starts, changes, storms, .. }: &Results) -> [Goal; 4] {
    let start = Spread::of(starts.iter().map(|start| start.took / 1e3));
    let rss = Spread::of(starts.iter().map(|start| start.rss)).most;
    let peak = Spread::of(starts.iter().map(|start| start.rss_peak)).most;
    let change = Spread::of(changes.iter().copied());
    let Storm { behind, lasted, changes: stormed, .. } = storms[0];
    let storm =
        format!("{stormed} slices in {:.0} s: the kernel up to date within 1 s after the last", lasted / 1e3);
    [
        Goal::new(
            "process start → last rule in the kernel within 6 s",
            start.whole(2, " s"),
            start.median <= 6.0,
        ),
        Goal::new("at most 150 MiB resident", format!("{rss:.0} MiB, {peak:.0} at its peak"), rss <= 150.0),
        Goal::new(
            "one EndpointSlice → the kernel within 5 ms (p50), no minimum interval",
            format!("{:.2} ms; p99 {:.2} ms", change.median, change.p99),
            change.median <= 5.0,
        ),
        Goal::new(storm, format!("{behind:.0} ms"), behind <= 1_000.0),
    ]
}

impl Storm {
    fn in_each(&self) -> f64 {
        f64::from(self.changes) / self.syncs.max(1.0)
    }
}
