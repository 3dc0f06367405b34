//! `/statusz` and `/flagz`, for people: upstream's words, and our lines.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is \
                       for debugging purposes only.";

/// What runs, since when, and where to look.
pub(super) fn statusz(started: Timestamp, uptime: Duration, paths: &[&str]) -> String {
    let seconds = uptime.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "\nportway statusz\n{WARNING}\n\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\nBinary version: {}\n\
         Paths: {}\n",
        env!("CARGO_PKG_VERSION"),
        paths.join(" ")
    )
}

/// All options with their values.
pub(super) fn flagz(flags: &[(String, String)]) -> String {
    let mut text = format!("\nportway flagz\n{WARNING}\n\n");
    for (name, value) in flags {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_options_are_lines() {
        let text =
            statusz(Timestamp::UNIX_EPOCH, Duration::from_secs(3 * 3600 + 62), &["/metrics", "/state"]);
        assert!(text.contains("Started: 1970-01-01T00:00:00Z\nUp: 3 hr 01 min 02 sec\n"), "{text}");
        assert!(text.ends_with("Paths: /metrics /state\n"), "{text}");
        let text = flagz(&[("mode".into(), "nftables".into()), ("from".into(), "a,b".into())]);
        assert!(text.ends_with("\n\nmode=nftables\nfrom=a,b\n"), "{text}");
    }
}
