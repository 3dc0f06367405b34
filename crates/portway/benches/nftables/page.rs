//! The figures as Markdown: printed on the screen, and a section of `docs/benchmarks.md`.

use crate::changes::{CHANGES, Change};
use crate::results::{Results, Size};
use crate::samples::Spread;
use crate::table::table;
use crate::traffic::{CONNECTS, ROUNDS, Round};
use crate::upstream;
use crate::yardstick::{ADDED, LIMIT, Yardstick};
use crate::{established, goals};

/// The whole section, without its heading.
pub(crate) fn render(results: &Results) -> String {
    let mut parts = vec![
        machine(results),
        "**Goals**".into(),
        goals_table(results),
        "**Cold sync: facts in memory → the kernel has all**".into(),
        cold(results),
        cold_note(results),
        format!("**One change: event → the kernel's acknowledgement, {CHANGES} of each kind**"),
        changes(results),
        changes_note(),
    ];
    if !results.yardstick.is_empty() {
        parts.push("**Yardstick: a chain and an anonymous map per service, loaded by `nft -f`**".into());
        parts.push(yardstick(results));
        parts.push(format!("One service added: median of {ADDED} runs of `nft -f`. {}", yardstick_note()));
    }
    parts.push("**Connections: from a pod through the last service, and straight to its pods**".into());
    parts.push(traffic(results));
    parts.push(traffic_note());
    if !results.established.is_empty() {
        parts.push(
            "**An open connection through a service, with and without the rule for stray replies**".into(),
        );
        parts.push(established(results));
        parts.push(established_note());
    }
    parts.push("**Beside upstream**".into());
    parts.push(upstream::table(results));
    parts.push(upstream::note());
    parts.iter().map(|part| format!("{}\n", part.trim_end())).collect::<Vec<_>>().join("\n")
}

/// 45000 as 45,000.
pub(crate) fn number(n: u32) -> String {
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) }
}

/// A time in the unit that suits it.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e4 => format!("{:.2} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us if us < 1e7 => format!("{:.2} s", us / 1e6),
        us => format!("{:.0} s", us / 1e6),
    }
}

/// CPU time in programs and in the kernel, which the kernel counts in hundredths of a second.
fn cpu(user_ms: f64, system_ms: f64) -> String {
    format!("{:.2} + {:.2} s", user_ms / 1e3, system_ms / 1e3)
}

/// What takes no microsecond found nothing to do.
fn settle(us: f64) -> String {
    if us < 1.0 { "–".into() } else { time(us) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, and connections are counted"
)]
fn whole_number(figure: f64) -> String {
    number(figure.round() as u32)
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "Measured on {}: {} cores ({}), Linux {}, nft {}, portway {}; load average before the run {:.1}{}.\n\
         Four endpoints per service, all in network namespaces of the benchmark's own.",
        machine.date,
        machine.cores,
        machine.processor,
        machine.kernel,
        machine.nft,
        machine.portway,
        machine.load_before,
        if machine.is_calm() { "" } else { ": other work shared the cores, so read wall times with care" }
    )
}

fn goals_table(results: &Results) -> String {
    let verdict = |is_met| if is_met { "met" } else { "not met" };
    let row = |goal: goals::Goal| vec![goal.wanted, goal.measured, verdict(goal.is_met).into()];
    let rows: Vec<_> = goals::judge(results).into_iter().map(row).collect();
    table(&["goal", "measured", ""], &rows)
}

fn cold(results: &Results) -> String {
    let row = |size: &Size| {
        let Spread { median, least, most } = size.cold_ms();
        vec![
            number(size.services),
            time(median * 1e3),
            format!("{} to {}", time(least * 1e3), time(most * 1e3)),
            time(size.cold_median(|cold| cold.model_ms) * 1e3),
            time(size.cold_median(|cold| cold.kernel_ms) * 1e3),
            time(size.cold_median(|cold| cold.waited_ms) * 1e3),
            cpu(size.cold_median(|cold| cold.user_ms), size.cold_median(|cold| cold.system_ms)),
            format!("{:.0} MiB", size.loaded.rss_mib),
            format!("{:.0} MiB", size.loaded.rss_peak_mib),
        ]
    };
    let rows: Vec<_> = results.sizes.iter().map(row).collect();
    table(
        &[
            "services",
            "wall",
            "spread",
            "of it table",
            "of it kernel",
            "no core free",
            "CPU user + system",
            "RSS",
            "RSS peak",
        ],
        &rows,
    )
}

fn cold_note(results: &Results) -> String {
    let runs = results.sizes.first().map_or(0, |size| size.cold.len());
    format!(
        "Medians of {runs} runs, sizes in turn, each in a fresh process. \
         *Table*: Service and EndpointSlice facts to the forwarding table. \
         *Kernel*: forwarding table to the kernel's last acknowledgement. \
         *No core free*: how long it waited because others had all cores.\n\
         RSS is that of the whole process after the cold sync: facts, table and what is known of the kernel."
    )
}

