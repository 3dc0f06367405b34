//! Rounds, and many figures as a few: quantiles of single events, median and spread of rounds.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Measures so many times. Nobody counts the warm-up, which comes first and has the numbers after `count`.
pub fn rounds<T>(warm_up: u32, count: u32, mut one: impl FnMut(u32) -> Result<T>) -> Result<Vec<T>> {
    for i in count..count + warm_up {
        one(i)?;
    }
    (0..count).map(one).collect()
}

/// Measures each of some subjects so many times, in turn: what disturbs the machine disturbs them alike. All rounds of the first
/// subject, then all of the second.
pub fn in_turn<S: Copy, T>(
    count: u32,
    subjects: &[S],
    mut one: impl FnMut(S) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..count {
        for (rounds, subject) in all.iter_mut().zip(subjects) {
            rounds.push(one(*subject)?);
        }
    }
    Ok(all)
}

/// Quantiles of single events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Quantiles {
    pub p50_us: f64,
    pub p99_us: f64,
}

impl Quantiles {
    /// Of at least one sample.
    pub fn of(samples: impl IntoIterator<Item = Duration>) -> Self {
        let times = Sorted::of(samples.into_iter().map(|time| time.as_secs_f64() * 1e6));
        Self { p50_us: times.quantile(50), p99_us: times.quantile(99) }
    }
}

/// The median of some rounds, and the least and the most of them.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
    pub p99: f64,
}

impl Spread {
    /// Of at least one round.
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let rounds = Sorted::of(rounds);
        let at = |percent| rounds.quantile(percent);
        Self { median: at(50), least: at(0), most: at(100), p99: at(99) }
    }

    /// The least and the most in words.
    pub fn range(&self, show: impl Fn(f64) -> String) -> String {
        format!("{} to {}", show(self.least), show(self.most))
    }

    /// All three, with so many digits and a unit behind the median.
    pub fn whole(&self, digits: usize, unit: &str) -> String {
        let Self { median, least, most, .. } = self;
        format!("{median:.digits$}{unit} ({least:.digits$} to {most:.digits$})")
    }
}

/// The median of at least one figure.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(figures).median
}

struct Sorted(Vec<f64>);

impl Sorted {
    fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        assert!(!figures.is_empty(), "a median needs a figure");
        Self(figures)
    }

    fn quantile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}
