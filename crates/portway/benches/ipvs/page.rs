//! The figures as Markdown: printed on the screen, and a section of `docs/benchmarks.md`.

use crate::changes::{Change, ROUNDS, Round};
use crate::cold::Cold;
use crate::door::Seen;
use crate::goals::{self, ratios};
use crate::programs::{OF_THE_GOAL, Run};
use crate::results::{Results, Size};
use crate::samples::Spread;
use crate::table::table;

/// The whole section, without its heading.
pub(crate) fn render(results: &Results) -> String {
    let parts = [
        machine(results),
        "**Goals**".into(),
        goals_table(results),
        "**Cold load: facts in memory → in force**".into(),
        cold(results),
        "Medians of the runs. CPU is that of portway, user + system, and of the iptables programs that it starts. RSS is that of the whole \
         process afterwards, facts included, and at most."
            .into(),
        "**What a cold load is made of**".into(),
        doors(results),
        "Requests of ours, and how long each door was in use. *Rules* are runs of `iptables-restore` and `iptables-save`.".into(),
        "**The yardstick: the same state, loaded by programs from text**".into(),
        programs(results),
        "*Portway* is its whole cold load over that of the programs so far, each pair in turn. The goal speaks of the first two. \
         Making the texts is not counted."
            .into(),
        "**One change: event → in force**".into(),
        changes(results),
        format!(
            "Medians of {ROUNDS} changes, the sizes in turn in one process. Requests are to virtual servers + sets + addresses. Datagrams and \
             bytes are those of both ways, as the kernel counts them (`nlmon`), in changes apart. *Settling* removes, seconds later, \
             endpoints that no connection holds any more: a listing of one virtual server and one request."
        ),
        "**Growth of one change**".into(),
        growth(results),
        "**What of it is the kernel's: one address, put on the interface or taken off by one request**".into(),
        floors(results),
        "**Everything read back and compared, which happens from time to time**".into(),
        comparisons(results),
    ];
    parts.iter().map(|part| format!("{}\n", part.trim_end())).collect::<Vec<_>>().join("\n")
}

/// 10000 as 10,000.
pub(crate) fn number(n: u64) -> String {
    match n {
        n if n < 1_000 => n.to_string(),
        n if n < 1_000_000 => format!("{},{:03}", n / 1_000, n % 1_000),
        n => format!("{},{:03},{:03}", n / 1_000_000, n / 1_000 % 1_000, n % 1_000),
    }
}

/// A time in the unit that suits it.
fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1e3),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1e3 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1e3),
    }
}

/// The same of microseconds; where nothing happened there is nothing to tell.
fn us(us: f64) -> String {
    if us < 1.0 { "–".into() } else { time(us / 1e3) }
}

#[expect(clippy::cast_precision_loss, reason = "a number of bytes, rounded anyway")]
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 10_000 => format!("{} B", number(bytes)),
        bytes if bytes < 1 << 20 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        bytes => format!("{:.1} MiB", bytes as f64 / 1024.0 / 1024.0),
    }
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "Measured on {}: a VM (Linux {}, 2 cores, software emulation, which computes about 20 times slower) on {} cores ({}); {}, portway {}; \
         load average of the machine before the run {:.1}{}.\n\
         So times are for comparing with each other, on this page and in this section alone.\n\
         Four endpoints per service, IPv4 and IPv6 served, all in network namespaces of the benchmark's own.",
        machine.date,
        results.kernel,
        machine.cores,
        machine.processor,
        results.versions,
        machine.portway,
        machine.load_before,
        if machine.is_calm() { "" } else { ": other work shared the cores" }
    )
}

fn goals_table(results: &Results) -> String {
    let verdict = |is_met| if is_met { "met" } else { "missed" };
    let goals = goals::judge(results).into_iter();
    let rows = goals.map(|goal| vec![goal.wanted, goal.measured, verdict(goal.is_met).into()]);
    table(&["goal", "measured", ""], &rows.collect::<Vec<_>>())
}

fn cold(results: &Results) -> String {
    let row = |one: &Size| {
        let of = |figure: fn(&Cold) -> f64| Spread::of(one.cold.iter().map(figure));
        let whole = of(|cold| cold.work.whole_ms);
        vec![
            number(one.services.into()),
            time(whole.median),
            format!("{} to {}", time(whole.least), time(whole.most)),
            format!("{} + {}", time(of(|cold| cold.user_ms).median), time(of(|cold| cold.system_ms).median)),
            time(of(|cold| cold.programs_ms).median),
            number(one.counted.work.messages()),
            number(one.counted.traffic.datagrams),
            size(one.counted.traffic.bytes),
            format!("{:.0}, {:.0} MiB", of(|cold| cold.rss_mib).median, of(|cold| cold.rss_peak_mib).most),
        ]
    };
    let head =
        ["services", "wall", "spread", "CPU", "CPU of programs", "requests", "datagrams", "bytes", "RSS"];
    table(&head, &results.sizes.iter().map(row).collect::<Vec<_>>())
}

fn doors(results: &Results) -> String {
    let row = |one: &Size| {
        let work = one.counted.work;
        let door = |of: fn(&Cold) -> Seen, seen: Seen| {
            let ms = Spread::of(one.cold.iter().map(|cold| of(cold).ms)).median;
            format!("{} + {}, {}", number(seen.writes), number(seen.listings), time(ms))
        };
        vec![
            number(one.services.into()),
            time(Spread::of(one.cold.iter().map(|cold| cold.work.table_ms)).median),
            door(|cold| cold.work.servers, work.servers),
            door(|cold| cold.work.sets, work.sets),
            door(|cold| cold.work.addresses, work.addresses),
            door(|cold| cold.work.rules, work.rules),
        ]
    };
    let head = ["services", "table", "virtual servers: writes + listings", "sets", "addresses", "rules"];
    table(&head, &results.sizes.iter().map(row).collect::<Vec<_>>())
}

