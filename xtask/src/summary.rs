//! Collects what passed, failed and was skipped, and prints it at the end.
//!
//! In: outcomes of steps and of tests, with the lines that the tests printed.
//! Out: what failed, what was skipped and why, what was counted; the last line is `N passed, N failed, N skipped`.
//!
//! A test that cannot run here prints `skipped: REASON` and returns: it then counts as skipped, never as passed.
//! A test that tells how much it tried prints `counted: WHAT`, such as `counted: 200000 fuzz cases, seed 1`.
//! A test that failed in the whole run and stands alone (see `again`) counts as passed, and is named as shaky.
//! Connections are added up over all tests, by what was said before their number: `counted: nftables ipv4 tcp 120 connections`.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

#[derive(Default)]
pub(crate) struct Summary {
    passed: usize,
    failed: Vec<Entry>,
    skipped: Vec<Entry>,
    shaky: Vec<Entry>,
    counted: Vec<Entry>,
    connections: BTreeMap<String, u64>,
}

/// A step or a test, and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    text: String,
}

/// One test that ran to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestRun {
    pub(crate) name: String,
    pub(crate) passed: bool,
    pub(crate) output: String,
}

impl Summary {
    pub(crate) fn passed(&mut self) {
        self.passed += 1;
    }

    pub(crate) fn failed(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.failed.push(Entry { name: name.into(), text: text.into() });
    }

    pub(crate) fn skipped(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(Entry { name: name.into(), text: reason.into() });
    }

    /// Takes in a test that failed and then stood alone, every time.
    pub(crate) fn shaky(&mut self, name: &str) {
        self.passed();
        let text = format!(
            "failed once (its output is above), and then stood {} times alone: to be mended",
            crate::again::TIMES
        );
        self.shaky.push(Entry { name: name.to_owned(), text });
    }

    /// Takes in something that broke and was done once more: no test, but to be mended as well.
    pub(crate) fn broke(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.shaky.push(Entry { name: name.into(), text: text.into() });
    }

    /// Takes in a step that either went well or did not.
    pub(crate) fn step(&mut self, name: &str, succeeded: bool, what_to_do: &str) {
        if succeeded { self.passed() } else { self.failed(name, what_to_do) }
    }

    /// Takes in a test; the lines that it printed decide whether it was skipped.
    pub(crate) fn test(&mut self, run: &TestRun) {
        for text in lines_after("counted: ", &run.output) {
            match connections(text) {
                Some((kind, count)) => *self.connections.entry(kind.to_owned()).or_default() += count,
                None => self.counted.push(Entry { name: run.name.clone(), text: text.to_owned() }),
            }
        }
        let reasons: Vec<&str> = lines_after("skipped: ", &run.output).collect();
        if !run.passed {
            self.failed(&run.name, "its output is above");
        } else if reasons.is_empty() {
            self.passed();
        } else {
            self.skipped(&run.name, reasons.join("; "));
        }
    }

    /// How many have failed so far.
    pub(crate) fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Prints everything; nothing may be printed after it.
    pub(crate) fn print(&self) -> ExitCode {
        println!("\n{self}");
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.connections.iter();
        let connections =
            connections.map(|(kind, count)| Entry { name: kind.clone(), text: count.to_string() });
        for (title, entries) in [
            ("counts", &add_up(&self.counted)),
            ("connections", &connections.collect()),
            ("skipped", &self.skipped),
            ("shaky", &self.shaky),
            ("failed", &self.failed),
        ] {
            write_part(f, title, entries)?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped.len())
    }
}

fn write_part(f: &mut fmt::Formatter<'_>, title: &str, entries: &[Entry]) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}:")?;
    for Entry { name, text } in entries {
        writeln!(f, "  {name}: {text}")?;
    }
    writeln!(f)
}

/// Counts of many tests of one target that differ in their numbers alone, as one line with the sums.
fn add_up(entries: &[Entry]) -> Vec<Entry> {
    const MANY: usize = 3;
    let mut groups: BTreeMap<(&str, String), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        let target = entry.name.split_once(' ').map_or(entry.name.as_str(), |(target, _)| target);
        let shape = entry.text.replace(|c: char| c.is_ascii_digit(), "");
        groups.entry((target, shape)).or_default().push(entry);
    }
    let lines = groups.into_iter().flat_map(|((target, _), group)| {
        if group.len() < MANY {
            return group.into_iter().cloned().collect();
        }
        let texts: Vec<&str> = group.iter().map(|entry| entry.text.as_str()).collect();
        vec![Entry { name: format!("{target} ({} tests)", group.len()), text: sum(&texts) }]
    });
    lines.collect()
}

