//! The figures as a table.

use std::fmt::Write as _;

use crate::Size;

/// Repairs at the smallest size are to be done within this time, 99 of 100.
const GOAL_MS: f64 = 100.0;

pub(crate) fn render(sizes: &[Size]) -> String {
    let mut text = String::from(
        "From the start of the process, or from the moment the damage is in force, until the kernel holds everything; in ms.\n\n",
    );
    header(&mut text, sizes);
    row(&mut text, "start on an empty kernel", sizes, |size| median(&size.start));
    row(&mut text, "kill -9 and start again", sizes, |size| median(&size.restart));
    row(&mut text, "hand-over (`--take-over`)", sizes, |size| median(&size.hand_over));
    for index in 0..sizes.first().map_or(0, |size| size.repairs.len()) {
        let damage = sizes[0].repairs[index].damage;
        row(&mut text, &format!("{damage}, repaired: p50 / p99"), sizes, |size| {
            let took = &size.repairs[index].took;
            format!("{:.1} / {:.1}", quantile(took, 50), quantile(took, 99))
        });
    }
    let worst = sizes.first().map_or(0.0, |size| {
        size.repairs.iter().map(|repairs| quantile(&repairs.took, 99)).fold(0.0, f64::max)
    });
    let verdict = if worst <= GOAL_MS { "met" } else { "missed" };
    let count = sizes.first().and_then(|size| size.repairs.first()).map_or(0, |repairs| repairs.took.len());
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nGoal: 99 of 100 repairs within {GOAL_MS:.0} ms at {}: {worst:.1} ms, {verdict} ({count} of each kind; at larger sizes \
         a tenth).",
        number(sizes.first().map_or(0, |size| size.services)),
    );
    text
}

fn header(text: &mut String, sizes: &[Size]) {
    let names: Vec<String> = sizes.iter().map(|size| format!("{} services", number(size.services))).collect();
    let _ = writeln!(text, "| moment | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(names.len()));
}

fn row(text: &mut String, name: &str, sizes: &[Size], figure: impl Fn(&Size) -> String) {
    let figures: Vec<String> = sizes.iter().map(figure).collect();
    let _ = writeln!(text, "| {name} | {} |", figures.join(" | "));
}

fn median(samples: &[f64]) -> String {
    format!("{:.0}", quantile(samples, 50))
}

fn quantile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// 45000 as 45,000.
fn number(number: u32) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}
