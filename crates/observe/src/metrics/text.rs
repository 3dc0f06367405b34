//! The text format of Prometheus: `# HELP`, `# TYPE`, and samples.
//!
//! A family without a sample is not shown, as upstream's library does it. A page has an end: samples of service ports and
//! endpoints beyond [`SERIES_MAX`] are left out and counted.

use std::fmt::{Display, Write as _};

use super::histogram::Histogram;

/// So many samples that grow with the cluster are shown.
const SERIES_MAX: usize = 20_000;

/// What kind of figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    series: usize,
    left_out: usize,
}

/// The labels of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// Begins a family. Its head is written with its first sample.
    pub(super) fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &'a str) -> Samples<'a> {
        Samples { page: self, name, kind, help, has_head: false }
    }

    /// The whole text, with what was left out.
    pub(super) fn finish(mut self) -> String {
        let left_out = self.left_out;
        let help = "Samples of service ports and endpoints that this page had no room for";
        self.family("portway_metrics_left_out", Kind::Gauge, help).sample(&[], left_out);
        self.text
    }

    /// The text of a page that leaves out nothing.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// A family to which samples are added.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    page: &'a mut Page,
    name: &'a str,
    kind: Kind,
    help: &'a str,
    has_head: bool,
}

impl Samples<'_> {
    /// Adds a sample.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.head();
        self.line("", labels, None, &value);
    }

    /// Adds a sample of which there may be as many as the cluster is large.
    pub(super) fn one_of_many(&mut self, labels: Labels<'_>, value: impl Display) {
        if self.page.series < SERIES_MAX {
            self.page.series += 1;
            self.sample(labels, value);
        } else {
            self.page.left_out += 1;
        }
    }

    /// Adds a histogram.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        self.head();
        for (bound, count) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.line("_bucket", labels, Some(&bound), &count);
        }
        self.line("_sum", labels, None, &histogram.sum());
        self.line("_count", labels, None, &histogram.count());
    }

    fn head(&mut self) {
        if !std::mem::replace(&mut self.has_head, true) {
            let (name, kind, help) = (self.name, self.kind.name(), self.help);
            // Writing to a string cannot fail.
            let _ = writeln!(self.page.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: &dyn Display) {
        let text = &mut self.page.text;
        let _ = write!(text, "{}{suffix}", self.name);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut open = '{';
        for (name, value) in labels {
            let _ = write!(text, "{open}{name}=\"{}\"", Escaped(value));
            open = ',';
        }
        let close = if open == ',' { "}" } else { "" };
        let _ = writeln!(text, "{close} {value}");
    }
}

/// A label's value: what would end it is written with a backslash.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            letter => f.write_char(letter),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_head_and_one_without_samples_none() {
        let mut page = Page::default();
        page.family("empty_total", Kind::Counter, "Nothing");
        let mut family = page.family("ways_total", Kind::Counter, "Ways");
        family.sample(&[("to", "a")], 1);
        family.sample(&[("to", "b\"\\\n"), ("by", "c")], 2.5);
        assert_eq!(
            page.text,
            "# HELP ways_total Ways\n# TYPE ways_total counter\nways_total{to=\"a\"} 1\n\
             ways_total{to=\"b\\\"\\\\\\n\",by=\"c\"} 2.5\n"
        );
    }

    #[test]
    fn a_page_has_an_end_and_says_what_it_left_out() {
        let mut page = Page::default();
        let mut family = page.family("many", Kind::Gauge, "Many");
        for number in 0..SERIES_MAX + 7 {
            family.one_of_many(&[("number", &number.to_string())], 1);
        }
        let text = page.finish();
        assert_eq!(text.lines().filter(|line| line.starts_with("many{")).count(), SERIES_MAX);
        assert!(text.ends_with("portway_metrics_left_out 7\n"), "{}", &text[text.len() - 200..]);
    }
}
