//! Is this balance fair? Pearson's chi-square test of counts against weights.
//!
//! The p-value is the chance that a fair balancer is at least as uneven as what was counted. One test in a
//! million that fails without a reason is few enough: [`LIMIT`].

use std::collections::BTreeMap;

/// Below this a balance counts as unfair.
pub const LIMIT: f64 = 1e-6;

/// The counts do not fit the weights.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unfair {
    /// Somebody answered who should not have.
    #[error("`{0}` answered, but has no share")]
    Stranger(String),
    /// As uneven as chance makes it in less than one case of a million.
    #[error("p = {p:.2e} is below {LIMIT:.0e}: {counts}")]
    Uneven {
        /// The chance.
        p: f64,
        /// Counts and expected counts, in words.
        counts: String,
    },
}

/// Checks counts against weights, such as `[("web-a-0", 3), ("web-b-0", 1)]`; returns the p-value.
pub fn check_shares(counts: &BTreeMap<String, u64>, weights: &[(&str, u64)]) -> Result<f64, Unfair> {
    if let Some(stranger) = counts.keys().find(|name| !weights.iter().any(|(known, _)| known == name)) {
        return Err(Unfair::Stranger(stranger.clone()));
    }
    let observed: Vec<_> = weights.iter().map(|(name, _)| counts.get(*name).copied().unwrap_or(0)).collect();
    let shares: Vec<_> = weights.iter().map(|(_, weight)| *weight).collect();
    let p = chi_square_p(&observed, &shares);
    if p < LIMIT { Err(Unfair::Uneven { p, counts: in_words(weights, &observed) }) } else { Ok(p) }
}

/// Checks counts against equal shares.
pub fn check_equal(counts: &BTreeMap<String, u64>, names: &[&str]) -> Result<f64, Unfair> {
    let weights: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
    check_shares(counts, &weights)
}

/// The p-value of counts against weights. Weights are positive; with fewer than two classes, or nothing
/// counted, there is nothing to be uneven: 1.
///
/// # Panics
/// When a weight is zero, or when there are not as many weights as counts.
pub fn chi_square_p(observed: &[u64], weights: &[u64]) -> f64 {
    assert_eq!(observed.len(), weights.len(), "one weight for each count");
    assert!(weights.iter().all(|weight| *weight > 0), "a class without a weight is never met");
    let total: f64 = observed.iter().copied().map(float).sum();
    if observed.len() < 2 || total == 0.0 {
        return 1.0;
    }
    let weight_sum: f64 = weights.iter().copied().map(float).sum();
    let terms = observed.iter().zip(weights).map(|(count, weight)| {
        let expected = total * float(*weight) / weight_sum;
        (float(*count) - expected).powi(2) / expected
    });
    let statistic: f64 = terms.sum();
    upper_gamma(float(observed.len() as u64 - 1) / 2.0, statistic / 2.0)
}

fn in_words(weights: &[(&str, u64)], observed: &[u64]) -> String {
    let words = weights
        .iter()
        .zip(observed)
        .map(|((name, weight), count)| format!("{name} {count} (weight {weight})"));
    words.collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}

/// The regularised upper incomplete gamma function Q(a, x): by the series of its complement where that
/// converges quickly, by a continued fraction (Lentz) elsewhere. Abramowitz and Stegun 6.5.29 and 6.5.31.
fn upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 { 1.0 - scale * series(a, x) } else { scale * fraction(a, x) }
}

fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0 / a, 1.0 / a);
    let mut n = a;
    while term > sum * f64::EPSILON {
        n += 1.0;
        term *= x / n;
        sum += term;
    }
    sum
}

fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut denominator = x + 1.0 - a;
    let (mut upper, mut lower) = (1.0 / TINY, 1.0 / denominator);
    let mut product = lower;
    for step in 1..10_000 {
        let step = f64::from(step);
        let numerator = -step * (step - a);
        denominator += 2.0;
        lower = 1.0 / nonzero(numerator * lower + denominator, TINY);
        upper = nonzero(denominator + numerator / upper, TINY);
        product *= lower * upper;
        if (lower * upper - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    product
}

fn nonzero(value: f64, tiny: f64) -> f64 {
    if value.abs() < tiny { tiny } else { value }
}

/// ln Γ for multiples of one half, which is all that a chi-square needs: by recursion from Γ(1) and Γ(½).
fn ln_gamma(a: f64) -> f64 {
    let is_whole = a.fract() == 0.0;
    let (mut at, mut sum) = if is_whole { (1.0, 0.0) } else { (0.5, std::f64::consts::PI.sqrt().ln()) };
    while at < a {
        sum += f64::ln(at);
        at += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).into(), *count)).collect()
    }

    /// The usual tables of critical values: statistic, degrees of freedom, p.
    #[test]
    fn p_values_agree_with_the_tables() {
        for (x, freedom, p) in [
            (3.841_458_820_694_124, 1.0, 0.05),
            (6.634_896_601_021_213, 1.0, 0.01),
            (5.991_464_547_107_979, 2.0, 0.05),
            (7.814_727_903_251_179, 3.0, 0.05),
            (11.070_497_693_516_35, 5.0, 0.05),
            (18.307_038_053_275_146, 10.0, 0.05),
            (0.710_723_021_397_324, 4.0, 0.95),
            (124.342_113_4, 100.0, 0.05),
            (27.631_021_115_928_547, 2.0, 1e-6),
        ] {
            let got = upper_gamma(freedom / 2.0, x / 2.0);
            assert!((got / p - 1.0).abs() < 1e-6, "{x} with {freedom}: {got} instead of {p}");
        }
    }

    #[test]
    fn a_fair_balance_passes() {
        let p = check_equal(&counts(&[("a", 294), ("b", 321), ("c", 285)]), &["a", "b", "c"]).unwrap();
        // (36 + 441 + 225) / 300 = 2.34; with two degrees of freedom p is exp(-2.34 / 2).
        assert!((p - f64::exp(-1.17)).abs() < 1e-9, "{p}");
        check_shares(&counts(&[("a", 598), ("b", 202)]), &[("a", 3), ("b", 1)]).unwrap();
        assert!((check_equal(&counts(&[("a", 9)]), &["a"]).unwrap() - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_unfair_balance_fails() {
        let halves = counts(&[("a", 2200), ("b", 1800)]);
        assert!(matches!(check_equal(&halves, &["a", "b"]), Err(Unfair::Uneven { .. })));
        assert!(matches!(check_equal(&halves, &["a", "b", "c"]), Err(Unfair::Uneven { .. })));
        assert_eq!(check_equal(&halves, &["a"]), Err(Unfair::Stranger("b".into())));
    }

    #[test]
    fn how_sharp_it_is_at_4000_connections() {
        // Of two endpoints each may be 154 off the middle of 2,000, not quite 8 %.
        assert!(check_equal(&counts(&[("a", 2154), ("b", 1846)]), &["a", "b"]).is_ok());
        assert!(check_equal(&counts(&[("a", 2155), ("b", 1845)]), &["a", "b"]).is_err());
    }
}
