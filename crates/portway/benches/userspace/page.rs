//! The figures as Markdown: printed on the screen, and a section of `docs/benchmarks.md`.

use crate::goals;
use crate::load::Load;
use crate::results::{Measured, Results};
use crate::table::table;

/// The whole section, without its heading.
pub(crate) fn render(results: &Results) -> String {
    let mut parts = vec![head(results), goal_table(results)];
    parts.extend(Load::ALL.map(|load| load_table(results, load)));
    parts.push(idle_table(results));
    parts.push(note());
    parts.iter().map(|part| format!("{}\n", part.trim_end())).collect::<Vec<_>>().join("\n")
}

fn head(results: &Results) -> String {
    let machine = &results.machine;
    let peers: Vec<String> =
        results.peers.iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!(
        "Measured on {}: {} cores ({}), Linux {}; load average before the run {:.1}{}.\n\
         {}; two threads or workers each.",
        machine.date,
        machine.cores,
        machine.processor,
        machine.kernel,
        machine.load_before,
        if machine.is_calm() { "" } else { ": other work shared the cores, so read wall times with care" },
        peers.join(", "),
    )
}

fn goal_table(results: &Results) -> String {
    let rows: Vec<Vec<String>> = goals::judge(results)
        .into_iter()
        .map(|goal| vec![goal.wanted, goal.measured, if goal.is_met { "met" } else { "missed" }.into()])
        .collect();
    format!("**Goals**\n\n{}", table(&["goal", "measured", ""], &rows))
}

fn load_table(results: &Results, load: Load) -> String {
    let rows: Vec<Vec<String>> =
        results.peers.iter().filter_map(|(proxy, _)| row(results, load, proxy)).collect();
    let (rate, cost) = units(load);
    let head = ["proxy", rate, "spread", "p50", "p99", cost, "with the ends", "cores busy"];
    format!("**{}**\n\n{}", capital(load.name()), table(&head, &rows))
}

fn row(results: &Results, load: Load, proxy: &str) -> Option<Vec<String>> {
    let rate = results.spread(load.name(), proxy, Measured::rate)?;
    let cost = results.spread(load.name(), proxy, Measured::cpu_us)?.median;
    let whole = results.spread(load.name(), proxy, Measured::whole_us)?.median;
    let busy = results.spread(load.name(), proxy, |m| m.cpu_seconds / m.figures.seconds)?.median;
    let quantile = |of: fn(&crate::samples::Quantiles) -> f64| {
        let figure = |m: &Measured| m.figures.latency.as_ref().map_or(f64::NAN, of);
        let median = results.spread(load.name(), proxy, figure).map_or(f64::NAN, |spread| spread.median);
        if median.is_nan() { "–".to_owned() } else { format!("{median:.0} µs") }
    };
    Some(vec![
        proxy.to_owned(),
        show_rate(load, rate.median),
        format!("{} to {}", show_rate(load, rate.least), show_rate(load, rate.most)),
        quantile(|latency| latency.p50_us),
        quantile(|latency| latency.p99_us),
        show_cost(load, cost),
        show_cost(load, whole),
        format!("{busy:.2}"),
    ])
}

fn units(load: Load) -> (&'static str, &'static str) {
    match load {
        Load::Bulk(_) => ("GB/s", "CPU per GB"),
        Load::Connects => ("connections/s", "CPU each"),
        Load::RoundTrips => ("round trips/s", "CPU each"),
        Load::Datagrams => ("answered/s", "CPU each"),
    }
}

fn show_rate(load: Load, rate: f64) -> String {
    match load {
        Load::Bulk(_) => format!("{:.2}", rate / 1e9),
        _ => format!("{rate:.0}"),
    }
}

fn show_cost(load: Load, us: f64) -> String {
    if matches!(load, Load::Bulk(_)) { format!("{:.3} s", us * 1e3) } else { format!("{us:.1} µs") }
}

fn idle_table(results: &Results) -> String {
    let row = |idle: &crate::results::Idle| {
        vec![
            idle.proxy.clone(),
            idle.connections.to_string(),
            mebibytes(idle.before_kib),
            mebibytes(idle.after_kib),
            format!("{:.2} KiB", idle.kib_each()),
        ]
    };
    let rows: Vec<_> = results.idle.iter().map(row).collect();
    let head = ["proxy", "connections", "RSS before", "RSS with them", "each"];
    format!(
        "**Idle connections** (a process may have {} files open here)\n\n{}",
        results.files,
        table(&head, &rows)
    )
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn mebibytes(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

fn note() -> String {
    "Medians of the rounds, proxies in turn in each round. \
     Bulk data is written and read 256 KiB at a time. \
     A new connection is: connect, 64 bytes there, 64 bytes back, closed by the endpoint. \
     *CPU*: user and system time of the proxy's processes; *with the ends*: and that of clients and endpoints, so what it costs the machine, which \
     tells more than a rate where other work shares the cores. \
     Datagrams: 64 clients with 8 on their way each."
        .to_owned()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
