//! Where objects come from: manifests, or an API server.

use std::path::PathBuf;

use model::Config;
use standalone::control_plane::ControlPlane;
use standalone::ipam;
use standalone::manifests::Source;

use super::RunError;
use super::event::Now;
use crate::picture::Picture;

/// Where objects come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// From manifests.
    Files {
        /// Files and folders.
        from: Vec<PathBuf>,
        /// What Services are given.
        allocation: ipam::Options,
        /// A path without any object is meant.
        allow_empty: bool,
    },
    /// From an API server.
    Server(apiserver::Settings),
}

impl Origin {
    /// A picture into which nothing was read yet.
    pub(super) fn picture(&self, config: Config, now: Now) -> Result<Picture, RunError> {
        match self {
            Origin::Files { allocation, .. } => {
                Ok(Picture::new(config, ControlPlane::open(allocation.clone(), now.wall)?, None))
            }
            Origin::Server(_) => Ok(Picture::of_server(config)),
        }
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
