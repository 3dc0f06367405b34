//! Finds the word that somebody probably meant.
//!
//! In: a misspelt word and the words that exist. Out: the nearest one, if it is near enough to be a slip.

/// The candidate with the fewest slips from `word`; none when even that one is another word altogether.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slips_max = (word.chars().count() / 2).min(3);
    candidates
        .map(|candidate| (slips(word, candidate), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The number of letters to add, drop or replace to come from one word to the other (Levenshtein).
fn slips(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (from, to, expected) in [
            ("test", "test", 0),
            ("tset", "test", 2),
            ("demos", "demo", 1),
            ("", "demo", 4),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(slips(from, to), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn another_word_is_no_slip() {
        assert_eq!(nearest("xyz", ["test", "demo"].into_iter()), None);
        assert_eq!(nearest("", ["test", "demo"].into_iter()), None);
    }
}
