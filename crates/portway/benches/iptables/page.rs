//! The figures as Markdown, and what we set out to reach at 10,000 services on two cores.

use harness::{Goal, Page, median, number, table};

use crate::programs::Program;
use crate::{Change, HABIT_ROUNDS, Results, Size};

const SERVICES: u32 = 10_000;

pub(crate) fn of(results: &Results) -> Page {
    let machine = &results.machine;
    let version = results.sizes.first().map_or("unknown", |size| size.version.as_str());
    let mut page = Page::new(format!(
        "{}\nFour endpoints per service, IPv4 and IPv6 served, all in network namespaces of the benchmark's own.",
        machine.sentence(&format!(", iptables {version}, portway {}", machine.portway))
    ));
    let goals: Vec<Goal> =
        results.sizes.iter().filter(|size| size.services == SERVICES).flat_map(goals).collect();
    if !goals.is_empty() {
        page = page.goals("Goals, at 10,000 services", &goals);
    }
    page.section(
        "Cold sync: facts in memory → in force",
        cold(&results.sizes),
        "Median of the runs; RSS of portway after it and at most, and the most of the restore program. \
         The yardstick is upstream's habit: the same rules as one text in one restore; whoever takes longer than 60 s is stopped.",
    )
    .section(
        "One change: event → in force",
        changes(&results.sizes),
        format!(
            "Each change is followed by a bare restore of one rule into the same table, and in {HABIT_ROUNDS} rounds by upstream's \
             habit: a restore of the whole of `KUBE-SERVICES` and of the changed chains. CPU is the mean, ours and the program's. Settling \
             deletes, a second later and once for all that waits, the rules that lead to emptied chains. Ratios are medians of the rounds' own. \
             Of fewer than 100 rounds, p99 is the slowest."
        ),
    )
    .section(
        "Everything read back and compared, which happens from time to time",
        comparisons(&results.sizes),
        "",
    )
}

fn time(ms: f64) -> String {
    harness::time(ms * 1e3, 1, 1)
}

fn goals(size: &Size) -> Vec<Goal> {
    let (limit_s, change): (f64, fn(&Change) -> Goal) = match size.program {
        Program::Nft => (15.0, nft_change),
        Program::Legacy => (5.0, legacy_change),
    };
    let median = size.cold(|cold| cold.whole_ms).median;
    let wanted = format!("{}: cold sync within {limit_s:.0} s", size.program.name());
    let cold = Goal::new(wanted, time(median), median <= limit_s * 1e3);
    [cold].into_iter().chain(size.loaded.changes.iter().map(change)).collect()
}

fn nft_change(change: &Change) -> Goal {
    let median = change.spread(|round| round.ours_ms).median;
    let seen = format!("{}, {} of CPU", time(median), time(change.cpu_ms()));
    Goal::new(format!("iptables-nft: {} within 50 ms (p50)", change.name), seen, median <= 50.0)
}

fn legacy_change(change: &Change) -> Goal {
    let wanted = format!("iptables-legacy: {} within 1.3 × a bare restore of one rule", change.name);
    Goal::new(wanted, change.ratio().whole(2, " ×"), change.ratio().median <= 1.3)
}

fn cold(sizes: &[Size]) -> String {
    table(sizes).columns(&[
        ("program", &|size| size.program.name().into()),
        ("services", &|size| number(size.services)),
        ("wall", &|size| time(size.cold(|cold| cold.whole_ms).median)),
        ("spread", &|size| size.cold(|cold| cold.whole_ms).range(time)),
        ("of it in the program", &|size| time(size.cold(|cold| cold.program_ms).median)),
        ("yardstick", &|size| size.at_once.took_ms.map_or_else(|| "more than 60 s".into(), time)),
        ("RSS", &|size| {
            let (rss, peak) =
                (size.cold(|cold| cold.rss_mib).median, size.cold(|cold| cold.rss_peak_mib).most);
            format!("{rss:.0}, {peak:.0} MiB")
        }),
        ("of the program", &|size| format!("{:.0} MiB", size.cold(|cold| cold.program_peak_mib).most)),
        ("of the yardstick's", &|size| format!("{:.0} MiB", size.at_once.program_peak_mib)),
    ])
}

fn changes(sizes: &[Size]) -> String {
    let of_size = |size| move |change| (size, change);
    let rows: Vec<(&Size, &Change)> =
        sizes.iter().flat_map(|size| size.loaded.changes.iter().map(of_size(size))).collect();
    table(&rows).columns(&[
        ("program", &|(size, _)| size.program.name().into()),
        ("services", &|(size, _)| number(size.services)),
        ("change", &|(_, change)| change.name.clone()),
        ("rounds", &|(_, change)| change.rounds.len().to_string()),
        ("p50", &|(_, change)| time(change.spread(|round| round.ours_ms).median)),
        ("p99", &|(_, change)| time(change.spread(|round| round.ours_ms).most)),
        ("of it in the program", &|(_, change)| time(change.spread(|round| round.program_ms).median)),
        ("CPU", &|(_, change)| time(change.cpu_ms())),
        ("settling", &|(_, change)| settling(change.spread(|round| round.settle_ms).median)),
        ("bare restore", &|(_, change)| time(change.spread(|round| round.bare_ms).median)),
        ("ours ÷ bare", &|(_, change)| format!("{:.2}", change.ratio().median)),
        ("upstream's habit", &|(_, change)| time(habit(change, |habit, _| habit))),
        ("habit ÷ ours", &|(_, change)| format!("{:.1}", habit(change, |habit, ours| habit / ours))),
        ("of the program", &|(size, _)| format!("{:.0} MiB", size.loaded.program_peak_mib)),
    ])
}

/// The median of a figure of upstream's habit and ours, of the rounds that have both.
fn habit(change: &Change, figure: fn(f64, f64) -> f64) -> f64 {
    median(change.rounds.iter().filter_map(|round| Some(figure(round.habit_ms?, round.ours_ms))))
}

/// Where nothing waits there is nothing to tell.
fn settling(ms: f64) -> String {
    if ms < 0.1 { "–".into() } else { time(ms) }
}

fn comparisons(sizes: &[Size]) -> String {
    table(sizes).columns(&[
        ("program", &|size| size.program.name().into()),
        ("services", &|size| number(size.services)),
        ("wall", &|size| time(size.comparisons(|one| one.whole_ms).median)),
        ("spread", &|size| size.comparisons(|one| one.whole_ms).range(time)),
        ("of it in the program", &|size| time(size.comparisons(|one| one.program_ms).median)),
    ])
}
