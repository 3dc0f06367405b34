//! Everything that is listened to: each has a thread that turns what it hears into events.

use std::io;
use std::sync::mpsc::SyncSender;

use config::kubeproxy::Reload;
use dataplane::DriftSource;
use kernel::host::Watch;
use kernel::signal::{Hangup, Termination};
use observe::http::{Board, Servers};
use observe::socket::Server;
use standalone::host::HostFacts;
use standalone::manifests::RereadRequest;

use super::feeds::{self, Rereads};
use super::origin::Opening;
use super::system;
use crate::error::RunError;
use crate::reconciler::Event;
use crate::takeover::Door;

/// Everything that is listened to.
pub(super) struct Outside {
    pub(super) termination: Termination,
    pub(super) hangup: Hangup,
    pub(super) source: Opening,
    pub(super) watch: Option<Watch>,
    pub(super) node_name: String,
    pub(super) host: HostFacts,
    pub(super) drift: Vec<DriftSource>,
    pub(super) server: Server,
    pub(super) servers: Servers,
    pub(super) board: Board,
    pub(super) door: Door,
    pub(super) reload: Option<Reload>,
}

impl Outside {
    /// Starts the threads that listen.
    pub(super) fn listen(mut self, sender: &SyncSender<Event>) -> Result<(), RunError> {
        if let Opening::Files(source) = &mut self.source {
            source.follow()?;
        }
        let start = || -> io::Result<()> {
            feeds::signals(self.termination, sender.clone())?;
            let mut rereads = Rereads::default();
            match self.source {
                Opening::Files(mut source) => {
                    let request = rereads.manifests.insert(RereadRequest::default());
                    source.reread_on(request);
                    feeds::files(source, request.clone(), sender.clone())?
                }
                Opening::Server(settings) => feeds::server(settings, sender.clone())?,
            };
            if let Some(watch) = self.watch {
                let keeps_addresses =
                    self.drift.iter().any(|source| matches!(source, DriftSource::HostEvents));
                feeds::addresses(watch, self.node_name, self.host, keeps_addresses, sender.clone())?;
            }
            for source in self.drift {
                if let DriftSource::Events(writes) = source {
                    feeds::meddling(writes, sender.clone())?;
                }
            }
            if let Some(reload) = self.reload {
                let request = rereads.config.insert(RereadRequest::default());
                feeds::config(reload, request.clone(), sender.clone())?;
            }
            feeds::reloads(self.hangup, rereads, sender)?;
            feeds::successors(self.door, sender.clone())?;
            feeds::questions(self.server, self.board, sender.clone())?;
            feeds::servers(self.servers, sender.clone())?;
            Ok(())
        };
        start().map_err(system("start a thread"))
    }
}

/// Addresses count from the moment at which the watch was opened, so it is opened before they are read.
pub(super) fn watch_host(node_name: &str) -> (Option<Watch>, HostFacts) {
    let watch = Watch::open()
        .inspect_err(|error| tracing::warn!(%error, "changes of this host's addresses will not be heard"))
        .ok();
    (watch, HostFacts::read(node_name))
}
