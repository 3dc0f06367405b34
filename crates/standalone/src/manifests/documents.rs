//! Cuts the text of a file into its documents.
//!
//! In: text. Out: for each document that says anything its text, and the line on which it begins.
//!
//! YAML is cut at lines that begin with `---` or `...`. That is exact: the language forbids both at the start of a line
//! inside of any scalar, quoted, literal or plain. JSON values stand one after the other with any white space between.

use serde::de::IgnoredAny;

/// One document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// What it says.
    pub(super) text: &'a str,
    /// The line of the file on which `text` begins, counted from 1.
    pub(super) line_first: usize,
    /// The line of its first word, after comments and the `---`.
    pub(super) line: usize,
}

/// The documents of a YAML stream.
pub(super) fn yaml(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let mut cut = Cut { from: 0, line: 1 };
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let next = offset + line.len();
        if is_marker(line, "---") {
            documents.extend(cut.until(text, offset));
            cut = Cut { from: offset, line: index + 1 };
        } else if is_marker(line, "...") {
            documents.extend(cut.until(text, offset));
            cut = Cut { from: next, line: index + 2 };
        }
        offset = next;
    }
    documents.extend(cut.until(text, offset));
    documents
}

/// The documents of a JSON stream, or the line where it stops being one. A value is only skipped here, not checked.
pub(super) fn json(text: &str) -> Result<Vec<Document<'_>>, serde_json::Error> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let (mut from, mut line) = (0, 1);
    while let Some(value) = stream.next() {
        value?;
        let part = &text[from..stream.byte_offset()];
        let blank = part.len() - part.trim_start().len();
        documents.push(Document { text: part, line_first: line, line: line + newlines(&part[..blank]) });
        line += newlines(part);
        from = stream.byte_offset();
    }
    Ok(documents)
}

/// Where a document begins.
struct Cut {
    from: usize,
    line: usize,
}

impl Cut {
    /// The document that ends before `end`, when it says anything.
    fn until<'a>(&self, text: &'a str, end: usize) -> Option<Document<'a>> {
        let text = text.get(self.from..end)?;
        let skipped = text.lines().position(|line| !is_silent(line))?;
        Some(Document { text, line_first: self.line, line: self.line + skipped })
    }
}

/// Is this line a marker: at the left edge, and followed by nothing or white space?
fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Does this line say nothing: blank, a comment, a directive, or a `---` alone?
fn is_silent(line: &str) -> bool {
    let said = if is_marker(line, "---") { &line[3..] } else { line };
    let said = said.trim();
    said.is_empty() || said.starts_with('#') || line.starts_with('%')
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|&b| b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(usize, &str)> {
        yaml(text).into_iter().map(|document| (document.line, document.text)).collect()
    }

    #[test]
    fn documents_begin_at_their_first_word() {
        assert_eq!(cut("a: 1\n"), [(1, "a: 1\n")]);
        assert_eq!(
            cut("# hello\n\na: 1\n---\n# more\nb: 2"),
            [(3, "# hello\n\na: 1\n"), (6, "---\n# more\nb: 2")]
        );
        assert_eq!(cut("--- {a: 1}\r\n---\r\nb: 2\r\n"), [(1, "--- {a: 1}\r\n"), (3, "---\r\nb: 2\r\n")]);
    }

    #[test]
    fn empty_documents_are_none() {
        assert_eq!(cut(""), []);
        assert_eq!(cut("---\n---\n# nothing\n--- # neither\n...\n"), []);
        assert_eq!(cut("%YAML 1.2\n---\na: 1\n"), [(3, "---\na: 1\n")]);
    }

    #[test]
    fn a_longer_line_is_no_marker() {
        assert_eq!(cut("a: |\n  ---\n----\n---a\n").len(), 1);
    }

    #[test]
    fn an_end_marker_ends_a_document() {
        assert_eq!(cut("a: 1\n...\nb: 2\n"), [(1, "a: 1\n"), (3, "b: 2\n")]);
    }

    #[test]
    fn json_values_follow_each_other() {
        let lines: Vec<_> = json("{\n}\n\n{}{}").unwrap().iter().map(|d| (d.line_first, d.line)).collect();
        assert_eq!(lines, [(1, 1), (2, 4), (4, 4)]);
        assert_eq!(json("{}\n}").unwrap_err().line(), 2);
    }
}
