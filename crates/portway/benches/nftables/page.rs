//! The figures as Markdown, and what we set out to reach.

use harness::{Goal, Page, Spread, number, table};

use crate::established::{self, Round};
use crate::traffic::{self, Traffic};
use crate::yardstick::{self, Yardstick};
use crate::{CHANGES, Cold, Kind, Results, Size, upstream};

const SERVICES: u32 = 45_000;
const YARDSTICK_SERVICES: u32 = 10_000;

pub(crate) fn of(results: &Results) -> Page {
    let machine = &results.machine;
    let versions = format!(", nft {}, portway {}", machine.nft, machine.portway);
    let mut page = Page::new(format!(
        "{}\nFour endpoints per service, all in network namespaces of the benchmark's own.",
        machine.sentence(&versions)
    ))
    .goals("Goals", &goals(results))
    .section("Cold sync: facts in memory → the kernel has all", cold(&results.sizes), cold_note(results))
    .section(
        format!("One change: event → the kernel's acknowledgement, {CHANGES} of each kind"),
        changes(results),
        "A change is in force when its transaction is acknowledged. \
         *Settle* is the later transaction that deletes what nothing leads to any more. \
         CPU is user and system time of one change, settling included.\n\
         A service that is added or removed is two events (Service and EndpointSlice) and one transaction.",
    );
    if !results.yardstick.is_empty() {
        page = page.section(
            "Yardstick: a chain and an anonymous map per service, loaded by `nft -f`",
            yardstick(&results.yardstick),
            format!(
                "One service added: median of {} runs of `nft -f`. Compared with five cold syncs of portway right before it. \
                 The rules are text in memory when the clock starts; no facts are turned into rules, and nothing is masqueraded, refused or dropped.",
                yardstick::ADDED
            ),
        );
    }
    page = page.section(
        "Connections: from a pod through the last service, and straight to its pods",
        traffic(&results.traffic),
        format!(
            "Medians of {} rounds of {} connects each way, in turn; in parentheses the least and the most of the rounds. \
             *Straight* passes the same node and the same rules, without meeting a service; \
             *no rules* is straight on a node whose kernel has none.\n\
             A connection in conn/s is connect, one line, close; client, servers and node share the cores.",
            traffic::ROUNDS,
            number(traffic::CONNECTS as u64)
        ),
    );
    if !results.established.is_empty() {
        page = page.section(
            "An open connection through a service, with and without the rule for stray replies",
            established(&results.established),
            format!(
                "Medians of {} rounds; of each turn in a round the quickest slice counts. Client and server take turns in one thread, so no wake-up hides the cost.",
                established::ROUNDS
            ),
        );
    }
    page.section("Beside upstream", upstream::beside(results), upstream::NOTE)
}

pub(crate) fn time(us: f64) -> String {
    harness::time(us, 2, 0)
}

fn time_ms(ms: f64) -> String {
    time(ms * 1e3)
}

/// All that this run can judge.
fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let largest = results.sizes.iter().find(|size| size.services == SERVICES);
    if let Some(size) = largest {
        let (median, idle) = (size.cold(Cold::wall_ms).median, size.cold(|cold| cold.waited_ms).median);
        goals.push(Goal::new(
            "cold sync of 45,000 services within 1.5 s",
            format!("{:.2} s, {:.2} of it without a core", median / 1e3, idle / 1e3),
            median <= 1_500.0,
        ));
        goals.extend(size.loaded.changes.iter().map(|change| {
            let wanted = format!("{} within 1 ms (p50) at 45,000", change.name);
            Goal::new(wanted, format!("{:.2} ms", change.whole.p50_us / 1e3), change.whole.p50_us <= 1_000.0)
        }));
    }
    let yardstick = results.yardstick.iter().find(|one| one.services == YARDSTICK_SERVICES);
    goals.extend(yardstick.and_then(Yardstick::times_slower).map(|times| {
        let wanted = "cold sync 50 times faster than the yardstick at 10,000";
        Goal::new(wanted, format!("{times:.0} times"), times >= 50.0)
    }));
    goals.extend(
        largest.map(|size| size.loaded.rss_mib).map(|mib| {
            Goal::new("at most 100 MiB resident at 45,000", format!("{mib:.0} MiB"), mib <= 100.0)
        }),
    );
    goals.extend(results.traffic.iter().map(|traffic| {
        let services = number(traffic.services);
        let wanted = format!("connect through a Service within 1.10 × straight at {services}");
        at_most(wanted, traffic.spread(traffic::Round::ratio), 1.10)
    }));
    if !results.established.is_empty() {
        goals.extend(ESTABLISHED.map(|(what, ratio)| {
            let wanted =
                format!("{what} of an open connection within 1.01 × that without the rule for stray replies");
            at_most(wanted, Spread::of(results.established.iter().map(ratio)), 1.01)
        }));
    }
    goals
}

type Ratio = fn(&Round) -> f64;
const ESTABLISHED: [(&str, Ratio); 2] = [("exchange", Round::exchange_ratio), ("64 KiB", Round::block_ratio)];

fn at_most(wanted: String, ratio: Spread, limit: f64) -> Goal {
    Goal::new(wanted, ratio.whole(3, " ×"), ratio.median <= limit)
}

