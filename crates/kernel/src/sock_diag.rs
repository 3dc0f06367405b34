//! Ends TCP sockets of this machine that other programs hold (`SOCK_DESTROY`).
//!
//! In: the two addresses of a connection. Out: whether there was such a socket in the calling thread's network namespace. Its program
//! gets `ECONNABORTED` from the call that it waits in, or from the next one.
//!
//! Needs `CAP_NET_ADMIN`, and a kernel with `CONFIG_INET_DIAG_DESTROY`: [`Error::Unsupported`] tells of one without.

use std::net::{IpAddr, SocketAddr};

use crate::netlink::{self, Client, Errno, Subsystem};

const SOCK_DESTROY: u16 = 21;
/// In any state.
const ALL_STATES: u32 = u32::MAX;
/// The kernel compares no cookie.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Why a socket could not be ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernel cannot do it. Trying again does not help.
    #[error("this kernel cannot end sockets of other programs (CONFIG_INET_DIAG_DESTROY is not set)")]
    Unsupported,
    /// The kernel refused. Trying again may help.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
}

/// The TCP sockets of a machine: this one's, or simulated ones.
pub trait TcpSockets {
    /// Ends the socket with these addresses; whether there was one.
    fn destroy(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<bool, Error>;
}

/// The sockets of this thread's network namespace.
#[derive(Debug)]
pub struct ThisMachine(Client);

impl ThisMachine {
    /// Opens the connection to the kernel.
    pub fn open() -> Result<Self, Error> {
        Ok(Self(Client::open(Subsystem::SocketDiagnostics)?))
    }
}

impl TcpSockets for ThisMachine {
    fn destroy(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<bool, Error> {
        let asked = self.0.run_one("end a socket", (SOCK_DESTROY, 0), |m| m.raw(&request(local, remote)));
        match asked {
            Ok(()) => Ok(true),
            Err(netlink::Error::Refused { refusal, .. }) if refusal.errno == Errno(libc::ENOENT) => Ok(false),
            Err(netlink::Error::Refused { refusal, .. })
                if matches!(refusal.errno, Errno(libc::EOPNOTSUPP | libc::EINVAL)) =>
            {
                Err(Error::Unsupported)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// `struct inet_diag_req_v2`.
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let byte = |number: i32| u8::try_from(number).unwrap_or_default();
    let mut bytes = vec![byte(family), byte(libc::IPPROTO_TCP), 0, 0];
    bytes.extend(ALL_STATES.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    bytes.extend(address(local.ip()));
    bytes.extend(address(remote.ip()));
    // Any interface.
    bytes.extend([0; 4]);
    bytes.extend(NO_COOKIE);
    bytes
}

/// An address in sixteen bytes; those of IPv4 take the first four.
fn address(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes = ip.octets(),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_laid_out_as_the_kernel_reads_it() {
        let bytes = request("10.0.0.1:258".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        assert_eq!(bytes.len(), 56);
        assert_eq!(bytes[..4], [2, 6, 0, 0]);
        assert_eq!(bytes[8..16], [1, 2, 0, 80, 10, 0, 0, 1]);
        assert_eq!(bytes[28..32], [10, 0, 0, 2]);
        assert_eq!(request("[fd00::1]:1".parse().unwrap(), "[fd00::2]:2".parse().unwrap())[0], 10);
    }
}
