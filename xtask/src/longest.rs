//! Measures files and functions, for interest: nothing fails for its length.
//!
//! In: the repository. Out: the ten longest files and the ten longest functions, in lines.

use crate::source::{File, read_tree, word_positions};
use std::path::Path;

const SHOWN: usize = 10;

/// Two lines of text that name the longest files and functions.
pub(crate) fn report(root: &Path) -> String {
    match read_tree(root) {
        Ok(files) => describe(&files),
        Err(error) => format!("the sizes of files cannot be told: {error:#}"),
    }
}

/// Something with a name that has a number of lines.
#[derive(Debug, PartialEq, Eq)]
struct Sized {
    name: String,
    lines: usize,
}

fn describe(files: &[File]) -> String {
    let rust = || files.iter().filter(|file| file.is_rust());
    let by_file = rust().map(|file| Sized { name: file.path.clone(), lines: file.text.lines().count() });
    let by_function = rust().flat_map(functions);
    format!(
        "longest files: {}\nlongest functions: {}",
        longest(by_file.collect()),
        longest(by_function.collect())
    )
}

fn longest(mut all: Vec<Sized>) -> String {
    all.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.name.cmp(&b.name)));
    let shown: Vec<String> =
        all.iter().take(SHOWN).map(|one| format!("{} {}", one.name, one.lines)).collect();
    shown.join(", ")
}

/// The functions of a file that have a body.
fn functions(file: &File) -> Vec<Sized> {
    let code = file.code();
    let measured = word_positions(&code, "fn").filter_map(|at| {
        let lines = code[at..at + body_end(&code[at..])?].lines().count();
        let name: String =
            code[at + 2..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!name.is_empty()).then(|| Sized { name: format!("{}:{name}", file.path), lines })
    });
    measured.collect()
}

/// Where the body of the function at the start of `code` ends; none when a `;` comes before any body.
pub(crate) fn body_end(code: &str) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.checked_sub(1)?,
            // The `;` of an array type such as `[u8; 4]` ends no declaration.
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_name_to_brace() {
        let text = "trait T {\n    fn declared(&self, x: [u8; 4]);\n}\nfn long(x: [u8; 4]) {\n    if x {\n    }\n}\nfn short() {}\n";
        let file = File { path: "a.rs".to_owned(), text: text.to_owned() };
        let expected = [("a.rs:long", 4), ("a.rs:short", 1)];
        let seen = functions(&file);
        assert_eq!(seen.iter().map(|f| (f.name.as_str(), f.lines)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_longest_files_and_functions_are_shown() {
        println!("{}", report(&crate::cargo::root()));
    }
}
