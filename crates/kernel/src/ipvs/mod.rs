//! The kernel's own load balancer, IPVS: virtual servers and the real servers behind them.
//!
//! In: [`Request`]s, many at once. Out: what the kernel has, and for each request whether it was refused, and why. There is no
//! transaction: requests are carried out in their order, and one that is refused does not hold back the next.
//!
//! | file | holds |
//! |---|---|
//! | `server.rs` | virtual and real servers, as plain data |
//! | `request.rs` | what can be asked, and a refusal of it |
//! | `wire.rs`, `read.rs` | all of it as netlink bytes, and back |
//! | `netlink.rs` | the real thing |
//!
//! Absent on purpose: connections (they are counted, not listed), rates, the synchronisation of two directors; and loading
//! modules. A kernel without IPVS is an [`Error`] with the module's name.

mod error;
#[cfg(test)]
pub(crate) mod fuzzed;
mod netlink;
mod read;
mod request;
mod server;
mod wire;

pub use crate::conntrack::Family;
pub use error::{Error, Result};
pub use netlink::Netlink;
pub use request::{Refused, Request};
pub use server::{Counts, Flags, Forwarding, FoundServer, RealServer, Timeouts, VirtualServer, What};

/// A kernel's virtual servers: this machine's, or simulated ones.
pub trait Ipvs {
    /// All virtual servers, in order.
    fn virtual_servers(&mut self) -> Result<Vec<VirtualServer>>;

    /// The real servers of one virtual server, in order. None at all if there is no such virtual server: the kernel does
    /// not tell the two apart.
    fn real_servers(&mut self, of: &What) -> Result<Vec<FoundServer>>;

    /// What each virtual server has carried, in order. A door that does not look knows of none.
    fn carried(&mut self) -> Result<Vec<(What, Counts)>> {
        Ok(Vec::new())
    }

    /// Carries out requests in their order, many in one system call. Returns those that were refused; all others are done.
    /// On an error some may be done and others not: read anew.
    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>>;

    /// For how long the kernel remembers a connection on which nothing happens.
    fn timeouts(&mut self) -> Result<Timeouts>;

    /// How many requests were sent to the kernel since this was opened; a listing is one.
    fn messages(&self) -> u64;
}

#[cfg(test)]
mod tests;