fn changes(results: &Results) -> String {
    let row = |(size, change): (&Size, &Change)| {
        vec![
            change.name.clone(),
            number(size.services),
            time(change.whole.p50_us),
            time(change.whole.p99_us),
            time(change.model.p50_us),
            settle(change.settle.p50_us),
            settle(change.settle.p99_us),
            time(change.cpu_us),
        ]
    };
    let kinds = results.sizes.first().map_or(0, |size| size.loaded.changes.len());
    let by_kind = (0..kinds).flat_map(|kind| {
        results.sizes.iter().filter_map(move |size| Some((size, size.loaded.changes.get(kind)?)))
    });
    let rows: Vec<_> = by_kind.map(row).collect();
    table(&["change", "services", "p50", "p99", "of it table p50", "settle p50", "settle p99", "CPU"], &rows)
}

fn changes_note() -> String {
    "A change is in force when its transaction is acknowledged. \
     *Settle* is the later transaction that deletes what nothing leads to any more. \
     CPU is user and system time of one change, settling included.\n\
     A service that is added or removed is two events (Service and EndpointSlice) and one transaction."
        .into()
}

fn yardstick(results: &Results) -> String {
    let row = |yardstick: &Yardstick| {
        let cold = yardstick.cold.as_ref();
        let times = |times: Option<f64>| times.map_or_else(String::new, |times| format!("{times:.0} times"));
        vec![
            number(yardstick.services),
            cold.map_or_else(|| format!("over {} s", LIMIT.as_secs()), |cold| time(cold.wall_ms * 1e3)),
            cold.map_or_else(String::new, |cold| cpu(cold.user_ms, cold.system_ms)),
            cold.map_or_else(String::new, |cold| format!("{:.0} MiB", cold.rss_peak_mib)),
            times(yardstick.times_slower()),
            times(yardstick.times_the_cpu()),
            yardstick.added.map_or_else(String::new, |added| time(added.p50_us)),
        ]
    };
    let rows: Vec<_> = results.yardstick.iter().map(row).collect();
    table(
        &[
            "services",
            "cold",
            "CPU user + system",
            "RSS peak of `nft`",
            "portway is faster",
            "… needs less CPU",
            "service added",
        ],
        &rows,
    )
}

fn yardstick_note() -> String {
    "Compared with five cold syncs of portway right before it. The rules are text in memory when the clock starts; no facts are turned into rules, and nothing is masqueraded, refused or dropped.".into()
}

fn traffic(results: &Results) -> String {
    let mut rows = Vec::new();
    for traffic in &results.traffic {
        let spread = |figure: fn(&Round) -> f64| Spread::of(traffic.rounds.iter().map(figure));
        let us = |figure| format!("{:.1} µs", spread(figure).median);
        let rate = |figure| whole_number(spread(figure).median);
        let ratio = spread(Round::ratio);
        let rates = spread(|round| round.service_per_second / round.straight_per_second);
        rows.push(vec![
            number(traffic.services),
            us(|round| round.service_us),
            us(|round| round.straight_us),
            us(|round| round.bare_us),
            format!("{:.3} ({:.3} to {:.3})", ratio.median, ratio.least, ratio.most),
            rate(|round| round.service_per_second),
            rate(|round| round.straight_per_second),
            format!("{:.2} ({:.2} to {:.2})", rates.median, rates.least, rates.most),
        ]);
    }
    let head = [
        "services",
        "connect",
        "straight",
        "no rules",
        "connect ÷ straight",
        "conn/s",
        "straight conn/s",
        "ratio",
    ];
    table(&head, &rows)
}

fn traffic_note() -> String {
    format!(
        "Medians of {ROUNDS} rounds of {} connects each way, in turn; in parentheses the least and the most of the rounds. \
         *Straight* passes the same node and the same rules, without meeting a service; \
         *no rules* is straight on a node whose kernel has none.\n\
         A connection in conn/s is connect, one line, close; client, servers and node share the cores.",
        number(u32::try_from(CONNECTS).unwrap_or(u32::MAX))
    )
}

fn established(results: &Results) -> String {
    let spread = |figure: fn(&established::Round) -> f64| Spread::of(results.established.iter().map(figure));
    let ratio = |figure| {
        let Spread { median, least, most } = spread(figure);
        format!("{median:.3} ({least:.3} to {most:.3})")
    };
    let rows = [
        vec![
            "exchange of one byte".to_owned(),
            format!("{:.2} µs", spread(established::Round::exchange_us).median),
            ratio(established::Round::exchange_ratio),
        ],
        vec![
            "64 KiB from the server".to_owned(),
            format!("{:.1} Gbit/s", spread(established::Round::gigabits).median),
            ratio(established::Round::block_ratio),
        ],
    ];
    table(&["", "without", "time with ÷ without"], &rows)
}

fn established_note() -> String {
    format!(
        "Medians of {} rounds; of each turn in a round the quickest slice counts. Client and server take turns in one thread, so no wake-up hides the cost.",
        established::ROUNDS
    )
}