fn programs(results: &Results) -> String {
    let rows = results.sizes.iter().flat_map(|one| {
        one.programs_counted.iter().enumerate().map(move |(at, run)| program_row(one, at, run))
    });
    let head = [
        "program",
        "services",
        "lines",
        "wall",
        "CPU",
        "datagrams",
        "bytes",
        "portway ÷ programs so far",
        "the same of CPU",
    ];
    table(&head, &rows.collect::<Vec<_>>())
}

fn program_row(one: &Size, at: usize, run: &Run) -> Vec<String> {
    let of = |figure: fn(&Run) -> f64| {
        Spread::of(one.programs.iter().filter_map(|runs| runs.get(at)).map(figure)).median
    };
    let traffic = run.traffic.unwrap_or_default();
    let so_far =
        |ratio: Spread| if at + 1 < OF_THE_GOAL { "–".into() } else { format!("{:.2}", ratio.median) };
    vec![
        format!("`{}`", run.program),
        number(one.services.into()),
        number(u64::try_from(run.lines).unwrap_or(u64::MAX)),
        time(of(|run| run.ms)),
        time(of(|run| run.cpu_ms)),
        number(traffic.datagrams),
        size(traffic.bytes),
        so_far(one.ratio(at + 1)),
        so_far(one.cpu_ratio(at + 1)),
    ]
}

fn changes(results: &Results) -> String {
    let head = [
        "change",
        "services",
        "p50",
        "of it table",
        "servers",
        "sets",
        "addresses",
        "CPU",
        "CPU of settling",
        "requests",
        "datagrams",
        "bytes",
        "listings",
        "restores",
    ];
    table(&head, &results.loaded.changes.iter().map(change_row).collect::<Vec<_>>())
}

fn change_row(change: &Change) -> Vec<String> {
    let of = |figure: fn(&Round) -> f64| Spread::of(change.rounds.iter().map(figure)).median;
    let mut row = vec![
        change.name.clone(),
        number(change.services.into()),
        us(of(|round| round.whole_us)),
        us(of(|round| round.table_us)),
        us(of(|round| round.servers_us)),
        us(of(|round| round.sets_us)),
        us(of(|round| round.addresses_us)),
        us(of(|round| round.cpu_us)),
        us(of(|round| round.settle_cpu_us)),
    ];
    if let Some(counted) = change.most() {
        let (work, traffic) = counted.change;
        row.extend([
            format!("{} + {} + {}", work.servers.writes, work.sets.writes, work.addresses.writes),
            number(traffic.datagrams),
            size(traffic.bytes),
            number(work.listings()),
            number(work.rules.writes),
        ]);
    }
    row
}

fn growth(results: &Results) -> String {
    let loaded = &results.loaded;
    let ends = loaded.names().into_iter().filter_map(|name| loaded.ends(name));
    let rows = ends.map(|(least, most)| {
        let [messages, bytes, cpu] = ratios(least, most);
        let door = |of: fn(&Round) -> f64| {
            let of = |change: &Change| Spread::of(change.rounds.iter().map(of)).median;
            let (before, after) = (of(least), of(most));
            if before > 0.0 { format!("{:.2} ×", after / before) } else { "–".into() }
        };
        vec![
            least.name.clone(),
            format!("{messages:.2} ×"),
            format!("{bytes:.2} ×"),
            format!("{cpu:.2} ×"),
            door(|round| round.whole_us),
            door(|round| round.table_us),
            door(|round| round.servers_us),
            door(|round| round.sets_us),
            door(|round| round.addresses_us),
        ]
    });
    let head = ["change", "requests", "bytes", "CPU", "wall", "of it table", "servers", "sets", "addresses"];
    table(&head, &rows.collect::<Vec<_>>())
}

fn floors(results: &Results) -> String {
    let loaded = &results.loaded;
    let rows = loaded.names().into_iter().filter_map(|name| {
        let ((least, most), (floor_least, floor_most)) = (loaded.ends(name)?, loaded.floor(name)?);
        let (cpu_least, cpu_most) = (least.cpu_us().median, most.cpu_us().median);
        Some(vec![
            name.to_owned(),
            format!("{} → {}", us(cpu_least), us(cpu_most)),
            format!("{} → {}", us(floor_least), us(floor_most)),
            format!("{:.2} ×", floor_most / floor_least),
            format!("{:.2} ×", (cpu_most - floor_most) / (cpu_least - floor_least)),
        ])
    });
    let head = ["change", "CPU", "of it the bare address", "which grows", "the rest grows"];
    table(&head, &rows.collect::<Vec<_>>())
}

fn comparisons(results: &Results) -> String {
    let row = |(services, work): &(u32, crate::proxy::Work)| {
        vec![
            number((*services).into()),
            time(work.whole_ms),
            number(work.servers.listings),
            number(work.sets.listings),
            number(work.addresses.listings),
            number(work.rules.listings),
        ]
    };
    let head = ["services", "wall", "listings of servers", "of sets", "of links and addresses", "of rules"];
    table(&head, &results.loaded.comparisons.iter().map(row).collect::<Vec<_>>())
}
