//! The repository as text: its files, Rust code without comments and strings, and the strings alone.
//!
//! In: a folder. Out: the files that belong to the project, with paths relative to it, in order.
//!
//! Absent on purpose: a Rust parser. To find a word or a pair of braces in code, blanking out
//! comments and literals is enough.

use anyhow::{Context, Result};
use std::path::Path;

/// One text file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads all text files below `root` that are the project's own.
pub(crate) fn read_tree(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    read_folder(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> Result<()> {
    let here = root.join(folder);
    for entry in std::fs::read_dir(&here).with_context(|| format!("cannot read {}", here.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && is_ours(&name) {
            read_folder(root, &path, files)?;
        } else if kind.is_file() && name != ".git" {
            // What is not text has nothing for us.
            if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

/// Whether a folder of this name holds files of the project.
fn is_ours(folder: &str) -> bool {
    matches!(folder, ".ci" | ".cargo" | ".config" | ".github")
        || !(folder == "target" || folder.starts_with('.'))
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// The Rust code with a blank in place of each character of a comment or a literal; lines stay lines.
    pub(crate) fn code(&self) -> String {
        code(&self.text)
    }

    /// The literals with a blank in place of each character of anything else; lines stay lines.
    #[cfg(test)]
    pub(crate) fn literals(&self) -> String {
        literals(&self.text)
    }
}

fn code(text: &str) -> String {
    keep(text, |part| part == Part::Code)
}

#[cfg(test)]
fn literals(text: &str) -> String {
    keep(text, |part| part == Part::Literal)
}

/// What a piece of the text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// The text with a blank in place of each character that is not kept.
fn keep(text: &str, is_kept: fn(Part) -> bool) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let (part, length) = match blank_length(&characters, at) {
            0 => (Part::Code, 1),
            length if characters[at] == '/' => (Part::Comment, length),
            length => (Part::Literal, length),
        };
        let end = (at + length).min(characters.len());
        let shown = |c: &char| if *c == '\n' || is_kept(part) { *c } else { ' ' };
        result.extend(characters[at..end].iter().map(shown));
        at = end;
    }
    result
}

/// The length of the comment or literal that begins here; 0 when none does.
fn blank_length(text: &[char], at: usize) -> usize {
    let next = text.get(at + 1).copied();
    let follows_a_word = at > 0 && is_word(text[at - 1]);
    match text[at] {
        '/' if next == Some('/') => text[at..].iter().take_while(|c| **c != '\n').count(),
        '/' if next == Some('*') => block_comment_length(&text[at..]),
        '"' => quoted_length(&text[at..], '"'),
        '\'' if next == Some('\\') || text.get(at + 2) == Some(&'\'') => quoted_length(&text[at..], '\''),
        'r' if !follows_a_word => raw_string_length(&text[at..]),
        'b' | 'c' if !follows_a_word && next == Some('r') => match raw_string_length(&text[at + 1..]) {
            0 => 0,
            length => length + 1,
        },
        _ => 0,
    }
}

fn block_comment_length(text: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn quoted_length(text: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of `r"…"` or `r#"…"#`; 0 for what only begins with an `r`.
fn raw_string_length(text: &[char]) -> usize {
    let hashes = text[1..].iter().take_while(|c| **c == '#').count();
    if text.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let body = &text[2 + hashes..];
    let is_end = |at: &usize| {
        body[*at] == '"' && body[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    match (0..body.len()).find(is_end) {
        Some(end) => 2 + hashes + end + 1 + hashes,
        None => text.len(),
    }
}

/// Where `word` begins, each time it stands in `code` as a whole word.
pub(crate) fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"a "b \" c" d"#, "a          d"),
            ("a r\"b\\\" c", "a       c"),
            ("a r#\"b\" c\"# d", "a           d"),
            ("a br\"b\" c", "a       c"),
            ("fn f<'a>(x: &'a str, y: 'b') {}", "fn f<'a>(x: &'a str, y:    ) {}"),
            (r"a '\'' b", "a      b"),
            ("let r#type = 1;", "let r#type = 1;"),
            ("bar(x)", "bar(x)"),
            ("\"unfinished", "           "),
            ("/* unfinished", "             "),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn literals_are_all_that_is_left_of_a_text() {
        for (text, expected) in [
            ("a \"b\" // \"c\"", "  \"b\"       "),
            ("f('a', r#\"b\"#) /* 'c' */", "  'a'  r#\"b\"#           "),
            ("\"a\nb\" c", "\"a\nb\"  "),
        ] {
            assert_eq!(literals(text), expected, "{text}");
        }
    }

    #[test]
    fn a_word_is_found_only_as_a_whole() {
        for (code, expected) in [("unsafe { unsafe }", 2), ("#![deny(unsafe_code)]", 0), ("my_unsafe()", 0)] {
            assert_eq!(word_positions(code, "unsafe").count(), expected, "{code}");
        }
    }

    #[test]
    fn the_tree_holds_this_file_and_nothing_built() {
        let files = read_tree(&crate::cargo::root()).expect("the repository can be read");
        assert!(files.iter().any(|file| file.path == "xtask/src/source.rs"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/") || file.path.starts_with(".git/")));
    }
}
