//! What went wrong with IPVS, sets, the interface or settings.

use kernel::host::ChangeError;
use kernel::ipset::Refused;
use kernel::{ipset, ipvs, netlink, sysctl};

use crate::SyncError;

/// Why IPVS mode could not write. The next sync reads the kernel anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Virtual servers.
    #[error(transparent)]
    Servers(#[from] ipvs::Error),
    /// Sets.
    #[error(transparent)]
    Sets(#[from] ipset::Error),
    /// A set, or an entry that is nobody's alone.
    #[error("{0}")]
    Refused(String),
    /// The interface and its addresses.
    #[error(transparent)]
    Interface(#[from] ChangeError),
    /// Addresses of this host could not be read.
    #[error("the addresses of this host cannot be read: {0}")]
    Addresses(netlink::Error),
    /// A setting of the kernel.
    #[error(transparent)]
    Setting(#[from] sysctl::Error),
}

impl Error {
    /// Whether the same sync may go through later. A module that is missing may be loaded meanwhile.
    pub fn retry_helps(&self) -> bool {
        !matches!(
            self,
            Self::Servers(ipvs::Error::NotPermitted)
                | Self::Sets(ipset::Error::NotPermitted)
                | Self::Interface(ChangeError::NotPermitted | ChangeError::NoDummy(_))
                | Self::Setting(_)
        )
    }
}

/// Nothing may have been refused.
pub(super) fn refused(refused: Vec<Refused>) -> Result<(), SyncError> {
    match refused.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(Error::Refused(first.to_string()).into()),
    }
}

impl From<Error> for SyncError {
    fn from(error: Error) -> Self {
        Self::Other { sentence: error.to_string(), retry_helps: error.retry_helps() }
    }
}

macro_rules! through_error {
    ($($from:ty),*) => {$(
        impl From<$from> for SyncError {
            fn from(error: $from) -> Self {
                Error::from(error).into()
            }
        }
    )*};
}

through_error!(ipvs::Error, ipset::Error, ChangeError, sysctl::Error);
