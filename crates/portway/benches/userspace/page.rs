//! The figures as Markdown, and what we set out to reach.

use harness::{Goal, Page, Spread, table};

use crate::endpoints::BULK;
use crate::load::{LOADS, Load};
use crate::proxy::{HAPROXY, HAPROXY_SPLICE, NGINX, PORTWAY};
use crate::{Idle, Measured, Results};

const IDLE_KIB: f64 = 12.0;

pub(crate) fn of(results: &Results) -> Page {
    let peers: Vec<String> =
        results.peers.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let head = results.machine.sentence("");
    let page = Page::new(format!("{head}\n{}; two threads or workers each.", peers.join(", ")));
    let page = page.goals("Goals", &goals(results));
    let page = LOADS.iter().fold(page, |page, load| {
        let (first, rest) = load.name.split_at(1);
        page.section(format!("{}{rest}", first.to_uppercase()), load_table(results, load), "")
    });
    page.text(format!("**Idle connections** (a process may have {} files open here)", results.files))
        .text(idle_table(&results.idle))
        .text(
            "Medians of the rounds, proxies in turn in each round. \
             Bulk data is written and read 256 KiB at a time. \
             A new connection is: connect, 64 bytes there, 64 bytes back, closed by the endpoint. \
             *CPU*: user and system time of the proxy's processes; *with the ends*: and that of clients and endpoints, so what it costs the machine, which \
             tells more than a rate where other work shares the cores. \
             Datagrams: 64 clients with 8 on their way each.",
        )
}

type Figure = fn(&Measured) -> f64;
const HAPROXIES: &[&str] = &[HAPROXY, HAPROXY_SPLICE];
/// Which load, which figure, whether it is to be at least or at most that of the better of these peers.
const GOALS: [(usize, &str, Figure, char, &[&str]); 8] = [
    (0, "throughput", Measured::rate, '≥', HAPROXIES),
    (1, "throughput", Measured::rate, '≥', HAPROXIES),
    (2, "rate", Measured::rate, '≥', HAPROXIES),
    (3, "p50", Measured::p50_us, '≤', HAPROXIES),
    (3, "p99", Measured::p99_us, '≤', HAPROXIES),
    (0, "CPU for each byte", Measured::cpu_us, '≤', HAPROXIES),
    (1, "CPU for each byte", Measured::cpu_us, '≤', HAPROXIES),
    (4, "rate", Measured::rate, '≥', &[NGINX]),
];

fn goals(results: &Results) -> Vec<Goal> {
    let goals = GOALS.iter().filter_map(|(load, what, figure, sign, peers)| {
        let load = LOADS[*load].name;
        let median = |proxy: &str| Some(results.spread(load, proxy, figure)?.median);
        let (ours, theirs) = (median(PORTWAY)?, peers.iter().filter_map(|peer| median(peer)));
        let (best, is_met): (f64, fn(&f64, &f64) -> bool) = match sign {
            '≥' => (theirs.fold(f64::MIN, f64::max), f64::ge),
            _ => (theirs.fold(f64::MAX, f64::min), f64::le),
        };
        let goal = format!("{load}: {what} {sign} {}'s", peers[0]);
        Some(Goal::new(goal, format!("{:.2} ×", ours / best), is_met(&ours, &best)))
    });
    let idle = results.idle.iter().find(|idle| idle.proxy == PORTWAY).map(|idle| {
        let goal = format!("at most {IDLE_KIB:.0} KiB for an idle connection");
        Goal::new(goal, format!("{:.2} KiB", idle.kib_each()), idle.kib_each() <= IDLE_KIB)
    });
    goals.chain(idle).collect()
}

fn load_table(results: &Results, load: &Load) -> String {
    let of = |proxy: &str, figure: Figure| results.spread(load.name, proxy, figure);
    let rows: Vec<&str> = results
        .peers
        .iter()
        .map(|(proxy, _)| &**proxy)
        .filter(|proxy| of(proxy, Measured::rate).is_some())
        .collect();
    let spread = |proxy: &str, figure: Figure| of(proxy, figure).expect("it was under this load");
    let is_bulk = load.port == BULK;
    let rate = |rate: f64| if is_bulk { format!("{:.2}", rate / 1e9) } else { format!("{rate:.0}") };
    let cost = |Spread { median: us, .. }| {
        if is_bulk { format!("{:.3} s", us * 1e3) } else { format!("{us:.1} µs") }
    };
    let latency = |Spread { median: us, .. }| if us.is_nan() { "–".into() } else { format!("{us:.0} µs") };
    table(&rows).columns(&[
        ("proxy", &|proxy| (*proxy).to_owned()),
        (load.unit, &|proxy| rate(spread(proxy, Measured::rate).median)),
        ("spread", &|proxy| spread(proxy, Measured::rate).range(rate)),
        ("p50", &|proxy| latency(spread(proxy, Measured::p50_us))),
        ("p99", &|proxy| latency(spread(proxy, Measured::p99_us))),
        (if is_bulk { "CPU per GB" } else { "CPU each" }, &|proxy| cost(spread(proxy, Measured::cpu_us))),
        ("with the ends", &|proxy| cost(spread(proxy, Measured::whole_us))),
        ("cores busy", &|proxy| {
            format!("{:.2}", spread(proxy, |one| one.cpu_seconds / one.figures.seconds).median)
        }),
    ])
}

fn idle_table(idle: &[Idle]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let mebibytes = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    table(idle).columns(&[
        ("proxy", &|idle| idle.proxy.clone()),
        ("connections", &|idle| idle.connections.to_string()),
        ("RSS before", &|idle| mebibytes(idle.before_kib)),
        ("RSS with them", &|idle| mebibytes(idle.after_kib)),
        ("each", &|idle| format!("{:.2} KiB", idle.kib_each())),
    ])
}
