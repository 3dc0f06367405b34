//! A bar chart of who answered how often, beside the share that was predicted. Pure.

use std::collections::BTreeMap;

use crate::explained::Landing;

/// The longest bar, in characters.
const WIDTH: f64 = 30.0;
/// Eighths of a character.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// One line for each pod that should answer or did.
pub(crate) fn chart(predicted: &[Landing], seen: &BTreeMap<String, u64>) -> String {
    let rows = rows(predicted, seen);
    let total: u64 = rows.iter().map(|row| row.seen).sum();
    let most = rows.iter().map(|row| row.seen).max().unwrap_or(0);
    let names = rows.iter().map(|row| row.pod.len()).max().unwrap_or(0).max("POD".len());
    let head = format!("{:names$}  ANSWERED  {:30}  {:>7}  EXPLAIN SAYS\n", "POD", "", "SEEN");
    let lines = rows.iter().map(|Row { pod, share, seen }| {
        let bar = bar(ratio(*seen, most));
        let seen_share = format!("{:.1} %", ratio(*seen, total) * 100.0);
        format!("{pod:names$}  {seen:>8}  {bar:30}  {seen_share:>7}  {}\n", percent(*share))
    });
    std::iter::once(head).chain(lines).collect()
}

struct Row {
    pod: String,
    /// What was predicted; nothing for a pod that should not have answered.
    share: Option<f64>,
    seen: u64,
}

fn rows(predicted: &[Landing], seen: &BTreeMap<String, u64>) -> Vec<Row> {
    let expected = predicted.iter().map(|landing| Row {
        pod: landing.pod.clone(),
        share: Some(landing.share),
        seen: seen.get(&landing.pod).copied().unwrap_or(0),
    });
    let strangers = seen.iter().filter(|(pod, _)| !predicted.iter().any(|landing| landing.pod == **pod));
    expected.chain(strangers.map(|(pod, seen)| Row { pod: pod.clone(), share: None, seen: *seen })).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a ratio of 0 to 1, times eight times the width"
)]
fn bar(ratio: f64) -> String {
    let eighths = (ratio.clamp(0.0, 1.0) * WIDTH * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn percent(share: Option<f64>) -> String {
    let text = share.map(|share| format!("{:.1}", share * 100.0));
    text.map_or_else(|| "nothing".to_owned(), |text| format!("{} %", text.trim_end_matches(".0")))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_part() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1.0), "█".repeat(30));
        assert_eq!(bar(0.5), "█".repeat(15));
        assert_eq!(bar(1.0 / 240.0), "▏");
        assert_eq!(bar(7.0), "█".repeat(30));
    }

    #[test]
    fn a_pod_that_should_not_answer_is_shown_too() {
        let landing = Landing { pod: "db-0".into(), share: 1.0, slots: 1, is_masqueraded: false };
        let seen = BTreeMap::from([("db-0".to_owned(), 3), ("stranger".to_owned(), 1)]);
        let text = chart(&[landing], &seen);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("db-0             3  ██████████████████████████████"), "{text}");
        assert!(lines[1].ends_with("75.0 %  100 %"), "{text}");
        assert!(lines[2].starts_with("stranger") && lines[2].ends_with("nothing"), "{text}");
    }
}