fn cold(sizes: &[Size]) -> String {
    table(sizes).columns(&[
        ("services", &|size| number(size.services)),
        ("wall", &|size| time_ms(size.cold(Cold::wall_ms).median)),
        ("spread", &|size| size.cold(Cold::wall_ms).range(time_ms)),
        ("of it table", &|size| time_ms(size.cold(|cold| cold.model_ms).median)),
        ("of it kernel", &|size| time_ms(size.cold(|cold| cold.kernel_ms).median)),
        ("no core free", &|size| time_ms(size.cold(|cold| cold.waited_ms).median)),
        ("CPU user + system", &|size| {
            cpu(size.cold(|cold| cold.user_ms).median, size.cold(|cold| cold.system_ms).median)
        }),
        ("RSS", &|size| format!("{:.0} MiB", size.loaded.rss_mib)),
        ("RSS peak", &|size| format!("{:.0} MiB", size.loaded.rss_peak_mib)),
    ])
}

/// CPU time in programs and in the kernel, which the kernel counts in hundredths of a second.
fn cpu(user_ms: f64, system_ms: f64) -> String {
    format!("{:.2} + {:.2} s", user_ms / 1e3, system_ms / 1e3)
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
    let of_size = |size| move |kind| (size, kind);
    let mut rows: Vec<(&Size, &Kind)> =
        results.sizes.iter().flat_map(|size| size.loaded.changes.iter().map(of_size(size))).collect();
    let first = results.sizes.first().map_or(&[][..], |size| &size.loaded.changes);
    rows.sort_by_key(|(_, kind)| first.iter().position(|other| other.name == kind.name));
    table(&rows).columns(&[
        ("change", &|(_, kind)| kind.name.clone()),
        ("services", &|(size, _)| number(size.services)),
        ("p50", &|(_, kind)| time(kind.whole.p50_us)),
        ("p99", &|(_, kind)| time(kind.whole.p99_us)),
        ("of it table p50", &|(_, kind)| time(kind.model.p50_us)),
        ("settle p50", &|(_, kind)| settle(kind.settle.p50_us)),
        ("settle p99", &|(_, kind)| settle(kind.settle.p99_us)),
        ("CPU", &|(_, kind)| time(kind.cpu_us)),
    ])
}

/// What takes no microsecond found nothing to do.
fn settle(us: f64) -> String {
    if us < 1.0 { "–".into() } else { time(us) }
}

fn yardstick(rows: &[Yardstick]) -> String {
    let times = |times: Option<f64>| times.map_or_else(String::new, |times| format!("{times:.0} times"));
    let of = |one: &Yardstick, show: fn(&yardstick::Load) -> String| {
        one.cold.as_ref().map_or_else(String::new, show)
    };
    table(rows).columns(&[
        ("services", &|one| number(one.services)),
        ("cold", &|one| match &one.cold {
            Some(cold) => time_ms(cold.wall_ms),
            None => format!("over {} s", yardstick::LIMIT.as_secs()),
        }),
        ("CPU user + system", &|one| of(one, |cold| cpu(cold.user_ms, cold.system_ms))),
        ("RSS peak of `nft`", &|one| of(one, |cold| format!("{:.0} MiB", cold.rss_peak_mib))),
        ("portway is faster", &|one| times(one.times_slower())),
        ("… needs less CPU", &|one| times(one.times_the_cpu())),
        ("service added", &|one| one.added.map_or_else(String::new, |added| time(added.p50_us))),
    ])
}

fn traffic(rows: &[Traffic]) -> String {
    let us = |traffic: &Traffic, figure| format!("{:.1} µs", traffic.spread(figure).median);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "connections are counted")]
    let rate = |traffic: &Traffic, figure| number(traffic.spread(figure).median.round() as u64);
    table(rows).columns(&[
        ("services", &|traffic| number(traffic.services)),
        ("connect", &|traffic| us(traffic, |round| round.service_us)),
        ("straight", &|traffic| us(traffic, |round| round.straight_us)),
        ("no rules", &|traffic| us(traffic, |round| round.bare_us)),
        ("connect ÷ straight", &|traffic| traffic.spread(traffic::Round::ratio).whole(3, "")),
        ("conn/s", &|traffic| rate(traffic, |round| round.service_per_second)),
        ("straight conn/s", &|traffic| rate(traffic, |round| round.straight_per_second)),
        ("ratio", &|traffic| {
            traffic.spread(|round| round.service_per_second / round.straight_per_second).whole(2, "")
        }),
    ])
}

fn established(rounds: &[Round]) -> String {
    let spread = |figure: Ratio| Spread::of(rounds.iter().map(figure));
    let rows = [
        ("exchange of one byte", format!("{:.2} µs", spread(Round::exchange_us).median), ESTABLISHED[0].1),
        ("64 KiB from the server", format!("{:.1} Gbit/s", spread(Round::gigabits).median), ESTABLISHED[1].1),
    ];
    table(&rows).columns(&[
        ("", &|(what, ..)| (*what).to_owned()),
        ("without", &|(_, without, _)| without.clone()),
        ("time with ÷ without", &|(.., ratio)| spread(*ratio).whole(3, "")),
    ])
}
