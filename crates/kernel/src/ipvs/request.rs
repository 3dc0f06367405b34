//! What can be asked of IPVS, and a refusal of it.

use std::fmt;
use std::net::SocketAddr;

use super::{RealServer, Timeouts, VirtualServer, What};
use crate::netlink::{self, Errno};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Makes a virtual server. Refused if it is there.
    Add(VirtualServer),
    /// Changes scheduler, flags and persistence of one. Its real servers and connections stay.
    Change(VirtualServer),
    /// Removes one with its real servers. Its connections go on as long as packets come.
    Delete(What),
    /// Puts a real server behind a virtual one. Refused if it is there.
    AddServer(What, RealServer),
    /// Changes its weight. Its connections stay.
    ChangeServer(What, RealServer),
    /// Removes a real server. What becomes of its connections is for `net.ipv4.vs.expire_nodest_conn` to say.
    DeleteServer(What, SocketAddr),
    /// Sets timeouts of the whole kernel namespace.
    SetTimeouts(Timeouts),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(server) => write!(f, "add virtual server {} ({})", server.what, server.scheduler),
            Self::Change(server) => write!(f, "change virtual server {} ({})", server.what, server.scheduler),
            Self::Delete(what) => write!(f, "delete virtual server {what}"),
            Self::AddServer(what, server) => write!(f, "add real server {} to {what}", server.address),
            Self::ChangeServer(what, server) => {
                write!(f, "set weight {} of real server {} of {what}", server.weight, server.address)
            }
            Self::DeleteServer(what, address) => write!(f, "delete real server {address} of {what}"),
            Self::SetTimeouts(_) => f.write_str("set timeouts"),
        }
    }
}

/// A request that was refused. The others are done all the same.
pub type Refused = netlink::Refused<Request>;

impl Refused {
    /// What shall be made is there already.
    pub fn is_there(&self) -> bool {
        self.refusal.errno == Errno(libc::EEXIST)
    }

    /// The virtual server that is meant is not there (`ESRCH`), or the real one (`ENOENT`).
    pub fn is_missing(&self) -> bool {
        self.refusal.errno == Errno(libc::ESRCH)
            || self.refusal.errno == Errno(libc::ENOENT) && self.scheduler().is_none()
    }

    /// The scheduler that this kernel does not have.
    pub fn missing_scheduler(&self) -> Option<&str> {
        self.scheduler().filter(|_| self.refusal.errno == Errno(libc::ENOENT))
    }

    fn scheduler(&self) -> Option<&str> {
        match &self.request {
            Request::Add(server) | Request::Change(server) => Some(&server.scheduler),
            _ => None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPVS: the kernel refused to {}: {}", self.request, self.refusal)?;
        match self.missing_scheduler() {
            Some(name) => write!(f, "; it has no scheduler `{name}`: load the module `ip_vs_{name}`"),
            None => Ok(()),
        }
    }
}
