//! Why IPVS could not be asked, in sentences. A single request that the kernel refuses is no error of these but a
//! [`Refused`](super::Refused).

use crate::netlink::{self, no_subsystem};

/// The result of everything that talks to IPVS.
pub type Result<T> = std::result::Result<T, Error>;

/// Why IPVS could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// We may not. Trying again does not help.
    #[error("the kernel does not let this process change IPVS: run as root, or with CAP_NET_ADMIN")]
    NotPermitted,
    /// This kernel has no IPVS. Trying again helps once the module is there.
    #[error("{}", no_subsystem!("IPVS", "ip_vs"))]
    Missing,
    /// Talking to the kernel failed. Trying again may help.
    #[error("IPVS: {0}")]
    Netlink(netlink::Error),
}

impl From<netlink::Error> for Error {
    fn from(error: netlink::Error) -> Self {
        match error.errno() {
            Some(errno) if errno.is_denial() => Self::NotPermitted,
            Some(errno) if errno.is_no_subsystem() => Self::Missing,
            _ => Self::Netlink(error),
        }
    }
}
