//! Every command that the examples and the help texts show is one that works.

use crate::harness::{Place, examples};

#[test]
fn the_commands_in_the_examples_work() {
    let mut shown = Vec::new();
    for entry in std::fs::read_dir(examples()).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        shown.extend(commands(&text, "#   portway "));
        shown.extend(commands(&text, "$ portway "));
    }
    assert!(shown.len() >= 10, "only {} commands were found: {shown:#?}", shown.len());
    run_all(&shown);
}

#[test]
fn the_commands_in_the_help_texts_work() {
    let place = Place::new();
    let mut shown = Vec::new();
    for command in ["", "get", "describe", "explain", "check"] {
        let help = place.plain(&format!("{command} --help")).ends_with(0).out;
        shown.extend(commands(&help, "  portway "));
    }
    shown.retain(|command| command.contains("--from examples"));
    assert!(shown.len() >= 12, "only {} commands were found: {shown:#?}", shown.len());
    run_all(&shown);
}

/// What follows `prompt` on its lines, without the quotes of a shell and without a remark behind it.
fn commands(text: &str, prompt: &str) -> Vec<String> {
    let arguments = text.lines().filter_map(|line| line.strip_prefix(prompt));
    arguments.map(|line| line.split("   ").next().unwrap_or_default().replace('\'', "")).collect()
}

fn run_all(commands: &[String]) {
    let place = Place::new();
    for command in commands {
        let without_source = command.replace("--from examples", "");
        place.on_examples(&without_source).fine();
    }
}
