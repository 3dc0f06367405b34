//! The real thing: the sets of this thread's network namespace, by netlink. No `ipset` program.

use std::collections::BTreeSet;

use super::request::code;
use super::{Entry, Error, FoundSet, Ipsets, Refused, Request, Result, SetName, read, wire};
use crate::netlink::{self, Client, Errno, MessageWriter, Subsystem};

/// A connection to the kernel's sets.
#[derive(Debug)]
pub struct Netlink(Client);

impl Netlink {
    /// Opens the connection, in this thread's network namespace, and asks whether there are sets at all.
    pub fn open() -> Result<Self> {
        let mut client = Client::open(Subsystem::Netfilter)?;
        match client.ask("name its version of IP sets", wire::kind::PROTOCOL, wire::fixed, |_| Ok(())) {
            // The kernel knows no such subsystem.
            Err(error) if error.errno() == Some(Errno(libc::EINVAL)) => Err(Error::Missing),
            asked => Ok(asked.map(|()| Self(client))?),
        }
    }
}

impl Ipsets for Netlink {
    fn sets(&mut self) -> Result<Vec<FoundSet>> {
        let request = |m: &mut MessageWriter| wire::list(m, None);
        let mut found =
            self.0.list("IP sets", wire::kind::LIST, request, |_, body| Ok(read::piece(body, None)?.set))?;
        found.sort();
        Ok(found)
    }

    fn entries(&mut self, of: &SetName) -> Result<Option<BTreeSet<Entry>>> {
        let (mut kind, request) = (None, |m: &mut MessageWriter| wire::list(m, Some(of)));
        let listed = self.0.list("entries of an IP set", wire::kind::LIST, request, |_, body| {
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
        let asked =
            self.0.run_one(format_args!("look for {entry} in set {set}"), (wire::kind::TEST, 0), |m| {
                wire::fixed(m);
                wire::one(m, set, entry);
            });
        match asked.as_ref().map_err(netlink::Error::errno) {
            Ok(()) => Ok(Some(true)),
            Err(Some(Errno(code::EXISTS))) => Ok(Some(false)),
            Err(Some(Errno(libc::ENOENT))) => Ok(None),
            Err(_) => Ok(asked.map(|()| None)?),
        }
    }

    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>> {
        let mut refused = self.0.run(requests, wire::head, wire::request)?;
        // Older kernels say so, newer ones do not.
        refused.retain(|one| {
            !matches!((&one.request, one.refusal.errno), (Request::Destroy(_), Errno(libc::ENOENT)))
        });
        let is_denied = refused.iter().any(|one| one.refusal.errno.is_denial());
        if is_denied { Err(Error::NotPermitted) } else { Ok(refused) }
    }

    fn messages(&self) -> u64 {
        self.0.requests()
    }
}
