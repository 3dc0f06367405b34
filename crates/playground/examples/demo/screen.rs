//! How it looks: headings, sentences, commands, and what went right or wrong. Colours on a terminal only.
//!
//! Every line of the demo is written here. A closed output is no reason to stop: the exit code still counts.

use std::cell::Cell;
use std::io::{IsTerminal, Stdout, Write};
use std::time::{Duration, Instant};

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const GREEN: &str = "32";
const CYAN: &str = "36";

/// Standard output, and how many things went wrong.
pub(crate) struct Screen {
    output: Stdout,
    is_terminal: bool,
    has_colours: bool,
    failures: Cell<usize>,
    step_began: Cell<Instant>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let output = std::io::stdout();
        let is_terminal = output.is_terminal();
        let has_colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            output,
            is_terminal,
            has_colours,
            failures: Cell::new(0),
            step_began: Cell::new(Instant::now()),
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures.get()
    }

    /// The beginning of a scene.
    pub(crate) fn heading(&self, title: &str, look_at: &str) {
        self.plain(&format!("\n{}\n{look_at}", self.paint(BOLD, &format!("── {title} ──"))));
    }

    /// Something begins that takes a moment; [`Screen::done`] ends the line.
    pub(crate) fn progress(&self, doing: &str) {
        self.step_began.set(Instant::now());
        self.write(&format!("{doing} … "));
    }

    pub(crate) fn done(&self) {
        self.plain(&format!("{} s", seconds(self.step_began.get().elapsed())));
    }

    pub(crate) fn command(&self, line: &str) {
        self.plain(&self.paint(CYAN, &format!("$ {line}")));
    }

    pub(crate) fn reason(&self, text: &str) {
        self.plain(&self.paint(DIM, text));
    }

    pub(crate) fn fine(&self, sentence: &str) {
        self.plain(&self.paint(GREEN, &format!("✓ {sentence}")));
    }

    /// Something is not as it should be; the demo goes on, and fails at its end.
    pub(crate) fn wrong(&self, sentence: &str) {
        self.failures.set(self.failures.get() + 1);
        self.plain(&self.paint(RED, &format!("✗ {sentence}")));
    }

    pub(crate) fn verdict(&self, verdict: Result<String, String>) {
        match verdict {
            Ok(sentence) => self.fine(&sentence),
            Err(sentence) => self.wrong(&sentence),
        }
    }

    /// Lines of another program or of a chart, moved in a little.
    pub(crate) fn block(&self, text: &str) {
        text.lines().for_each(|line| self.plain(format!("  {line}").trim_end()));
    }

    pub(crate) fn plain(&self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    /// Draws over the last lines; for a terminal only.
    pub(crate) fn redraw(&self, lines_before: usize, text: &str) {
        let up = if lines_before == 0 { String::new() } else { format!("\x1b[{lines_before}A") };
        self.write(&format!("{up}\r\x1b[J"));
        self.block(text);
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.has_colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn write(&self, text: &str) {
        let mut output = self.output.lock();
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }
}

/// `0.4`.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

/// `1,000`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
