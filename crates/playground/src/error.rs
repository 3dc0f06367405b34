//! What can go wrong while a playground is built or furnished.

use std::io;

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a playground could not do what was asked. Trying again helps only where it says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine refused something; without root it refuses to make namespaces.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried, and where.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The `ip` program did not take what we wrote. The namespace is half furnished.
    #[error("`ip` refused to furnish `{place}`: {reason}\n{batch}")]
    Ip {
        /// Which namespace.
        place: String,
        /// What `ip` said; it names the line.
        reason: String,
        /// All lines, as sent.
        batch: String,
    },
    /// Links stay without a carrier. A very busy machine may need another try.
    #[error("the {links} links of `{place}` did not all come up in time")]
    NotReady {
        /// Which namespace.
        place: String,
        /// How many links it should have.
        links: usize,
    },
    /// There are more pods of one kind than the plan has addresses for.
    #[error("{asked} {kind} pods per node, but the plan has room for {room}")]
    TooManyPods {
        /// `client` or `server`.
        kind: &'static str,
        /// How many were asked for.
        asked: usize,
        /// How many fit.
        room: usize,
    },
}

/// Says what was tried when the machine refuses.
pub(crate) trait Trying<T> {
    fn trying(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Trying<T> for io::Result<T> {
    fn trying(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::System { what: what(), source })
    }
}
