//! TCP sockets in memory.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use kernel::sock_diag::{Error, TcpSockets};

/// Sockets in memory.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    /// The sockets that there are: local address, then remote address.
    pub sockets: BTreeSet<(SocketAddr, SocketAddr)>,
    /// If set, every request fails with it.
    pub fault: Option<Error>,
}

impl TcpSockets for Simulated {
    fn destroy(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<bool, Error> {
        self.fault.clone().map_or_else(|| Ok(self.sockets.remove(&(local, remote))), Err)
    }
}
