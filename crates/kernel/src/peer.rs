//! Who is at the other end of a unix socket.
//!
//! The kernel tells it, so it cannot be made up.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

/// Whoever connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub process: u32,
    /// Its user.
    pub user: u32,
}

/// Whoever is at the other end.
#[expect(unsafe_code, reason = "getsockopt(2) fills a struct through a pointer")]
#[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
pub fn of(stream: &UnixStream) -> io::Result<Peer> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let pointer: *mut libc::ucred = &raw mut found;
    // rustix has this call too, but takes for granted that the process has a number: one of another PID namespace has 0 here.
    // SAFETY: `pointer` is valid for writes of `size` bytes, and both live during the call.
    let got = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            pointer.cast(),
            &raw mut size,
        )
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { process: found.pid.unsigned_abs(), user: found.uid })
}

/// The user that this process runs as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(of(&one).unwrap(), Peer { process: std::process::id(), user: own_user() });
    }
}
