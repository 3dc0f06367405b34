//! The Kubernetes client: watches an API server and tells what changed, as facts of the model.
//!
//! ```text
//!   kubeconfig │ account ──access──► door ──► requests ──► answers ──► lines, pages ──object──► facts
//!                                     ▲                                                           │
//!                                     └── trouble, back-off ◄── follower (one per kind) ◄─────────┘──► News
//! ```
//!
//! In: how to reach the server, and the name of this node. Out: [`News`], one after the other: objects that changed, kinds that
//! are complete, and trouble, as a sentence. And the other way: what we have to say to the cluster, as Events (`announce`).
//!
//! Four promises. An object becomes a fact as soon as it is read, and nothing else of it is kept. Whatever the server does,
//! nothing is taken back that is not known to be gone. Nothing goes back in time: a picture older than ours is refused. And no
//! request comes sooner than the server wants, nor all nodes' requests at once.
//!
//! Absent on purpose: decisions, rules, and waiting for the kernel. kube's own watcher is not used: it hides the version of a
//! list and the bookmarks, by which we know how old our picture is (docs/decisions/0017-the-client-watches-by-itself.md).

mod access;
mod announce;
mod answer;
mod door;
mod failure;
mod follow;
mod heard;
mod known;
mod line;
mod lookup;
mod news;
mod object;
mod pace;
mod page;
mod plugin;
mod request;
mod run;
mod tls;
mod wording;

pub use access::{Access, AccessError, Account, KubeconfigFile};
pub use announce::{Announcement, Announcer, Regarding, Sending, Tone, announce_now};
pub use lookup::{NodeAnswers, NodeLookup};
pub use news::{News, Trigger, Trouble, Watched};
pub use pace::Pace;
pub use run::{Settings, watch};
