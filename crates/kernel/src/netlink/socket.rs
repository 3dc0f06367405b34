//! A long-lived netlink socket: datagrams to the kernel, and those that it answers with or sends by itself.
//!
//! It never blocks without a limit. It asks the kernel for its reasons (extended acks) and for short
//! error messages, so that a refused batch of megabytes is not sent back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::netlink::{GENERIC, NETFILTER, SOCK_DIAG};

use super::{Errno, Error, Result, sys};

const NETLINK_CAP_ACK: libc::c_int = 10;
const NETLINK_EXT_ACK: libc::c_int = 11;
/// The kernel fills listings in pieces of at most 32 KiB, or less if we offer less.
const RECEIVE_SIZE: usize = 64 << 10;

/// Which subsystem the socket speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subsystem {
    /// Addresses, links, routes.
    Route,
    /// `nf_tables`, conntrack, ipset.
    Netfilter,
    /// Sockets of this machine.
    SocketDiagnostics,
    /// Families that get their number when they are loaded: IPVS.
    Generic,
}

/// An open netlink socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
    sequence: u32,
    send_buffer_size: usize,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket. Needs no privilege; what is asked through it may.
    pub fn open(subsystem: Subsystem) -> Result<Self> {
        let fd = sys::socket(match subsystem {
            // Number 0.
            Subsystem::Route => None,
            Subsystem::Netfilter => Some(NETFILTER),
            Subsystem::SocketDiagnostics => Some(SOCK_DIAG),
            Subsystem::Generic => Some(GENERIC),
        })?;
        // Both options make errors better, not possible: a kernel without them still answers.
        let _unavailable = sys::enable(&fd, NETLINK_CAP_ACK).and(sys::enable(&fd, NETLINK_EXT_ACK));
        let port = sys::bind(&fd)?;
        Ok(Self { fd, port, sequence: 0, send_buffer_size: 0, buffer: vec![0; RECEIVE_SIZE] })
    }

    /// The port that the kernel gave this socket; it marks our own changes in notifications.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// The next number for a request.
    pub fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.sequence
    }

    /// Leaves out numbers that the caller gives to requests itself.
    pub fn skip_sequences(&mut self, count: u32) {
        self.sequence = self.sequence.wrapping_add(count);
    }

    /// Hears what the kernel multicasts to `group`.
    pub fn join(&self, group: u32) -> Result<()> {
        sys::join(&self.fd, group)
    }

    /// Hears nothing more of what is caused by the socket of this port.
    pub fn ignore(&self, port: u32) -> Result<()> {
        sys::ignore(&self.fd, port)
    }

    /// Makes room for this many bytes of answers that wait to be read.
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<()> {
        sys::set_receive_buffer(&self.fd, bytes)
    }

    /// Sends all `bytes` as one datagram, growing the send buffer where they do not fit.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        // The kernel counts its own overhead too, hence the margin.
        let needed = bytes.len().saturating_add(bytes.len() / 4).saturating_add(32 << 10);
        if needed > self.send_buffer_size.max(128 << 10) {
            sys::set_send_buffer(&self.fd, needed)?;
            self.send_buffer_size = needed;
        }
        sys::send(&self.fd, bytes).map(drop)
    }

    /// Receives one datagram, or `None` when `limit` is over.
    pub fn receive(&mut self, limit: Duration) -> Result<Option<&[u8]>> {
        // A limit beyond the end of all clocks is no limit.
        let deadline = Instant::now().checked_add(limit);
        loop {
            match sys::receive(&self.fd, &mut self.buffer) {
                Ok(length) if length > self.buffer.len() => return Err(Error::Lost),
                Ok(length) => return Ok(Some(&self.buffer[..length])),
                Err(Error::System { errno: Errno(libc::EAGAIN), .. }) => {}
                Err(Error::System { errno: Errno(libc::EINTR), .. }) => continue,
                Err(Error::System { errno: Errno(libc::ENOBUFS), .. }) => return Err(Error::Lost),
                Err(error) => return Err(error),
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            sys::wait_readable(&self.fd, left)?;
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
