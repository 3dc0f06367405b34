//! Reads the `JUnit` file that nextest writes: the outcome and the output of each test.
//!
//! In: the XML text. Out: one `TestRun` per test case.
//!
//! `JUnit` and not nextest's screen output or its JSON: the file is the documented interface that stays the
//! same from version to version, and holds what passing tests printed.
//!
//! Absent on purpose: XML beyond what nextest writes. There are no namespaces and no document types.

use crate::summary::TestRun;

/// The test cases of a `JUnit` file, in its order.
pub(crate) fn read(xml: &str) -> Vec<TestRun> {
    let mut runs = Vec::new();
    let mut current: Option<TestRun> = None;
    for piece in (Pieces { rest: xml }) {
        match piece {
            Piece::Open { name: "testcase", attributes, is_closed } => {
                let run = TestRun { name: test_name(attributes), passed: true, output: String::new() };
                if is_closed { runs.push(run) } else { current = Some(run) }
            }
            // A test that passed only when tried again has `flakyFailure` instead: it passed.
            Piece::Open { name: "failure" | "error", .. } => {
                if let Some(run) = &mut current {
                    run.passed = false;
                }
            }
            Piece::Text(text) => {
                if let Some(run) = &mut current {
                    run.output.push_str(&text);
                    run.output.push('\n');
                }
            }
            Piece::Close { name: "testcase" } => runs.extend(current.take()),
            Piece::Open { .. } | Piece::Close { .. } => {}
        }
    }
    runs
}

fn test_name(attributes: &str) -> String {
    let get = |name| attribute(attributes, name).unwrap_or_default();
    format!("{} {}", get("classname"), get("name"))
}

fn attribute(attributes: &str, name: &str) -> Option<String> {
    let start = format!(" {name}=\"");
    let from = attributes.find(&start)? + start.len();
    let value = attributes[from..].split('"').next()?;
    Some(unescape(value))
}

enum Piece<'a> {
    Open { name: &'a str, attributes: &'a str, is_closed: bool },
    Text(String),
    Close { name: &'a str },
}

/// Cuts XML into tags and the text between them.
struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            if let Some(rest) = self.rest.strip_prefix("<![CDATA[") {
                return Some(Piece::Text(self.take(rest, "]]>").to_owned()));
            }
            if let Some(rest) = self.rest.strip_prefix("<!--") {
                self.take(rest, "-->");
            } else if let Some(rest) = self.rest.strip_prefix("<?") {
                self.take(rest, "?>");
            } else if let Some(rest) = self.rest.strip_prefix('<') {
                return Some(tag(self.take(rest, ">")));
            } else {
                let (text, rest) = self.rest.split_at(self.rest.find('<').unwrap_or(self.rest.len()));
                self.rest = rest;
                return Some(Piece::Text(unescape(text)));
            }
        }
    }
}

impl<'a> Pieces<'a> {
    /// Takes everything up to `end`, which is dropped.
    fn take(&mut self, from: &'a str, end: &str) -> &'a str {
        let (taken, rest) = from.split_once(end).unwrap_or((from, ""));
        self.rest = rest;
        taken
    }
}

/// A tag, given without its angle brackets. Nextest writes `>` inside attributes as `&gt;`.
fn tag(inside: &str) -> Piece<'_> {
    if let Some(name) = inside.strip_prefix('/') {
        return Piece::Close { name: name.trim() };
    }
    let (open, is_closed) = match inside.strip_suffix('/') {
        Some(open) => (open, true),
        None => (inside, false),
    };
    let (name, attributes) = open.split_at(open.find(char::is_whitespace).unwrap_or(open.len()));
    Piece::Open { name, attributes, is_closed }
}

/// Replaces the entities of XML; `&amp;` last, so that `&amp;lt;` stays `&lt;`.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#10;", "\n")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0">
    <testsuite name="model" tests="4" disabled="0" errors="0" failures="1">
        <testcase name="fate::is_known" classname="model" time="0.01">
        </testcase>
        <testcase name="fuzz" classname="model::fuzz" time="0.01">
            <system-out>
running 1 test
counted: 5 &lt;cases&gt; &amp; more
</system-out>
            <system-err>skipped: needs &quot;root&quot;</system-err>
        </testcase>
        <testcase name="broken" classname="model" time="0.01">
            <failure message="assert &gt; failed" type="test failure">left &lt; right</failure>
        </testcase>
        <testcase name="flaky" classname="model" time="0.01">
            <flakyFailure message="x" type="t">once</flakyFailure>
        </testcase>
        <testcase name="short" classname="model" time="0.01"/>
    </testsuite>
</testsuites>"#;

    #[test]
    fn each_case_has_its_name_and_outcome() {
        let runs = read(FILE);
        let seen: Vec<(&str, bool)> = runs.iter().map(|run| (run.name.as_str(), run.passed)).collect();
        let expected = [
            ("model fate::is_known", true),
            ("model::fuzz fuzz", true),
            ("model broken", false),
            ("model flaky", true),
            ("model short", true),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_a_passing_test_printed_is_kept_as_it_was() {
        let output = &read(FILE)[1].output;
        assert!(output.lines().any(|line| line == "counted: 5 <cases> & more"), "{output}");
        assert!(output.lines().any(|line| line.trim() == r#"skipped: needs "root""#), "{output}");
    }

    #[test]
    fn an_escaped_entity_stays_text() {
        assert_eq!(unescape("&amp;lt; &lt;"), "&lt; <");
    }

    #[test]
    fn a_file_that_was_cut_short_does_not_panic() {
        for end in 0..FILE.len() {
            read(&FILE[..end]);
        }
    }
}
