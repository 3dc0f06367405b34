//! The real thing: IPVS of this thread's network namespace, by generic netlink. No `ipvsadm` program.
//!
//! The number of its family is asked once, when it is opened; it lasts as long as the module is loaded.

use super::{
    Counts, Error, FoundServer, Ipvs, Refused, Request, Result, Timeouts, VirtualServer, What, read, wire,
};
use crate::netlink::{Errno, MessageWriter, Protocol, Socket};

/// A connection to the kernel's IPVS.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    family: u16,
    messages: u64,
}

impl Netlink {
    /// Opens the connection, in this thread's network namespace.
    pub fn open() -> Result<Self> {
        let mut socket = Socket::open(Protocol::Generic)?;
        socket.expect_batches()?;
        let family = family(&mut socket)?;
        Ok(Self { socket, family, messages: 1 })
    }

    fn count(&mut self, messages: usize) {
        self.messages += u64::try_from(messages).unwrap_or(u64::MAX);
    }
}

/// The kernel's number for IPVS.
fn family(socket: &mut Socket) -> Result<u16> {
    use wire::control::{FAMILY_NAME, GET_FAMILY, KIND};
    let request = |m: &mut MessageWriter| {
        wire::fixed(m, GET_FAMILY);
        m.text(FAMILY_NAME, wire::FAMILY);
    };
    let found = socket.ask("name the family IPVS", KIND, request, read::family_id);
    found.map_err(|error| match error.errno() {
        Some(Errno(libc::ENOENT)) => Error::Missing,
        _ => error.into(),
    })
}

impl Ipvs for Netlink {
    fn virtual_servers(&mut self) -> Result<Vec<VirtualServer>> {
        self.count(1);
        let request = |m: &mut MessageWriter| wire::fixed(m, wire::command::GET_SERVICE);
        let mut found = self
            .socket
            .list("virtual servers", self.family, request, |_, body| read::virtual_server(body).map(Some))?;
        found.sort();
        Ok(found)
    }

    fn real_servers(&mut self, of: &What) -> Result<Vec<FoundServer>> {
        self.count(1);
        let request = |m: &mut MessageWriter| wire::named(m, wire::command::GET_SERVER, of);
        let mut found = self.socket.list("real servers", self.family, request, |_, body| {
            read::real_server(body, of.family()).map(Some)
        })?;
        found.sort();
        Ok(found)
    }

    fn carried(&mut self) -> Result<Vec<(What, Counts)>> {
        self.count(1);
        let request = |m: &mut MessageWriter| wire::fixed(m, wire::command::GET_SERVICE);
        let mut found = self
            .socket
            .list("virtual servers", self.family, request, |_, body| read::carried(body).map(Some))?;
        found.sort_unstable();
        Ok(found)
    }

    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>> {
        self.count(requests.len());
        let family = self.family;
        let refusals = self.socket.run_all(requests, |_| (family, 0), wire::request)?;
        let mut refused = Vec::with_capacity(refusals.len());
        for (at, refusal) in refusals {
            if matches!(refusal.errno, Errno(libc::EPERM | libc::EACCES)) {
                return Err(Error::NotPermitted);
            }
            refused.push(Refused { at, request: requests[at].clone(), refusal });
        }
        Ok(refused)
    }

    fn timeouts(&mut self) -> Result<Timeouts> {
        self.count(1);
        let request = |m: &mut MessageWriter| wire::fixed(m, wire::command::GET_CONFIG);
        Ok(self.socket.ask("read timeouts", self.family, request, read::timeouts)?)
    }

    fn messages(&self) -> u64 {
        self.messages
    }
}
