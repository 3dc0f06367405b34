//! How old an object is, in kubectl's words: `45s`, `7m30s`, `5d19h`, `2y40d`.

use model::time::Timestamp;
use serde_json::Value;

use super::kube::text;

/// The age of an object; `<unknown>` when it does not say when it was created.
pub(super) fn of(object: &Value, now: Timestamp) -> String {
    let created = text(object, "metadata.creationTimestamp").and_then(Timestamp::parse);
    created.map_or_else(|| "<unknown>".to_owned(), |created| human(now.0 - created.0))
}

/// kubectl's rounding: two units while the second one still says something.
fn human(seconds: i64) -> String {
    // A clock that runs a little behind the one that wrote the object is no reason to worry anybody.
    let seconds = if (-2..0).contains(&seconds) { 0 } else { seconds };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let (years, days_of_year) = (days / 365, days % 365);
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two((minutes, "m"), (seconds % 60, "s")),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two((hours, "h"), (minutes % 60, "m")),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two((days, "d"), (hours % 24, "h")),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two((years, "y"), (days_of_year, "d")),
        _ => format!("{years}y"),
    }
}

fn two(large: (i64, &str), small: (i64, &str)) -> String {
    match small.0 {
        0 => format!("{}{}", large.0, large.1),
        _ => format!("{}{}{}{}", large.0, large.1, small.0, small.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rounded_as_kubectl_rounds_them() {
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (7 * minute + 30, "7m30s"),
            (45 * minute, "45m"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour + 5 * minute, "8h"),
            (2 * day + hour, "2d1h"),
            (5 * day + 19 * hour, "5d19h"),
            (400 * day, "400d"),
            (3 * 365 * day, "3y"),
            (-1, "0s"),
            (-100, "<invalid>"),
        ] {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }
}
