//! "Did you mean …?": the nearest of some words.

/// The word nearest to `text`, if one is near enough to have been meant: the same in other letters before one with a slip.
pub fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let words: Vec<&str> = words.into_iter().collect();
    let same = words.iter().copied().find(|word| word.eq_ignore_ascii_case(text));
    same.or_else(|| with_a_slip(text, &words))
}

fn with_a_slip<'a>(text: &str, words: &[&'a str]) -> Option<&'a str> {
    let length = text.chars().count();
    // Two slips at most, and more of the word right than wrong: a guess that is far off misleads.
    let is_near = |(distance, _): &(usize, &str)| *distance <= 2 && 2 * distance < length;
    let candidates = words.iter().copied().filter(|word| word.chars().count().abs_diff(length) <= 2);
    candidates.map(|word| (distance(text, word), word)).filter(is_near).min().map(|(_, word)| word)
}

/// How many letters must be inserted, left out, exchanged, or swapped with their neighbour to get from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for line in 1..=from.len() {
        let mut row = vec![line];
        for column in 1..=to.len() {
            let above = &rows[line - 1];
            let exchanged = above[column - 1] + usize::from(from[line - 1] != to[column - 1]);
            let mut least = exchanged.min(above[column] + 1).min(row[column - 1] + 1);
            let is_swap = line > 1
                && column > 1
                && from[line - 1] == to[column - 2]
                && from[line - 2] == to[column - 1];
            if is_swap {
                least = least.min(rows[line - 2][column - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
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
            ("vp", None),
            ("tables", Some("iptables")),
            ("table", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, words), expected, "{text}");
        }
    }

    #[test]
    fn the_same_word_in_other_letters_is_understood_before_one_with_a_slip() {
        let words = ["cluster-cidr", "clustercidrs", "clusterCIDR"];
        for (text, expected) in [
            ("CLUSTER-CIDR", Some("cluster-cidr")),
            ("clustercidr", Some("clusterCIDR")),
            ("CLUSTERrange", None),
        ] {
            assert_eq!(nearest(text, words), expected, "{text}");
        }
    }
}
