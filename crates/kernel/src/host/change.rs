//! Dummy links, and single addresses on a link: what of this host is written.
//!
//! In: the name of a link, and addresses. Out: what could not be done, and why. What is so already is no error.
//!
//! Addresses are of one host each (`/32`, `/128`), never with a route to their neighbours (`noprefixroute`), and IPv6 ones are
//! not looked for on the wire before they are used (`nodad`): a dummy has no wire.

use std::fmt;
use std::net::IpAddr;

use super::Host;
use crate::netlink::{self, Refusal};

/// A host of which dummy links and addresses can be changed.
pub trait ChangeHost: Host {
    /// Makes a dummy link. One of this name that is there stays as it is; one that is no dummy is an error.
    ///
    /// It is not switched on: its addresses are this host's nevertheless, and where it is off the kernel does not look through
    /// the routes of all others when one is added (`fib_sync_up`).
    fn make_dummy(&mut self, name: &str) -> Result<(), ChangeError>;

    /// Removes a dummy link with its addresses, if it is there. A link of this name that is no dummy is an error.
    fn delete_dummy(&mut self, name: &str) -> Result<(), ChangeError>;

    /// Puts addresses on a link, many in one system call. Returns those that the kernel refused; all others are there.
    fn add_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError>;

    /// Takes addresses off a link, many in one system call. Returns those that the kernel refused; all others are gone from
    /// this link. An address that it has with a longer network than one host stays.
    fn delete_addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<Vec<Unchanged>, ChangeError>;
}

/// An address that could not be put on a link, or taken off it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchanged {
    /// The address.
    pub ip: IpAddr,
    /// What the kernel said.
    pub refusal: Refusal,
}

impl fmt::Display for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel refused to change address {}: {}", self.ip, self.refusal)
    }
}

/// Why a link or its addresses could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// We may not. Trying again does not help.
    #[error("the kernel does not let this process change links: run as root, or with CAP_NET_ADMIN")]
    NotPermitted,
    /// This kernel has no dummy links. Trying again helps once the module is there.
    #[error(
        "this kernel has no dummy links: load the module `dummy` (`modprobe dummy`), or name an interface that is there"
    )]
    Missing,
    /// There is no link of this name. Trying again helps once it is there.
    #[error("there is no network interface `{0}`")]
    NoLink(String),
    /// There is one, but it is something else than a dummy. Nothing was done to it.
    #[error(
        "the network interface `{0}` is no dummy: it is not ours to change; remove it, or choose another name"
    )]
    NoDummy(String),
    /// Talking to the kernel failed. Trying again may help.
    #[error("links and addresses: {0}")]
    Netlink(netlink::Error),
}

impl From<netlink::Error> for ChangeError {
    fn from(error: netlink::Error) -> Self {
        match error.errno() {
            Some(errno) if errno.is_denial() => Self::NotPermitted,
            _ => Self::Netlink(error),
        }
    }
}
