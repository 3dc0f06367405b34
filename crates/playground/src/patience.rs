//! How long is long enough, on this machine?
//!
//! Every limit of the playground, and every one that is given to it, is for a usual machine. `PORTWAY_PATIENCE=3` makes all
//! of them three times as long, for one that is much slower, such as a VM in software. This is the only place that reads it.

use std::sync::OnceLock;
use std::time::Duration;

/// A limit, as long as it is on this machine.
pub fn patient(limit: Duration) -> Duration {
    static FACTOR: OnceLock<u32> = OnceLock::new();
    limit * *FACTOR.get_or_init(|| factor(std::env::var("PORTWAY_PATIENCE").ok().as_deref()))
}

/// What is not a number, or makes limits shorter, counts as 1.
fn factor(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(1).clamp(1, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_and_never_shrink() {
        for (text, expected) in [(None, 1), (Some("3"), 3), (Some("0"), 1), (Some("soon"), 1)] {
            assert_eq!(factor(text), expected, "{text:?}");
        }
    }
}
