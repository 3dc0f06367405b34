//! The real thing: the sets of this thread's network namespace, by netlink. No `ipset` program.

use std::collections::BTreeSet;

use super::request::code;
use super::{Entry, Error, FoundSet, Ipsets, Refused, Request, Result, SetName, read, wire};
use crate::netlink::{self, Errno, MessageWriter, Protocol, Socket};

/// A connection to the kernel's sets.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    messages: u64,
}

impl Netlink {
    /// Opens the connection, in this thread's network namespace, and asks whether there are sets at all.
    pub fn open() -> Result<Self> {
        let mut socket = Socket::open(Protocol::Netfilter)?;
        socket.expect_batches()?;
        let asked = socket.ask("name its version of IP sets", wire::kind::PROTOCOL, wire::fixed, |_| Ok(()));
        match asked {
            // The kernel knows no such subsystem.
            Err(error) if error.errno() == Some(Errno(libc::EINVAL)) => Err(Error::Missing),
            asked => Ok(asked.map(|()| Self { socket, messages: 1 })?),
        }
    }

    fn count(&mut self, messages: usize) {
        self.messages += u64::try_from(messages).unwrap_or(u64::MAX);
    }
}

impl Ipsets for Netlink {
    fn sets(&mut self) -> Result<Vec<FoundSet>> {
        self.count(1);
        let request = |m: &mut MessageWriter| wire::list(m, None);
        let mut found = self
            .socket
            .list("IP sets", wire::kind::LIST, request, |_, body| Ok(read::piece(body, None)?.set))?;
        found.sort();
        Ok(found)
    }

    fn entries(&mut self, of: &SetName) -> Result<Option<BTreeSet<Entry>>> {
        self.count(1);
        let (mut kind, request) = (None, |m: &mut MessageWriter| wire::list(m, Some(of)));
        let listed = self.socket.list("entries of an IP set", wire::kind::LIST, request, |_, body| {
            let piece = read::piece(body, kind)?;
            kind = piece.set.map_or(kind, |set| set.kind);
            Ok(Some(piece.entries))
        });
        match listed {
            Ok(pieces) => Ok(Some(pieces.into_iter().flatten().collect())),
            Err(error) if error.errno() == Some(Errno(libc::ENOENT)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn contains(&mut self, set: &SetName, entry: &Entry) -> Result<Option<bool>> {
        self.count(1);
        let refusals = self.socket.run_all(
            &[()],
            |()| (wire::kind::TEST, 0),
            |m, ()| {
                wire::fixed(m);
                wire::one(m, set, entry);
            },
        )?;
        match refusals.into_iter().next().map(|(_, refusal)| refusal) {
            None => Ok(Some(true)),
            Some(refusal) if refusal.errno.0 == code::EXISTS => Ok(Some(false)),
            Some(refusal) if refusal.errno.0 == libc::ENOENT => Ok(None),
            Some(refusal) => {
                let action = format!("look for {entry} in set {set}");
                Err(netlink::Error::Refused { action, refusal }.into())
            }
        }
    }

    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>> {
        self.count(requests.len());
        let refusals = self.socket.run_all(requests, wire::head, wire::request)?;
        let mut refused = Vec::with_capacity(refusals.len());
        for (at, refusal) in refusals {
            match (&requests[at], refusal.errno.0) {
                (_, libc::EPERM | libc::EACCES) => return Err(Error::NotPermitted),
                // Older kernels say so, newer ones do not.
                (Request::Destroy(_), libc::ENOENT) => {}
                (request, _) => refused.push(Refused { at, request: request.clone(), refusal }),
            }
        }
        Ok(refused)
    }

    fn messages(&self) -> u64 {
        self.messages
    }
}
