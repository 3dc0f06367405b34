//! Why sets could not be asked for, in sentences. A single request that the kernel refuses is no error of these but a
//! [`Refused`](super::Refused).

use crate::netlink::{self, no_subsystem};

/// The result of everything that talks to sets.
pub type Result<T> = std::result::Result<T, Error>;

/// Why sets could not be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// We may not. Trying again does not help.
    #[error("the kernel does not let this process see its IP sets: run as root, or with CAP_NET_ADMIN")]
    NotPermitted,
    /// This kernel has no sets. Trying again helps once the module is there.
    #[error("{}", no_subsystem!("IP sets", "ip_set"))]
    Missing,
    /// Talking to the kernel failed. Trying again may help.
    #[error("IP sets: {0}")]
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
