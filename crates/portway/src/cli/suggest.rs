//! "Did you mean …?": the nearest of some words.

/// The word nearest to `text`, if one is near enough to have been meant.
pub(super) fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1 + text.chars().count() / 3;
    let with_distance = words.into_iter().map(|word| (distance(text, word), word));
    with_distance.filter(|(distance, _)| *distance <= limit).min().map(|(_, word)| word)
}

/// How many letters must be inserted, left out or exchanged to get from one to the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in to.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let words = ["nftables", "iptables", "ipvs", "userspace"];
        for (text, expected) in [
            ("nftable", Some("nftables")),
            ("iptbales", Some("iptables")),
            ("ipsv", Some("ipvs")),
            ("ebpf", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, words), expected, "{text}");
        }
    }
}
