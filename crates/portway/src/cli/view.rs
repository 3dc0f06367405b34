//! Loads the picture that a command shows.

use std::time::{SystemTime, UNIX_EPOCH};

use model::Event;
use model::facts::Fact;
use model::time::Timestamp;

use super::args::Shared;
use super::host;
use super::said::Failure;
use crate::embedded::{Embedded, StoreError};
use crate::manifests::Source;
use crate::picture::Picture;

/// May the addresses that Services are given be remembered?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// They are kept in the state folder: the next command sees the same.
    Kept,
    /// Nothing is written.
    DryRun,
}

/// A picture and the moment at which it was taken.
#[derive(Debug)]
pub(super) struct View {
    /// The picture.
    pub(super) picture: Picture,
    /// Ages are counted from here.
    pub(super) now: Timestamp,
}

impl View {
    /// Reads the files that the options name.
    pub(super) fn open(shared: &Shared, memory: Memory) -> Result<Self, Failure> {
        let (now, config) = (now(), shared.config()?);
        let mut source = Source::open(&shared.sources()?).map_err(|error| Failure::because(&error))?;
        let options = shared.allocation(memory == Memory::DryRun);
        let embedded = Embedded::open(options, now).map_err(|error| refusal(&error))?;
        let mut picture = Picture::new(config, embedded, None);
        picture.follow(&mut source).map_err(|error| Failure::because(&error))?;
        describe_node(&mut picture);
        Ok(Self { picture, now })
    }
}

/// Ranges that make no sense together are a mistake in the command line; anything else is one of the machine.
fn refusal(error: &StoreError) -> Failure {
    match error {
        StoreError::Range { .. } => Failure::usage(error.to_string()),
        _ => Failure::because(error),
    }
}

/// Where nobody says what addresses this node has, it has those of this host.
fn describe_node(picture: &mut Picture) {
    let cluster = picture.cluster();
    if cluster.config().node_ips.is_empty() && cluster.node().is_none() {
        let node = host::node(&cluster.config().node_name);
        picture.take(node.map(|node| Event::Apply(Fact::Node(node))));
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
