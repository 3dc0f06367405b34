//! Why a kernel did not do what it was asked, in sentences for a person at three in the morning.
//!
//! Whatever the error of a transaction: nothing of it was applied, and the rules from before are in force.

use crate::netlink::{self, Errno, Refusal, no_subsystem};

/// The result of everything that talks to `nf_tables`.
pub type Result<T> = std::result::Result<T, Error>;

/// Why `nf_tables` refused, or could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// One operation was refused, and with it the whole transaction. Trying again helps only if the kernel
    /// was busy or out of memory: see [`Error::retry_helps`].
    #[error("the kernel refused operation {} of {total} ({operation}): {refusal}{}", index + 1, advice(refusal.errno))]
    Refused {
        /// Which operation of the transaction, counted from 0.
        index: usize,
        /// How many operations the transaction has.
        total: usize,
        /// The operation as text; of many elements, the one that was refused.
        operation: String,
        /// Which element of the operation, counted from 0, if the kernel said so.
        element: Option<usize>,
        /// What the kernel answered.
        refusal: Refusal,
    },
    /// The transaction was refused as a whole, when it was to be put in force. The same transaction will
    /// be refused again.
    #[error("the kernel refused the transaction as a whole, at its end: {refusal}{}", advice(refusal.errno))]
    Whole {
        /// What the kernel answered.
        refusal: Refusal,
    },
    /// We may not. Trying again does not help.
    #[error("the kernel does not let this process change nf_tables: run as root, or with CAP_NET_ADMIN")]
    NotPermitted,
    /// This kernel has no `nf_tables`. Trying again does not help.
    #[error("{}", no_subsystem!("nf_tables", "nf_tables"))]
    Missing,
    /// Somebody else changed `nf_tables` after the state that this transaction was made for.
    /// Read the state anew and try again.
    #[error("somebody else changed nf_tables meanwhile; read the state anew and try again")]
    Raced,
    /// The kernel's memory for this request ran out. Trying again later helps.
    #[error("the kernel is out of memory for this transaction; it is tried again later")]
    OutOfMemory,
    /// Answers were lost, so it is unknown whether the transaction is in force. Read the state anew.
    #[error("the socket's buffer was too small (ENOBUFS); read the state anew and try again")]
    Overrun,
    /// Talking to the kernel failed.
    #[error(transparent)]
    Netlink(netlink::Error),
}

impl Error {
    /// Whether the same transaction may go through later.
    pub fn retry_helps(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } | Self::Whole { refusal } => is_passing(refusal.errno),
            Self::NotPermitted | Self::Missing => false,
            Self::Raced | Self::OutOfMemory | Self::Overrun => true,
            Self::Netlink(error) => {
                !matches!(error, netlink::Error::Refused { .. } | netlink::Error::System { .. })
            }
        }
    }

    /// The error for a whole batch that was answered with this number.
    pub fn whole(refusal: Refusal) -> Self {
        match refusal.errno.0 {
            libc::EPERM | libc::EACCES => Self::NotPermitted,
            libc::EOPNOTSUPP | libc::EPROTONOSUPPORT => Self::Missing,
            libc::ERESTART | libc::EINTR | libc::EAGAIN => Self::Raced,
            libc::ENOMEM => Self::OutOfMemory,
            libc::ENOBUFS => Self::Overrun,
            _ => Self::Whole { refusal },
        }
    }
}

impl From<netlink::Error> for Error {
    fn from(error: netlink::Error) -> Self {
        match error {
            netlink::Error::Lost => Self::Overrun,
            netlink::Error::Interrupted { .. } => Self::Raced,
            netlink::Error::System { errno, .. } if is_general(errno) => Self::whole(plain(errno)),
            netlink::Error::Refused { refusal, .. } if is_general(refusal.errno) => Self::whole(refusal),
            other => Self::Netlink(other),
        }
    }
}

/// A refusal without further words.
pub(super) fn plain(errno: Errno) -> Refusal {
    Refusal { errno, text: None, offset: None }
}

/// Numbers that mean the same whatever was asked.
fn is_general(errno: Errno) -> bool {
    matches!(
        errno.0,
        libc::EPERM | libc::EACCES | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP | libc::ENOMEM | libc::ENOBUFS
    )
}

fn is_passing(errno: Errno) -> bool {
    matches!(
        errno.0,
        libc::EBUSY | libc::EINTR | libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS | libc::ERESTART
    )
}

/// What the number usually means here.
fn advice(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EBUSY => "; it is still in use: nothing was applied",
        libc::ENOENT => "; something that it names is not there: nothing was applied",
        libc::EEXIST => "; something else of that name or key is there already: nothing was applied",
        libc::ENFILE => "; the set is full: nothing was applied",
        _ => "; nothing was applied",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_operation_reason_and_consequence() {
        let error = Error::Refused {
            index: 1,
            total: 3,
            operation: "delete chain ip t c".into(),
            element: None,
            refusal: plain(Errno(libc::EBUSY)),
        };
        assert_eq!(
            error.to_string(),
            "the kernel refused operation 2 of 3 (delete chain ip t c): EBUSY: device or resource busy; it is \
             still in use: nothing was applied"
        );
        assert!(error.retry_helps());
    }
}
