//! Requests and answers as text.

use std::io::{self, Write};

use serde::Serialize;

use super::wire;
use crate::question::{Answer, Question};

/// The version of the words. Another one is refused.
const VERSION: u32 = 1;
/// No request is longer.
pub(super) const REQUEST_MAX: u64 = 128;

/// A request, with the end of its line.
pub(super) fn request(question: Question) -> String {
    format!("portway/{VERSION} {}\n", name(question))
}

/// Reads a request. The error is a sentence for the other end.
pub(super) fn question(line: &str) -> Result<Question, String> {
    let (version, word) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
    if version != format!("portway/{VERSION}") {
        return Err(format!(
            "this portway ({}) speaks `portway/{VERSION}`: ask with a portway of its version",
            env!("CARGO_PKG_VERSION")
        ));
    }
    let known = [Question::Picture, Question::Status, Question::Readiness, Question::Traffic];
    known.into_iter().find(|question| name(*question) == word).ok_or_else(|| {
        "this portway can be asked for `picture`, `status`, `readiness` and `traffic`: ask with a portway of its version".to_owned()
    })
}

/// Writes an answer, or why there is none, as one line.
pub(crate) fn write(to: &mut impl Write, answer: &Result<Answer, String>) -> io::Result<()> {
    match answer {
        Ok(Answer::Status(status)) => {
            put(to, &Envelope { portway: VERSION, answer: Some(status), error: None })
        }
        Ok(Answer::Readiness(readiness)) => {
            put(to, &Envelope { portway: VERSION, answer: Some(readiness), error: None })
        }
        Ok(Answer::Traffic(traffic)) => {
            put(to, &Envelope { portway: VERSION, answer: Some(traffic), error: None })
        }
        Ok(Answer::Picture(picture)) => {
            let answer = Some(wire::Picture::of(picture));
            put(to, &Envelope { portway: VERSION, answer, error: None })
        }
        // The metrics page alone asks for it.
        Ok(Answer::Counted(_)) => refuse(to, "this is on the metrics page"),
        Ok(Answer::NotYet(reason)) => refuse(to, reason),
        Err(error) => refuse(to, error),
    }
}

fn refuse(to: &mut impl Write, error: &str) -> io::Result<()> {
    put(to, &Envelope::<()> { portway: VERSION, answer: None, error: Some(error) })
}

fn put(to: &mut impl Write, envelope: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, envelope)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// What goes over the wire.
#[derive(Debug, Serialize)]
struct Envelope<'a, T> {
    portway: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Opens what came over the wire. The error is a sentence.
pub(super) fn open(text: &[u8]) -> Result<serde_json::Value, String> {
    let mut envelope: serde_json::Value =
        serde_json::from_slice(text).map_err(|error| format!("its answer makes no sense: {error}"))?;
    if let Some(error) = envelope["error"].as_str() {
        return Err(error.to_owned());
    }
    if envelope["portway"] != VERSION {
        return Err("it speaks another version: use a portway of its version".to_owned());
    }
    Ok(envelope["answer"].take())
}

fn name(question: Question) -> &'static str {
    match question {
        Question::Picture => "picture",
        Question::Status => "status",
        Question::Readiness => "readiness",
        Question::Traffic => "traffic",
        Question::Counted => "counted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for asked in [Question::Picture, Question::Status, Question::Readiness, Question::Traffic] {
            assert_eq!(question(&request(asked)), Ok(asked));
        }
    }

    #[test]
    fn other_words_are_refused_with_the_way_out() {
        for bad in ["", "status", "portway/2 status", "portway/1 delete", "GET / HTTP/1.1", "portway/1"] {
            let sentence = question(bad).unwrap_err();
            assert!(sentence.contains("version"), "{bad}: {sentence}");
        }
    }
}
