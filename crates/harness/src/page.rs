//! The page: Markdown that is printed on the screen and becomes a section of `docs/benchmarks.md`.

use std::fmt;

/// Parts of a page, with a blank line between them.
#[derive(Clone, Debug, Default)]
pub struct Page(Vec<String>);

impl Page {
    /// A page that begins with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self::default().text(text)
    }

    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(text.into());
        self
    }

    /// A title, and what is below it.
    #[must_use]
    pub fn section(self, title: impl fmt::Display, table: String, note: impl Into<String>) -> Self {
        self.text(format!("**{title}**")).text(table).text(note)
    }

    #[must_use]
    pub fn goals(self, title: &str, goals: &[Goal]) -> Self {
        self.section(title, goal_table(goals), "")
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty());
        f.write_str(&parts.collect::<Vec<_>>().join("\n\n"))
    }
}

/// What we set out to reach, and whether we did.
#[derive(Clone, Debug)]
pub struct Goal {
    sentence: String,
    seen: String,
    is_met: bool,
}

impl Goal {
    pub fn new(sentence: impl Into<String>, seen: impl Into<String>, is_met: bool) -> Self {
        Self { sentence: sentence.into(), seen: seen.into(), is_met }
    }
}

/// A row for each goal.
pub fn goal_table(goals: &[Goal]) -> String {
    table(goals).columns(&[
        ("goal", &|goal| goal.sentence.clone()),
        ("measured", &|goal| goal.seen.clone()),
        ("", &|goal| if goal.is_met { "met" } else { "missed" }.into()),
    ])
}

/// A column: its head, and what a row has in it.
pub type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// A table with these rows.
pub fn table<T>(rows: &[T]) -> Table<'_, T> {
    Table(rows)
}

/// A table that has no columns yet.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a, T>(&'a [T]);

impl<T> Table<'_, T> {
    /// Markdown with its columns aligned, so that it reads well on a screen too: the first to the left, all others to the right.
    pub fn columns(self, columns: &[Column<'_, T>]) -> String {
        let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        let cells = self.0.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
        draw(&[head].into_iter().chain(cells).collect::<Vec<_>>())
    }
}

/// Draws lines of cells, of which the first is the head.
fn draw(lines: &[Vec<String>]) -> String {
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let rule = widths.iter().enumerate().map(|(column, width)| match column {
        0 => "-".repeat(*width),
        _ => format!("{}:", "-".repeat(width - 1)),
    });
    let rule = line(&rule.collect::<Vec<_>>(), &widths);
    let mut drawn: Vec<String> = lines.iter().map(|cells| line(cells, &widths)).collect();
    drawn.insert(1, rule);
    drawn.concat()
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let cell = |(column, (text, width)): (usize, (&String, &usize))| match column {
        0 => format!("{text:<width$}"),
        _ => format!("{text:>width$}"),
    };
    let cells: Vec<String> = cells.iter().zip(widths).enumerate().map(cell).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// 45000 as 45,000.
pub fn number(n: impl Into<u64>) -> String {
    match n.into() {
        n @ 0..1_000 => n.to_string(),
        n => format!("{},{:03}", number(n / 1_000), n % 1_000),
    }
}

/// A time in the unit that suits it, with so many digits below ten milliseconds and from ten seconds on.
pub fn time(us: f64, below: usize, from: usize) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e4 => format!("{:.below$} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us if us < 1e7 => format!("{:.2} s", us / 1e6),
        us => format!("{:.from$} s", us / 1e6),
    }
}
