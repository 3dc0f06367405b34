//! The command as the VM's shell reads it.
//!
//! In: a folder, variables and words. Out: the text of a script that does exactly that, whatever signs they hold.

use super::machine::Order;
use std::fmt::Write as _;

/// The variables that are handed on.
pub(super) fn inherited() -> Vec<(String, String)> {
    std::env::vars().filter(|(name, _)| is_handed_on(name)).collect()
}

fn is_handed_on(name: &str) -> bool {
    name.starts_with("PORTWAY_") || matches!(name, "PATH" | "HOME")
}

/// The script that carries out an order.
pub(super) fn of(order: &Order) -> String {
    let mut text = format!("cd {} || exit 125\n", quoted(&order.folder.to_string_lossy()));
    for (name, value) in &order.variables {
        let _ = writeln!(text, "export {name}={}", quoted(value));
    }
    // Tests that the kernel of a person's machine must not meet run where this is set.
    text.push_str("export PORTWAY_VM=1\nexec");
    for word in &order.command {
        let _ = write!(text, " {}", quoted(word));
    }
    text.push('\n');
    text
}

/// A word that the shell takes as it is.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_shell_gets_each_word_as_it_was() {
        let words = ["two words", "it's", "$HOME `id` \\", "", "*", "new\nline"];
        let order = Order {
            folder: "/".into(),
            command: ["printf", "%s|", "-"].into_iter().chain(words).map(str::to_owned).collect(),
            variables: vec![("PORTWAY_X".to_owned(), "a 'b'".to_owned())],
            limit: std::time::Duration::ZERO,
        };
        let output = Command::new("sh").arg("-c").arg(of(&order)).output().expect("there is a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("-|{}|", words.join("|")));
        let asked = Order { command: ["sh", "-c", "echo $PORTWAY_X"].map(str::to_owned).to_vec(), ..order };
        let output = Command::new("sh").arg("-c").arg(of(&asked)).output().expect("there is a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a 'b'\n");
    }

    #[test]
    fn only_ours_and_the_paths_are_handed_on() {
        for (name, expected) in
            [("PORTWAY_PATIENCE", true), ("PATH", true), ("CARGO", false), ("LANG", false)]
        {
            assert_eq!(is_handed_on(name), expected, "{name}");
        }
    }
}
