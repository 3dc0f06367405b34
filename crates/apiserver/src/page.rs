//! A page of a list.

use serde::Deserialize;

use model::Report;

use crate::answer::garbage;
use crate::failure::Failure;
use crate::news::Watched;
use crate::object::{Pruned, Seen, read};

/// A page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Result<Seen, Report>>,
    /// The version of the whole list.
    pub(crate) version: String,
    /// What to ask the next page with; empty on the last one.
    pub(crate) token: String,
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    /// Absent and `null` are written for an empty list.
    items: Option<Vec<Pruned>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

/// Reads a page of this kind.
pub(crate) fn read_page(of: Watched, text: &[u8]) -> Result<Page, Failure> {
    let Wire { metadata, items } = serde_json::from_slice(text).map_err(|error| garbage(of, text, &error))?;
    let items = items.unwrap_or_default().iter().map(|Pruned(object)| read(of, object)).collect();
    Ok(Page { items, version: metadata.resource_version, token: metadata.token.unwrap_or_default() })
}
