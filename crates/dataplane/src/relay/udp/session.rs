//! A UDP session: a client, and the socket by which one endpoint sees it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use kernel::socket::Local;

use crate::relay::choose::{Chosen, Tried};
use crate::relay::files::Permit;
use crate::relay::options::Options;

/// Who speaks to whom: a client, and the address of ours that it dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    pub(super) client: SocketAddr,
    pub(super) dialled: Option<IpAddr>,
}

/// A session.
#[derive(Debug)]
pub(in crate::relay) struct Session {
    /// The listener that its client speaks to.
    pub(super) listener: u32,
    pub(super) pair: Pair,
    /// The address of ours that answers come from.
    pub(super) local: Option<Local>,
    pub(super) line: Line,
    pub(super) last_used: Instant,
    pub(super) questions: u64,
    pub(super) answers: u64,
    pub(super) _file: Permit,
}

/// The way to an endpoint.
#[derive(Debug)]
pub(super) enum Line {
    /// It works, as far as we know.
    Up { socket: UdpSocket, chosen: Chosen },
    /// The endpoint is not there: the next datagram goes to another.
    Down { tried: Vec<Tried> },
}

impl Session {
    /// When it ends unless something comes.
    pub(super) fn ends(&self, options: &Options) -> Instant {
        self.last_used + self.patience(options)
    }

    fn patience(&self, options: &Options) -> Duration {
        if self.questions == 1 && self.answers == 1 {
            options.udp_idle_answered.min(options.udp_idle)
        } else {
            options.udp_idle
        }
    }

    /// The endpoint that it speaks to.
    pub(super) fn endpoint(&self) -> Option<SocketAddr> {
        match &self.line {
            Line::Up { chosen, .. } => Some(chosen.address),
            Line::Down { .. } => None,
        }
    }
}
