//! The figures as Markdown: printed on the screen, and a section of `docs/benchmarks.md`.

use crate::Results;
use crate::pass::{Asked, ROUNDS, Row};
use crate::table::table;
use crate::tracker::STALE;

/// The whole section, without its heading.
pub(crate) fn render(results: &Results) -> String {
    let parts = [head(results), passes(&results.rows), note()];
    parts.iter().map(|part| format!("{}\n", part.trim_end())).collect::<Vec<_>>().join("\n")
}

fn head(Results { machine, tracker, .. }: &Results) -> String {
    format!(
        "Measured on {}: {} cores ({}), Linux {}, portway {}; load average before the run {:.1}{}.\n\
         {} flows of others, half of them TCP and half UDP, and {STALE} stale UDP flows, in a network namespace of the \
         benchmark's own; the machine's hash table has {} buckets and lets a namespace hold {} flows.",
        machine.date,
        machine.cores,
        machine.processor,
        machine.kernel,
        machine.portway,
        machine.load_before,
        if machine.is_calm() { "" } else { ": other work shared the cores, so read wall times with care" },
        number(tracker.foreign.into()),
        number(tracker.buckets.into()),
        number(tracker.limit.into()),
    )
}

fn passes(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let spread = row.spread();
        let asked = match row.asked {
            Asked::OneByOne => "kernel filters by destination, one listing each",
            Asked::AllAtOnce => "kernel filters by protocol, one listing",
            Asked::WithoutFilter => "kernel does not filter, one listing",
        };
        vec![
            asked.to_owned(),
            number(row.destinations.into()),
            if row.is_taken() { "yes".into() } else { String::new() },
            milliseconds(spread.median),
            format!("{} to {}", milliseconds(spread.least), milliseconds(spread.most)),
            number(row.sent),
            format!("{} KiB", number(row.rss_growth_kib)),
        ]
    };
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.asked as u8);
    let rows: Vec<_> = rows.into_iter().map(row).collect();
    table(&["asked", "stale destinations", "taken", "p50", "spread", "entries sent", "RSS growth"], &rows)
}

fn note() -> String {
    format!(
        "Medians of {ROUNDS} passes, of fewer where they take long; the stale flows are made anew before each, and each \
         pass forgets all of them and no other. \
         *Taken*: what portway does where the kernel filters; without that it always makes one listing for each family and \
         protocol.\n\
         *RSS growth*: the peak during a pass over what was in use before it, the most of all passes. \
         Entries are looked at as they come, and none is kept."
    )
}

fn milliseconds(us: f64) -> String {
    if us < 1e5 { format!("{:.1} ms", us / 1e3) } else { format!("{:.0} ms", us / 1e3) }
}

/// 45000 as 45,000.
fn number(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        n => format!("{},{:03}", number(n / 1_000), n % 1_000),
    }
}
