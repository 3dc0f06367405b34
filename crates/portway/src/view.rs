//! Loads the picture that a command shows. Nothing is written: what no Service was given yet is what `portway run` would give.

use std::time::{SystemTime, UNIX_EPOCH};

use model::time::Timestamp;
use model::{Config, Event};
use observe::picture::Picture;
use observe::socket;
use standalone::control_plane::ControlPlane;
use standalone::host::{self, HostFacts};
use standalone::ipam::StoreError;
use standalone::manifests::Source;

use super::args::Shared;
use super::said::Failure;

/// A picture and the moment at which it was taken.
#[derive(Debug)]
pub(super) struct View {
    /// The picture.
    pub(super) picture: Picture,
    /// Ages are counted from here.
    pub(super) now: Timestamp,
}

impl View {
    /// Reads the files that the options name. Where they name none, the running portway is asked.
    pub(super) fn open(shared: &Shared) -> Result<Self, Failure> {
        Self::open_with(shared, None)
    }

    /// The same, with the choices of a document where the options say nothing.
    pub(super) fn open_with(shared: &Shared, of_document: Option<&Config>) -> Result<Self, Failure> {
        if shared.named_sources().is_empty() {
            return Self::running(shared);
        }
        let (now, config) = (now(), shared.config(of_document)?);
        let mut source = Source::open(&shared.sources()?).map_err(|error| Failure::because(&error))?;
        let control_plane = ControlPlane::open(shared.preview(), now).map_err(|error| refusal(&error))?;
        let mut picture = Picture::new(config, control_plane, None);
        picture.follow(&mut source).map_err(|error| Failure::because(&error))?;
        if let Some(sentence) = source.refusal(picture.problems()) {
            return Err(Failure::refused(sentence));
        }
        let node = host::node(&picture.cluster().config().node_name);
        picture.describe_node(node);
        Ok(Self { picture, now })
    }

    /// As `portway run` would see it on this host: also with the addresses of the host that nobody names.
    pub(super) fn open_on_host(shared: &Shared, of_document: Option<&Config>) -> Result<Self, Failure> {
        let mut view = Self::open_with(shared, of_document)?;
        if view.picture.cluster().local_addresses().is_none() {
            let host = HostFacts::read(&view.picture.cluster().config().node_name);
            view.picture.take(host.addresses.map(Event::LocalAddresses));
        }
        Ok(view)
    }

    /// Asks the running portway.
    fn running(shared: &Shared) -> Result<Self, Failure> {
        let snapshot = socket::picture(shared.run_dir()).map_err(|error| {
            Failure::usage(format!(
                "no source of Services: {error}; add `--from FILE|DIR` (try `--from examples`), set PORTWAY_FROM, or \
                 start `portway run`"
            ))
        })?;
        Ok(Self { picture: Picture::of(snapshot), now: now() })
    }
}

/// Ranges that make no sense together are a mistake in the command line; anything else is one of the machine.
pub(super) fn refusal(error: &StoreError) -> Failure {
    match error {
        StoreError::Range { .. } => Failure::usage(error.to_string()),
        _ => Failure::because(error),
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
