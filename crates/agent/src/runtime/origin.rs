//! Where objects come from: manifests, or an API server.

use config::{Origin, Settings};
use observe::picture::Picture;
use standalone::control_plane::ControlPlane;
use standalone::manifests::Source;

use crate::error::RunError;
use crate::reconciler::Now;

/// A picture into which nothing was read yet.
pub(super) fn picture_of(settings: &Settings, now: Now) -> Result<Picture, RunError> {
    let config = settings.config.clone();
    match &settings.origin {
        Origin::Files { allocation, .. } => {
            Ok(Picture::new(config, ControlPlane::open(allocation.clone(), now.seconds())?, None))
        }
        Origin::Server(_) => Ok(Picture::of_server(config)),
    }
}

/// What objects come from, opened.
pub(super) enum Opening {
    Files(Source),
    Server(apiserver::Settings),
}

impl Opening {
    /// Refuses what is named wrongly. A server need not be there yet.
    pub(super) fn of(origin: &Origin) -> Result<(Self, Option<String>), RunError> {
        match origin {
            Origin::Files { from, allow_empty, allocation } => {
                let mut source = Source::open(from)?;
                source.limit_node_ports(allocation.node_port_range.clone());
                if *allow_empty {
                    source.allow_empty();
                }
                Ok((Opening::Files(source), None))
            }
            Origin::Server(settings) => {
                let address = settings.access.address()?;
                Ok((Opening::Server(settings.clone()), Some(address)))
            }
        }
    }
}
