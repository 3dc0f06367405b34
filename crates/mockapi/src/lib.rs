//! A Kubernetes API server for tests and benches: lists, watches, and every way in which they go wrong.
//!
//! Written from the documents of the API (resource versions, pages, bookmarks, streaming lists, selectors), not from our
//! client: what the client believes is tried against what the documents say.
//!
//! In: objects that a test puts, and switches for faults. Out: plain HTTP/1.1 on loopback, with TLS where wanted, one thread
//! per connection.
//!
//! | file | what it is for |
//! |---|---|
//! | `store` | objects, their versions, and what happened since |
//! | `selector` | label and field selectors |
//! | `http` | requests in, answers out |
//! | `serve` | who may come, and which answer a request gets |
//! | `list`, `watch` | the two answers |
//! | `events` | Events that clients write |
//! | `fault` | the switches |
//! | `server` | the listener and its connections |
//! | `tls` | certificates of a test's own |
//! | `kubeconfig` | files by which a client finds its way |
//! | `objects` | Services, slices and Nodes to put |
//!
//! Absent on purpose: writing anything but Events by HTTP, validation and defaults of objects. Tests put complete ones, or broken
//! ones.

mod events;
mod fault;
mod http;
mod kubeconfig;
mod list;
pub mod objects;
mod refusal;
mod selector;
mod serve;
mod server;
mod shared;
mod store;
mod tls;
mod watch;

pub use fault::{Fault, Requests};
pub use kubeconfig::{User, kubeconfig};
pub use server::{MockApi, Options};
pub use shared::{CidrApi, Offers, Seen};
pub use store::{Backup, EVENTS, NODES, Resource, SERVICE_CIDRS, SERVICES, SLICES};
pub use tls::{Certificates, signing_key};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A test that failed while it held the lock has said so already.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
