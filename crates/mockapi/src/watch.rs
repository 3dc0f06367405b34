//! Watches: what happens from a version on, one JSON object per line; with bookmarks, and with all objects first where that is
//! wanted.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{self, Request, Way};
use crate::list::too_large;
use crate::lock;
use crate::refusal::{refuse, status};
use crate::selector::Selector;
use crate::shared::{Peer, Shared};
use crate::store::{Resource, Store};

/// A watch looks so often whether it is to end.
const GLANCE: Duration = Duration::from_millis(20);
/// A watch without `timeoutSeconds` ends after so long.
const LONGEST: Duration = Duration::from_secs(1800);
/// Lines that go out together.
const CHUNK: usize = 64 << 10;

/// A watch under way.
struct Watch<'a> {
    resource: Resource,
    selector: Selector,
    /// What happened up to this version was sent.
    at: u64,
    bookmarks: Option<u64>,
    out: &'a mut dyn Write,
    way: Way,
    sent: usize,
}

/// Answers a watch, for as long as it lasts.
pub(crate) fn answer(
    shared: &Shared,
    peer: &Peer,
    resource: Resource,
    request: &Request,
    out: &mut dyn Write,
    way: Way,
) -> io::Result<()> {
    let wants_all = request.flag("sendInitialEvents");
    if wants_all && !lock(&shared.offers).streaming_lists {
        let message = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
                       for watch unless the WatchList feature gate is enabled";
        return refuse(out, 422, "Invalid", message, &[]);
    }
    if wants_all
        && !(request.parameter("resourceVersionMatch") == "NotOlderThan"
            && request.flag("allowWatchBookmarks"))
    {
        let message =
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan and allowing bookmarks";
        return refuse(out, 422, "Invalid", message, &[]);
    }
    let begin = lock(&shared.store).version;
    let wanted: u64 = request.parameter("resourceVersion").parse().unwrap_or(0);
    // A plain watch from a version that is yet to come is taken, as a real server does.
    if wanted > begin && wants_all {
        let (code, reason, message) = too_large(wanted, begin);
        return refuse(out, code, reason, &message, &[]);
    }
    let selector = Selector::read(request.parameter("labelSelector"), request.parameter("fieldSelector"));
    let bookmarks = request.flag("allowWatchBookmarks").then(|| lock(&shared.store).bookmarks);
    let seconds = request.parameter("timeoutSeconds").parse().ok().map(Duration::from_secs);
    http::begin_chunks(out)?;
    let mut watch = Watch { resource, selector, at: wanted, bookmarks, out, way, sent: 0 };
    if wants_all || wanted == 0 {
        watch.send_all(shared, wants_all)?;
    }
    watch.follow(shared, peer, Instant::now() + seconds.unwrap_or(LONGEST))
}

impl Watch<'_> {
    /// All objects as they are now, as if they were just added.
    fn send_all(&mut self, shared: &Shared, with_end: bool) -> io::Result<()> {
        let (objects, version) = {
            let store = lock(&shared.store);
            (store.list(self.resource, &self.selector), store.version)
        };
        self.at = version;
        let mut lines = String::new();
        for object in objects {
            lines.push_str(&line("ADDED", &object.text));
            if lines.len() >= CHUNK {
                self.send(&std::mem::take(&mut lines))?;
            }
        }
        if with_end {
            lines.push_str(&self.bookmark(true));
        }
        self.send(&lines)
    }

    fn follow(&mut self, shared: &Shared, peer: &Peer, until: Instant) -> io::Result<()> {
        loop {
            let Some(lines) = self.wait(shared, peer, until) else { return http::end_chunks(self.out) };
            self.send(&lines)?;
        }
    }

    /// The next lines; `None` when the watch is over.
    fn wait(&mut self, shared: &Shared, peer: &Peer, until: Instant) -> Option<String> {
        let mut store = lock(&shared.store);
        loop {
            let lines = self.lines(&store);
            if !lines.is_empty() {
                return Some(lines);
            }
            // A store that went back is another one: whoever watches must begin anew.
            if !peer.is_open() || Instant::now() >= until || store.version < self.at {
                return None;
            }
            store = shared
                .changed
                .wait_timeout(store, GLANCE)
                .map_or_else(|e| e.into_inner().0, |(store, _)| store);
        }
    }

    fn lines(&mut self, store: &Store) -> String {
        if self.at < store.compacted {
            // What is sent after this is nothing.
            self.at = u64::MAX;
            return line("ERROR", &status(410, "Expired", "too old resource version"));
        }
        let mut lines = String::new();
        for happened in store.since(self.at).iter().filter(|one| one.resource == self.resource) {
            if let Some((word, text)) = happened.seen_by(&self.selector) {
                lines.push_str(&line(word, text));
            }
        }
        self.at = self.at.max(store.version);
        if self.bookmarks.is_some_and(|sent| sent < store.bookmarks) {
            self.bookmarks = Some(store.bookmarks);
            lines.push_str(&self.bookmark(false));
        }
        lines
    }

    fn bookmark(&self, is_end_of_list: bool) -> String {
        let mut object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": self.at.to_string(), "creationTimestamp": null}
        });
        if is_end_of_list {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        line("BOOKMARK", &object.to_string())
    }

    fn send(&mut self, lines: &str) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        http::chunk(self.out, lines.as_bytes(), self.way, self.sent)?;
        self.sent += lines.len();
        Ok(())
    }
}

fn line(word: &str, object: &str) -> String {
    format!("{{\"type\":\"{word}\",\"object\":{object}}}\n")
}
