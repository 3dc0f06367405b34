//! The figures as Markdown: printed on the screen, and a section of `docs/benchmarks.md`.

use crate::changes::{Change, HABIT_ROUNDS, Round};
use crate::goals;
use crate::results::{Results, Size};
use crate::samples::Spread;
use crate::table::table;

/// The whole section, without its heading.
pub(crate) fn render(results: &Results) -> String {
    let mut parts = vec![machine(results)];
    let goals = goals::judge(results);
    if !goals.is_empty() {
        parts.push("**Goals, at 10,000 services**".into());
        parts.push(goals_table(goals));
    }
    parts.extend([
        "**Cold sync: facts in memory → in force**".into(),
        cold(results),
        "Median of the runs; RSS of portway after it and at most, and the most of the restore program. \
         The yardstick is upstream's habit: the same rules as one text in one restore; whoever takes longer than 60 s is stopped."
            .into(),
        "**One change: event → in force**".into(),
        changes(results),
        format!(
            "Each change is followed by a bare restore of one rule into the same table, and in {HABIT_ROUNDS} rounds by upstream's \
             habit: a restore of the whole of `KUBE-SERVICES` and of the changed chains. CPU is the mean, ours and the program's. Settling \
             deletes, a second later and once for all that waits, the rules that lead to emptied chains. Ratios are medians of the rounds' own. \
             Of fewer than 100 rounds, p99 is the slowest."
        ),
        "**Everything read back and compared, which happens from time to time**".into(),
        comparisons(results),
    ]);
    parts.iter().map(|part| format!("{}\n", part.trim_end())).collect::<Vec<_>>().join("\n")
}

/// 10000 as 10,000.
pub(crate) fn number(n: u32) -> String {
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) }
}

/// A time in the unit that suits it.
pub(crate) fn time(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1e3 => format!("{ms:.0} ms"),
        ms if ms < 1e4 => format!("{:.2} s", ms / 1e3),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let version = results.sizes.first().map_or("unknown", |size| size.version.as_str());
    format!(
        "Measured on {}: {} cores ({}), Linux {}, iptables {version}, portway {}; load average before the run {:.1}{}.\n\
         Four endpoints per service, IPv4 and IPv6 served, all in network namespaces of the benchmark's own.",
        machine.date,
        machine.cores,
        machine.processor,
        machine.kernel,
        machine.portway,
        machine.load_before,
        if machine.is_calm() { "" } else { ": other work shared the cores, so read wall times with care" }
    )
}

fn goals_table(goals: Vec<goals::Goal>) -> String {
    let verdict = |is_met| if is_met { "met" } else { "missed" };
    let rows = goals.into_iter().map(|goal| vec![goal.wanted, goal.measured, verdict(goal.is_met).into()]);
    table(&["goal", "measured", ""], &rows.collect::<Vec<_>>())
}

fn cold(results: &Results) -> String {
    let row = |size: &Size| {
        let of = |figure: fn(&crate::cold::Cold) -> f64| Spread::of(size.cold.iter().map(figure));
        let whole = of(|cold| cold.whole_ms);
        vec![
            size.program.name().into(),
            number(size.services),
            time(whole.median),
            format!("{} to {}", time(whole.least), time(whole.most)),
            time(of(|cold| cold.program_ms).median),
            size.at_once.took_ms.map_or_else(|| "more than 60 s".into(), time),
            format!("{:.0}, {:.0} MiB", of(|cold| cold.rss_mib).median, of(|cold| cold.rss_peak_mib).most),
            format!("{:.0} MiB", of(|cold| cold.program_peak_mib).most),
            format!("{:.0} MiB", size.at_once.program_peak_mib),
        ]
    };
    let head = [
        "program",
        "services",
        "wall",
        "spread",
        "of it in the program",
        "yardstick",
        "RSS",
        "of the program",
        "of the yardstick's",
    ];
    table(&head, &results.sizes.iter().map(row).collect::<Vec<_>>())
}

fn changes(results: &Results) -> String {
    let rows = results
        .sizes
        .iter()
        .flat_map(|size| size.loaded.changes.iter().map(move |change| change_row(size, change)));
    let head = [
        "program",
        "services",
        "change",
        "rounds",
        "p50",
        "p99",
        "of it in the program",
        "CPU",
        "settling",
        "bare restore",
        "ours ÷ bare",
        "upstream's habit",
        "habit ÷ ours",
        "of the program",
    ];
    table(&head, &rows.collect::<Vec<_>>())
}

fn change_row(size: &Size, change: &Change) -> Vec<String> {
    let of = |figure: fn(&Round) -> f64| Spread::of(change.rounds.iter().map(figure));
    let with_habit = || change.rounds.iter().filter_map(|round| Some((round.habit_ms?, round.ours_ms)));
    let ours = of(|round| round.ours_ms);
    vec![
        size.program.name().into(),
        number(size.services),
        change.name.clone(),
        change.rounds.len().to_string(),
        time(ours.median),
        time(ours.most),
        time(of(|round| round.program_ms).median),
        time(change.cpu_ms()),
        settling(of(|round| round.settle_ms).median),
        time(of(|round| round.bare_ms).median),
        format!("{:.2}", of(Round::ratio).median),
        time(Spread::of(with_habit().map(|(habit, _)| habit)).median),
        format!("{:.1}", Spread::of(with_habit().map(|(habit, ours)| habit / ours)).median),
        format!("{:.0} MiB", size.loaded.program_peak_mib),
    ]
}

/// Where nothing waits there is nothing to tell.
fn settling(ms: f64) -> String {
    if ms < 0.1 { "–".into() } else { time(ms) }
}

fn comparisons(results: &Results) -> String {
    let row = |size: &Size| {
        let all = &size.loaded.comparisons;
        let whole = Spread::of(all.iter().map(|one| one.whole_ms));
        vec![
            size.program.name().into(),
            number(size.services),
            time(whole.median),
            format!("{} to {}", time(whole.least), time(whole.most)),
            time(Spread::of(all.iter().map(|one| one.program_ms)).median),
        ]
    };
    let rows: Vec<_> = results.sizes.iter().map(row).collect();
    table(&["program", "services", "wall", "spread", "of it in the program"], &rows)
}
