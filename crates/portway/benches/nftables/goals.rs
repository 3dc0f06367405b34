//! What we set out to reach on two cores, and whether we did.

use crate::established;
use crate::results::Results;
use crate::samples::Spread;
use crate::traffic::{Round, Traffic};

const SERVICES: u32 = 45_000;
const COLD_MS: f64 = 1_500.0;
const CHANGE_US: f64 = 1_000.0;
const YARDSTICK_SERVICES: u32 = 10_000;
const TIMES_FASTER: f64 = 50.0;
const RSS_MIB: f64 = 100.0;
const CONNECT_RATIO: f64 = 1.10;
const ESTABLISHED_RATIO: f64 = 1.01;

/// One goal.
pub(crate) struct Goal {
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

/// All goals that this run can judge.
pub(crate) fn judge(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    goals.extend(cold(results));
    goals.extend(changes(results));
    goals.extend(yardstick(results));
    goals.extend(memory(results));
    goals.extend(connect(results));
    goals.extend(established(results));
    goals
}

fn cold(results: &Results) -> Option<Goal> {
    let size = results.size(SERVICES)?;
    let (median, waited) = (size.cold_ms().median, size.cold_median(|cold| cold.waited_ms));
    Some(Goal {
        wanted: "cold sync of 45,000 services within 1.5 s".into(),
        measured: format!("{:.2} s, {:.2} of it without a core", median / 1e3, waited / 1e3),
        is_met: median <= COLD_MS,
    })
}

fn changes(results: &Results) -> Vec<Goal> {
    let changes = results.size(SERVICES).map_or(&[][..], |size| &size.loaded.changes);
    let goal = |change: &crate::changes::Change| Goal {
        wanted: format!("{} within 1 ms (p50) at 45,000", change.name),
        measured: format!("{:.2} ms", change.whole.p50_us / 1e3),
        is_met: change.whole.p50_us <= CHANGE_US,
    };
    changes.iter().map(goal).collect()
}

fn yardstick(results: &Results) -> Option<Goal> {
    let times = results.yardstick.iter().find(|one| one.services == YARDSTICK_SERVICES)?.times_slower()?;
    Some(Goal {
        wanted: "cold sync 50 times faster than the yardstick at 10,000".into(),
        measured: format!("{times:.0} times"),
        is_met: times >= TIMES_FASTER,
    })
}

fn memory(results: &Results) -> Option<Goal> {
    let mib = results.size(SERVICES)?.loaded.rss_mib;
    Some(Goal {
        wanted: "at most 100 MiB resident at 45,000".into(),
        measured: format!("{mib:.0} MiB"),
        is_met: mib <= RSS_MIB,
    })
}

fn connect(results: &Results) -> Vec<Goal> {
    let goal = |traffic: &Traffic| {
        let Spread { median, least, most } = Spread::of(traffic.rounds.iter().map(Round::ratio));
        Goal {
            wanted: format!(
                "connect through a Service within 1.10 × straight at {}",
                crate::page::number(traffic.services)
            ),
            measured: format!("{median:.3} × ({least:.3} to {most:.3})"),
            is_met: median <= CONNECT_RATIO,
        }
    };
    results.traffic.iter().map(goal).collect()
}

fn established(results: &Results) -> Vec<Goal> {
    let rounds = &results.established;
    let goal = |what: &str, ratio: fn(&established::Round) -> f64| {
        let Spread { median, least, most } = Spread::of(rounds.iter().map(ratio));
        Goal {
            wanted: format!(
                "{what} of an open connection within 1.01 × that without the rule for stray replies"
            ),
            measured: format!("{median:.3} × ({least:.3} to {most:.3})"),
            is_met: median <= ESTABLISHED_RATIO,
        }
    };
    if rounds.is_empty() {
        return Vec::new();
    }
    vec![
        goal("exchange", established::Round::exchange_ratio),
        goal("64 KiB", established::Round::block_ratio),
    ]
}
