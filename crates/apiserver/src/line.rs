//! A line of a watch.

use serde::Deserialize;
use serde_json::Value;

use model::Report;

use crate::answer::{Status, garbage, meaning};
use crate::failure::{Failure, Verb};
use crate::news::Watched;
use crate::object::{Pruned, Seen, read, version_of};

/// What a line says.
#[derive(Debug)]
pub(crate) enum Line {
    /// This is how an object is now.
    Applied(Seen),
    /// It is gone.
    Gone(Seen),
    /// An object came of which nothing can be used.
    Unreadable(Report),
    /// Everything up to this version was told.
    Bookmark {
        version: String,
        /// All objects that there were at the begin were told.
        is_end_of_list: bool,
    },
    /// It says what we do not know, and do not need.
    Unknown,
}

/// The annotation on the bookmark that ends a streaming list.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    word: String,
    #[serde(default)]
    object: Pruned,
}

/// Reads a line about this kind.
pub(crate) fn read_line(of: Watched, text: &[u8]) -> Result<Line, Failure> {
    let Wire { word, object: Pruned(object) } =
        serde_json::from_slice(text).map_err(|error| garbage(of, text, &error))?;
    let line = match word.as_str() {
        "ADDED" | "MODIFIED" => read(of, &object).map(Line::Applied),
        "DELETED" => read(of, &object).map(Line::Gone),
        "BOOKMARK" => Ok(bookmark(&object)),
        "ERROR" => return Err(error(of, object)),
        _ => Ok(Line::Unknown),
    };
    Ok(line.unwrap_or_else(Line::Unreadable))
}

fn bookmark(object: &Value) -> Line {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let end = annotations.and_then(|annotations| annotations.get(END_OF_LIST)).and_then(Value::as_str);
    Line::Bookmark { version: version_of(object).to_owned(), is_end_of_list: end == Some("true") }
}

fn error(of: Watched, object: Value) -> Failure {
    let status: Status = serde_json::from_value(object).unwrap_or_default();
    let code = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    meaning(code, &status, None, (Verb::Watch, of))
}
