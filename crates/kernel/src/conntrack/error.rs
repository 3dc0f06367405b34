//! Why the connection tracker did not do what it was asked, in sentences.
//!
//! Whatever the error: entries that were deleted before it stay deleted, all others are as they were, so the same request
//! can be made again.

use crate::netlink::{self, Errno};

/// The result of everything that talks to the connection tracker.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the connection tracker refused, or could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// We may not. Trying again does not help.
    #[error("the kernel does not let this process see its connections: run as root, or with CAP_NET_ADMIN")]
    NotPermitted,
    /// This kernel does not let connections be listed. Trying again does not help.
    #[error(
        "this kernel does not tell its connections: load the module `nf_conntrack_netlink`; until then old UDP and SCTP \
         flows end by their own timeouts"
    )]
    Missing,
    /// Talking to the kernel failed, or it was out of memory. Trying again may help.
    #[error("connection tracker: {0}")]
    Netlink(netlink::Error),
}

impl Error {
    /// Whether the same request may go through later.
    pub fn retry_helps(&self) -> bool {
        match self {
            Self::NotPermitted | Self::Missing => false,
            Self::Netlink(error) => match error.errno() {
                Some(Errno(number)) => {
                    matches!(number, libc::ENOMEM | libc::ENOBUFS | libc::EBUSY | libc::EAGAIN | libc::EINTR)
                }
                None => true,
            },
        }
    }
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

/// Whether the kernel did not know what was asked, rather than failed to do it. A kernel that has the connection tracker but
/// not its netlink door says the same as one that does not know a filter.
pub(super) fn is_unknown_request(error: &netlink::Error) -> bool {
    matches!(error.errno(), Some(Errno(libc::EINVAL | libc::EOPNOTSUPP | libc::ERANGE)))
}
