//! The switches: what goes wrong, for which requests, and how often.

use std::time::Duration;

use crate::http::Request;
use crate::store::Resource;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The server refuses with this status.
    Status {
        /// The code.
        code: u16,
        /// The header `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// The connection ends after so many bytes of the body.
    Cut {
        /// How many.
        after: usize,
    },
    /// The connection ends without an answer.
    Hangup,
    /// The answer is well-formed HTTP, and its body is not JSON.
    Garbage,
    /// The answer is not HTTP.
    NotHttp,
    /// The body goes out in small pieces, with this pause after each.
    Slow {
        /// The pause.
        pause: Duration,
    },
    /// A list is never answered; a watch begins and then says nothing, whatever happens.
    Silence,
    /// The watch ends at once with an event of the kind ERROR: 410, the version is too old.
    GoneEvent,
    /// The watch begins a line, and then says nothing.
    HalfLine,
    /// The watch begins with a line that is no JSON.
    BadLine,
}

/// For which requests.
#[derive(Clone, Copy, Debug)]
pub enum Requests {
    /// Every one.
    All,
    /// Those for this resource.
    Of(Resource),
    /// Lists of this resource, not streaming ones.
    Lists(Resource),
    /// Pages of this resource that are not the first of their list.
    SecondPages(Resource),
    /// Watches of this resource, also streaming lists.
    Watches(Resource),
}

impl Requests {
    fn has(self, resource: Resource, request: &Request) -> bool {
        let is_watch = request.flag("watch");
        match self {
            Requests::All => true,
            Requests::Of(wanted) => wanted == resource,
            Requests::Lists(wanted) => wanted == resource && !is_watch,
            Requests::SecondPages(wanted) => wanted == resource && request.query.contains_key("continue"),
            Requests::Watches(wanted) => wanted == resource && is_watch,
        }
    }
}

/// The switches that are on.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    on: Vec<(Requests, Fault, Option<usize>)>,
}

impl Faults {
    /// Turns one on, for so many requests.
    pub(crate) fn add(&mut self, requests: Requests, fault: Fault, times: Option<usize>) {
        self.on.push((requests, fault, times));
    }

    /// Turns all off.
    pub(crate) fn clear(&mut self) {
        self.on.clear();
    }

    /// What goes wrong with this request.
    pub(crate) fn take(&mut self, resource: Resource, request: &Request) -> Option<Fault> {
        let at = self
            .on
            .iter()
            .position(|(requests, _, left)| *left != Some(0) && requests.has(resource, request))?;
        let (_, fault, left) = &mut self.on[at];
        *left = left.map(|left| left - 1);
        Some(fault.clone())
    }
}
