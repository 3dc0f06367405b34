//! Aligned columns, as kubectl prints them: three spaces between, none at the end of a line.

use std::fmt;

/// Rows under a heading.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading and no rows.
    pub(super) fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![heading.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Has it no rows?
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
        (0..columns).map(|column| self.rows.iter().map(|row| width(row, column)).max().unwrap_or(0)).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("   ").trim_end())?;
        }
        Ok(())
    }
}

/// Text of an object, made safe for a terminal: control characters are escaped.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["NAME", "AGE"]);
        table.push(["a-long-name".to_owned(), "1d".to_owned()]);
        table.push(["b\u{1b}[31m".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "NAME          AGE\na-long-name   1d\nb\\u{1b}[31m\n");
    }
}
