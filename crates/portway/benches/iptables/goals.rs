//! What we set out to reach at 10,000 services on two cores, and whether we did.

use crate::changes::{Change, Round};
use crate::page::time;
use crate::results::{Program, Results, Size};
use crate::samples::Spread;

const SERVICES: u32 = 10_000;
const NFT_COLD_MS: f64 = 15_000.0;
const NFT_CHANGE_MS: f64 = 50.0;
const LEGACY_COLD_MS: f64 = 5_000.0;
const LEGACY_CHANGE_RATIO: f64 = 1.3;

/// One goal.
pub(crate) struct Goal {
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

/// All goals that this run can judge.
pub(crate) fn judge(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    if let Some(size) = results.size(Program::Nft, SERVICES) {
        goals.push(cold(size, NFT_COLD_MS));
        goals.extend(size.loaded.changes.iter().map(nft_change));
    }
    if let Some(size) = results.size(Program::Legacy, SERVICES) {
        goals.push(cold(size, LEGACY_COLD_MS));
        goals.extend(size.loaded.changes.iter().map(legacy_change));
    }
    goals
}

fn cold(size: &Size, limit_ms: f64) -> Goal {
    let median = Spread::of(size.cold.iter().map(|cold| cold.whole_ms)).median;
    Goal {
        wanted: format!("{}: cold sync within {:.0} s", size.program.name(), limit_ms / 1e3),
        measured: time(median),
        is_met: median <= limit_ms,
    }
}

fn nft_change(change: &Change) -> Goal {
    let median = Spread::of(change.rounds.iter().map(|round| round.ours_ms)).median;
    Goal {
        wanted: format!("iptables-nft: {} within {NFT_CHANGE_MS:.0} ms (p50)", change.name),
        measured: format!("{}, {} of CPU", time(median), time(change.cpu_ms())),
        is_met: median <= NFT_CHANGE_MS,
    }
}

fn legacy_change(change: &Change) -> Goal {
    let Spread { median, least, most } = Spread::of(change.rounds.iter().map(Round::ratio));
    Goal {
        wanted: format!("iptables-legacy: {} within 1.3 × a bare restore of one rule", change.name),
        measured: format!("{median:.2} × ({least:.2} to {most:.2})"),
        is_met: median <= LEGACY_CHANGE_RATIO,
    }
}
