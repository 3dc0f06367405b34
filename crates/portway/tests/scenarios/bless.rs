//! `PORTWAY_BLESS=1`: what was found becomes what is expected. The difference is then reviewed as code.

use std::io;

use crate::run::Outcomes;
use crate::step::Scenario;

/// Writes what was found into the file: the lines below a step, except comments and reasons.
pub(crate) fn bless(scenario: &Scenario, outcomes: &Outcomes) -> io::Result<()> {
    let mut lines = scenario.lines.clone();
    // From the end, so that earlier places stay where they are.
    for (index, found) in outcomes.blessings.iter().rev() {
        let body = scenario.steps[*index].body.clone();
        let is_kept = |line: &&String| line.trim().starts_with("because ") || line.trim().starts_with('#');
        let kept: Vec<String> = lines[body.clone()].iter().filter(is_kept).cloned().collect();
        let found = found.iter().map(|line| format!("  {line}"));
        lines.splice(body, found.chain(kept));
    }
    std::fs::write(&scenario.path, lines.join("\n") + "\n")
}