/// Texts that differ in their numbers alone, as one text with the sums of those numbers.
fn sum(texts: &[&str]) -> String {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let mut sums: Vec<u64> = Vec::new();
    for text in texts {
        let found = numbers(text);
        sums.resize(found.len().max(sums.len()), 0);
        sums.iter_mut().zip(found).for_each(|(sum, number)| *sum += number);
    }
    let (mut line, mut sums, mut is_number) = (String::new(), sums.into_iter(), false);
    for c in texts.first().copied().unwrap_or_default().chars() {
        if c.is_ascii_digit() {
            if !is_number {
                line.push_str(&sums.next().unwrap_or_default().to_string());
            }
        } else {
            line.push(c);
        }
        is_number = c.is_ascii_digit();
    }
    line
}

/// `nftables ipv4 tcp 120 connections`: of which kind, and how many.
fn connections(text: &str) -> Option<(&str, u64)> {
    let (kind, count) = text.strip_suffix(" connections")?.rsplit_once(' ')?;
    Some((kind, count.parse().ok()?))
}

fn lines_after<'a>(prefix: &'a str, output: &'a str) -> impl Iterator<Item = &'a str> {
    output.lines().filter_map(move |line| line.trim().strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_many_tests_of_one_target_are_added_up() {
        let entry = |name: &str, text: &str| Entry { name: name.to_owned(), text: text.to_owned() };
        let many = [
            entry("p::scenarios a", "1 scenarios, 12 packets"),
            entry("p::scenarios b", "1 scenarios, 3 packets"),
            entry("p::scenarios c", "1 scenarios, 5 packets"),
            entry("m::fuzz x", "100 cases, seed 1"),
        ];
        let lines: Vec<String> = add_up(&many).iter().map(|e| format!("{}: {}", e.name, e.text)).collect();
        assert_eq!(
            lines,
            ["m::fuzz x: 100 cases, seed 1", "p::scenarios (3 tests): 3 scenarios, 20 packets"]
        );
    }

    fn run(name: &str, passed: bool, output: &str) -> TestRun {
        TestRun { name: name.to_owned(), passed, output: output.to_owned() }
    }

    #[test]
    fn a_test_that_says_skipped_does_not_count_as_passed() {
        let mut summary = Summary::default();
        summary.test(&run("packets", true, "running 1 test\nskipped: needs root\n"));
        assert_eq!(summary.to_string(), "skipped:\n  packets: needs root\n\n0 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_fails_counts_as_failed_whatever_it_says() {
        let mut summary = Summary::default();
        summary.test(&run("packets", false, "skipped: needs root\n"));
        assert!(summary.to_string().ends_with("0 passed, 1 failed, 0 skipped"));
        assert_eq!(summary.failures(), 1);
    }

    #[test]
    fn a_shaky_test_counts_as_passed_and_is_named() {
        let mut summary = Summary::default();
        summary.shaky("packets");
        let text = summary.to_string();
        assert!(text.starts_with("shaky:\n  packets: failed once"), "{text}");
        assert!(text.ends_with("1 passed, 0 failed, 0 skipped"), "{text}");
    }

    #[test]
    fn counts_are_listed_with_their_test() {
        let mut summary = Summary::default();
        summary.test(&run("fuzz", true, "counted: 200000 cases, seed 1\n"));
        assert_eq!(
            summary.to_string(),
            "counts:\n  fuzz: 200000 cases, seed 1\n\n1 passed, 0 failed, 0 skipped"
        );
    }

    #[test]
    fn connections_of_all_tests_are_added_up() {
        let mut summary = Summary::default();
        summary.test(&run("one", true, "counted: nftables ipv4 tcp 20 connections\n"));
        summary.test(&run(
            "two",
            true,
            "counted: nftables ipv4 tcp 3 connections\ncounted: many connections\n",
        ));
        assert_eq!(
            summary.to_string(),
            "counts:\n  two: many connections\n\nconnections:\n  nftables ipv4 tcp: 23\n\n2 passed, 0 failed, 0 skipped"
        );
    }

    #[test]
    fn the_last_line_has_the_three_numbers_alone() {
        let mut summary = Summary::default();
        summary.step("format", true, "");
        summary.step("clippy", false, "its output is above");
        summary.skipped("nftables", "`nft` is missing");
        assert_eq!(summary.to_string().lines().last(), Some("1 passed, 1 failed, 1 skipped"));
    }
}
