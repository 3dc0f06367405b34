//! Many figures as a few: quantiles of single events, median and spread of rounds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Quantiles of single events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    /// Half are quicker.
    pub(crate) p50_us: f64,
    /// One in a hundred is slower.
    pub(crate) p99_us: f64,
}

impl Quantiles {
    /// Of at least one sample.
    pub(crate) fn of(samples: impl Iterator<Item = Duration>) -> Self {
        let mut times: Vec<f64> = samples.map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        assert!(!times.is_empty(), "quantiles need a sample");
        Self { p50_us: times[times.len() / 2], p99_us: times[times.len() * 99 / 100] }
    }
}

/// The median of some rounds, and the least and the most of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of at least one round.
    pub(crate) fn of(rounds: impl Iterator<Item = f64>) -> Self {
        let mut rounds: Vec<f64> = rounds.collect();
        rounds.sort_by(f64::total_cmp);
        assert!(!rounds.is_empty(), "a spread needs a round");
        Self { median: rounds[rounds.len() / 2], least: rounds[0], most: rounds[rounds.len() - 1] }
    }
}
