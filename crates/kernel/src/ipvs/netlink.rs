//! The real thing: IPVS of this thread's network namespace, by generic netlink. No `ipvsadm` program.
//!
//! The number of its family is asked once, when it is opened; it lasts as long as the module is loaded.

use super::{
    Counts, Error, FoundServer, Ipvs, Refused, Request, Result, Timeouts, VirtualServer, What, read, wire,
};
use crate::netlink::{Client, Errno, MessageWriter, Subsystem};

/// A connection to the kernel's IPVS.
#[derive(Debug)]
pub struct Netlink {
    client: Client,
    family: u16,
}

impl Netlink {
    /// Opens the connection, in this thread's network namespace.
    pub fn open() -> Result<Self> {
        let mut client = Client::open(Subsystem::Generic)?;
        match client.family(wire::FAMILY) {
            Err(error) if error.errno() == Some(Errno(libc::ENOENT)) => Err(Error::Missing),
            family => Ok(Self { family: family?, client }),
        }
    }
}

impl Ipvs for Netlink {
    fn virtual_servers(&mut self) -> Result<Vec<VirtualServer>> {
        let request = |m: &mut MessageWriter| wire::fixed(m, wire::command::GET_SERVICE);
        let mut found = self
            .client
            .list("virtual servers", self.family, request, |_, body| read::virtual_server(body).map(Some))?;
        found.sort();
        Ok(found)
    }

    fn real_servers(&mut self, of: &What) -> Result<Vec<FoundServer>> {
        let request = |m: &mut MessageWriter| wire::named(m, wire::command::GET_SERVER, of);
        let mut found = self.client.list("real servers", self.family, request, |_, body| {
            read::real_server(body, of.family()).map(Some)
        })?;
        found.sort();
        Ok(found)
    }

    fn carried(&mut self) -> Result<Vec<(What, Counts)>> {
        let request = |m: &mut MessageWriter| wire::fixed(m, wire::command::GET_SERVICE);
        let mut found = self
            .client
            .list("virtual servers", self.family, request, |_, body| read::carried(body).map(Some))?;
        found.sort_unstable();
        Ok(found)
    }

    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>> {
        let family = self.family;
        let refused = self.client.run(requests, |_| (family, 0), wire::request)?;
        let is_denied = refused.iter().any(|one| one.refusal.errno.is_denial());
        if is_denied { Err(Error::NotPermitted) } else { Ok(refused) }
    }

    fn timeouts(&mut self) -> Result<Timeouts> {
        let request = |m: &mut MessageWriter| wire::fixed(m, wire::command::GET_CONFIG);
        Ok(self.client.ask("read timeouts", self.family, request, read::timeouts)?)
    }

    fn messages(&self) -> u64 {
        self.client.requests()
    }
}
