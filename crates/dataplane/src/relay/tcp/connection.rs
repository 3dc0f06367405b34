//! A connection: two sockets, and the bytes between them.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use kernel::poll::Event;
use kernel::socket::reset_on_close;

use super::direction::{Direction, End, Tools};
use crate::relay::choose::{Chosen, Tried};
use crate::relay::files::Permit;
use crate::relay::listener::Open;

/// A connection of a client.
#[derive(Debug)]
pub(in crate::relay) struct Connection {
    pub(super) listener: Arc<Open>,
    pub(super) client: TcpStream,
    pub(super) client_address: std::net::IpAddr,
    pub(super) stage: Stage,
    /// From the client to the endpoint.
    pub(super) inward: Direction,
    /// From the endpoint to the client.
    pub(super) outward: Direction,
    pub(super) _files: Permit,
    /// It came after the process was told to end.
    pub(super) is_late: bool,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// An endpoint is being dialled.
    Dialling(Box<Dialling>),
    /// Bytes flow.
    Open { endpoint: TcpStream, chosen: Chosen },
}

/// A dial, and those that failed before.
#[derive(Debug)]
pub(super) struct Dialling {
    /// The dial that is under way.
    pub(super) current: Option<(TcpStream, Chosen)>,
    pub(super) deadline: Instant,
    pub(super) tried: Vec<Tried>,
}

/// What a connection needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To be told of the next event.
    Wait,
    /// Another turn, once others have had theirs.
    Again,
    /// To be closed: all has been said.
    Close,
    /// To be closed with a reset.
    Abort,
}

impl Connection {
    /// Notes what the client's socket is ready for.
    pub(super) fn note_client(&mut self, event: Event) {
        self.inward.is_readable |= event.is_readable();
        self.inward.is_ending |= event.is_ended();
        self.outward.is_writable |= event.is_writable();
    }

    /// Notes what the endpoint's socket is ready for.
    pub(super) fn note_endpoint(&mut self, event: Event) {
        self.outward.is_readable |= event.is_readable();
        self.outward.is_ending |= event.is_ended();
        self.inward.is_writable |= event.is_writable();
    }

    /// Moves bytes both ways.
    pub(super) fn turn(&mut self, tools: &mut Tools) -> Next {
        let Stage::Open { endpoint, chosen } = &self.stage else { return Next::Wait };
        let inward = self.inward.turn(&self.client, endpoint, tools);
        let outward = self.outward.turn(endpoint, &self.client, tools);
        if inward.bytes + outward.bytes > 0 {
            let (bytes_in, bytes_out) = (inward.bytes as u64, outward.bytes as u64);
            chosen.tally.carried(bytes_in, bytes_out);
            self.listener.tally.carried(bytes_in, bytes_out);
        }
        self.next(inward.has_more || outward.has_more)
    }

    fn next(&self, has_more: bool) -> Next {
        let ends = [self.inward.end(), self.outward.end()];
        if ends.contains(&End::Reset) {
            // Whoever was reset takes nothing either: the other side learns it as it would without us.
            Next::Abort
        } else if self.inward.is_over() && self.outward.is_over() {
            // An endpoint may answer and close while the client still sends: the answer has to arrive.
            if self.outward.end() == End::Broken { Next::Abort } else { Next::Close }
        } else if has_more {
            Next::Again
        } else {
            Next::Wait
        }
    }

    /// Has both sockets end by a reset when they are closed.
    pub(super) fn reset(&self) {
        let endpoint = match &self.stage {
            Stage::Open { endpoint, .. } => Some(endpoint),
            Stage::Dialling(dialling) => dialling.current.as_ref().map(|(stream, _)| stream),
        };
        for stream in [Some(&self.client), endpoint].into_iter().flatten() {
            // If it cannot be set the connection ends anyway, more politely.
            let _polite = reset_on_close(stream);
        }
    }
}
