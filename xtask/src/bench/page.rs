//! `docs/benchmarks.md`: one section for each benchmark, each between markers, so that a run replaces its own alone.
//!
//! In: a benchmark's name and what it printed. Out: the page with that in its section. What people write between the
//! sections stays.

use crate::cargo::root;
use anyhow::{Context, Result};

/// Puts what a benchmark printed into its section.
pub(crate) fn put(name: &str, printed: &str) -> Result<()> {
    let file = root().join("docs/benchmarks.md");
    let page = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let page = with_section(&page, name, printed.trim_end());
    std::fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))
}

/// The page with this section in place of the one between the markers; at the end, if it has none yet.
fn with_section(page: &str, name: &str, section: &str) -> String {
    let begin = format!("<!-- cargo xtask bench {name}: from here on written by it -->");
    let end = format!("<!-- cargo xtask bench {name}: until here -->");
    let section = format!("{begin}\n\n{section}\n\n{end}");
    let found = page.find(&begin).zip(page.find(&end)).filter(|(from, to)| from < to);
    match found {
        Some((from, to)) => format!("{}{section}{}", &page[..from], &page[to + end.len()..]),
        None => format!("{}\n\n## {name}\n\n{section}\n", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_its_neighbours_stay() {
        let page = with_section("# Benchmarks\n", "model", "first");
        let page = with_section(&page, "nftables", "other");
        let again = with_section(&page, "model", "second");
        assert_eq!(again, page.replace("first", "second"));
        assert!(page.starts_with("# Benchmarks\n\n## model\n\n<!-- "), "{page}");
        assert!(page.ends_with(" -->\n"), "{page}");
    }

    #[test]
    fn half_a_pair_of_markers_is_no_section() {
        let whole = with_section("", "model", "first");
        let half = whole.replace("<!-- cargo xtask bench model: until here -->", "");
        assert!(with_section(&half, "model", "second").contains("first"));
    }
}
