//! What was wrong with an object, said by object, field and value.
//!
//! A report never stops anything: the good part of the object is in force, and so is everything else.

use std::fmt;

use crate::name::ObjectRef;

/// One thing that is wrong with one field of one object, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// The object.
    pub object: ObjectRef,
    /// The path of the field, as in `spec.ports[0].port`.
    pub field: Box<str>,
    /// The offending value, shortened and made printable.
    pub value: Box<str>,
    /// What is wrong, and what happens now.
    pub problem: Box<str>,
    /// How much of what the object asks for is lost by it.
    pub severity: Severity,
}

/// How much of what an object asks for is lost by what is wrong with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A part of the object has no effect, or another one than was written.
    #[default]
    Error,
    /// The object has the effect that it would have without the field.
    Warning,
}

impl Report {
    /// A report; `value` may be anything, of any length.
    pub fn new(object: ObjectRef, field: &str, value: &str, problem: impl Into<Box<str>>) -> Self {
        Self {
            object,
            field: field.into(),
            value: printable(value),
            problem: problem.into(),
            severity: Severity::Error,
        }
    }

    /// The same, of something by which nothing is lost.
    #[must_use]
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// What is wrong, without what happens now: a caller that does something else about it says that instead.
    pub fn complaint(&self) -> String {
        let problem = self.problem.split("; ").next().unwrap_or_default();
        let value = if self.value.is_empty() { String::new() } else { format!(" `{}`", self.value) };
        format!("{}: {}{value}: {problem}", self.object, self.field)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.field)?;
        if !self.value.is_empty() {
            write!(f, " `{}`", self.value)?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// At most 80 characters of `text`, with control characters escaped: a value is shown to people, on terminals.
fn printable(text: &str) -> Box<str> {
    const LONGEST: usize = 80;
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}
