//! A Markdown table with its columns aligned, so that it reads well on a screen too.

/// Draws a table; the first column is aligned left, all others right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = line(&head, &widths);
    let rule = |(column, width): (usize, &usize)| {
        if column == 0 { "-".repeat(*width) } else { format!("{}:", "-".repeat(width - 1)) }
    };
    let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
    text.push_str(&line(&rules, &widths));
    text.extend(rows.iter().map(|row| line(row, &widths)));
    text
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let cell = |(column, width): (usize, &usize)| {
        let text = cells.get(column).map_or("", String::as_str);
        if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
    };
    let cells: Vec<String> = widths.iter().enumerate().map(cell).collect();
    format!("| {} |\n", cells.join(" | "))
}
