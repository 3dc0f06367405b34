//! Counts by size.

use std::time::Duration;

/// How many values were at most so large, for some bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// For each bound those above the one before; last, those above all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// Nothing was counted yet.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts a duration.
    pub(super) fn observe(&mut self, duration: Duration) {
        let value = duration.as_secs_f64();
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at] += 1;
        self.sum += value;
    }

    /// How many values were at most so large; `None` for all.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        bounds.zip(self.counts.iter().scan(0, |all, count| {
            *all += count;
            Some(*all)
        }))
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// From 1 ms, doubling: how long a sync takes.
pub(super) const SYNC_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// From a quarter of a second to five minutes: from a change in the cluster to the rules. Upstream's begin with 0, in which nothing falls.
pub(super) const PROGRAMMING_SECONDS: &[f64] = &programming_seconds();

#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
const fn programming_seconds() -> [f64; 81] {
    let mut bounds = [0.0; 81];
    bounds[1] = 0.25;
    bounds[2] = 0.5;
    let mut at = 3;
    while at < 81 {
        bounds[at] = match at {
            3..=61 => (at - 2) as f64,
            62..=73 => (60 + 5 * (at - 62)) as f64,
            _ => (120 + 30 * (at - 74)) as f64,
        };
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_at_its_bound_and_above() {
        let mut histogram = Histogram::new(&[0.001, 0.002]);
        for milliseconds in [1, 2, 3] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        let counts: Vec<_> = histogram.cumulative().collect();
        assert_eq!(counts, [(Some(0.001), 1), (Some(0.002), 2), (None, 3)]);
        assert_eq!(histogram.count(), 3);
        assert!((histogram.sum() - 0.006).abs() < 1e-9);
    }
}
