//! Lists: all at once, or in pages that belong to one version.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::json;

use crate::http::{self, Request, Way};
use crate::lock;
use crate::refusal::refuse;
use crate::selector::Selector;
use crate::shared::{Page, Shared};
use crate::store::{Resource, Stored};

/// Answers a list.
pub(crate) fn answer(
    shared: &Shared,
    resource: Resource,
    request: &Request,
    out: &mut dyn Write,
    way: Way,
) -> io::Result<()> {
    let token = request.parameter("continue");
    let page = if token.is_empty() { first(shared, resource, request) } else { next(shared, token) };
    let mut page = match page {
        Ok(page) => page,
        Err((code, reason, message)) => return refuse(out, code, reason, &message, &[]),
    };
    let limit = request.parameter("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let later = page.rest.split_off(page.rest.len().min(limit));
    let body = body(resource, &page, shared, later);
    http::send(out, 200, &[], body.as_bytes(), way)
}

type Refusal = (u16, &'static str, String);

fn first(shared: &Shared, resource: Resource, request: &Request) -> Result<Page, Refusal> {
    let selector = Selector::read(request.parameter("labelSelector"), request.parameter("fieldSelector"));
    let store = lock(&shared.store);
    let wanted: u64 = request.parameter("resourceVersion").parse().unwrap_or(0);
    if wanted > store.version {
        return Err(too_large(wanted, store.version));
    }
    let rest = store.list(resource, &selector);
    Ok(Page { version: store.version, rest })
}

/// The version that somebody wants is not here yet.
pub(crate) fn too_large(wanted: u64, current: u64) -> Refusal {
    (504, "Timeout", format!("Too large resource version: {wanted}, current: {current}"))
}

/// Pages of one list are of one version. When that was compacted the rest is gone.
fn next(shared: &Shared, token: &str) -> Result<Page, Refusal> {
    let compacted = lock(&shared.store).compacted;
    let page = lock(&shared.pages).begun.remove(token);
    page.filter(|page| page.version >= compacted).ok_or_else(|| {
        (
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result.".to_owned(),
        )
    })
}

fn body(resource: Resource, page: &Page, shared: &Shared, later: Vec<Arc<Stored>>) -> String {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if !later.is_empty() {
        let mut pages = lock(&shared.pages);
        pages.count += 1;
        let token = format!("page/{}+{}", page.version, pages.count);
        metadata["continue"] = json!(token);
        metadata["remainingItemCount"] = json!(later.len());
        pages.begun.insert(token, Page { version: page.version, rest: later });
    }
    let items: Vec<&str> = page.rest.iter().map(|object| object.text.as_str()).collect();
    format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[{}]}}\n",
        resource.kind,
        resource.api_version(),
        items.join(",")
    )
}
