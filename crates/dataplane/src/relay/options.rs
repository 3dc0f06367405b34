//! What can be set about the relay, and why the defaults are as they are.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// What can be set.
#[derive(Clone)]
pub struct Options {
    /// Threads that carry connections: one for each core.
    pub workers: usize,
    /// The ports that listeners get; `None` leaves it to the kernel.
    pub ports: Option<RangeInclusive<u16>>,
    /// How long the first dial of a connection may take, the second, and so on; there are as many tries as entries.
    pub dial_timeouts: Vec<Duration>,
    /// A UDP session ends when nothing came from either side for so long. The connection tracker forgets a
    /// flow that was not answered in the same time, so a client that relies on more is in trouble anyway.
    pub udp_idle: Duration,
    /// The same for a session of one question and one answer: mostly DNS, where the client uses another port for the
    /// next question, and each session costs a descriptor.
    pub udp_idle_answered: Duration,
    /// How many UDP sessions a listener has at most; the one that is idle for longest makes room.
    pub udp_sessions: usize,
    /// How long connections of a listener that was closed, or of a relay that was retired, may go on.
    pub drain: Duration,
    /// The size of the pipes that bulk data goes through; 0 has all bytes copied. Larger ones cost this process less,
    /// but with many connections clients and endpoints more: README.md has what was seen.
    pub pipe_bytes: usize,
    /// Is told of trouble, at most once in ten seconds.
    pub tell: Tell,
}

/// Hears of trouble, on any thread.
pub type Tell = Arc<dyn Fn(&Trouble) + Send + Sync>;

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            ports: None,
            dial_timeouts: [250, 500, 1000, 2000].map(Duration::from_millis).into(),
            udp_idle: Duration::from_secs(30),
            udp_idle_answered: Duration::from_secs(3),
            udp_sessions: 16_384,
            drain: Duration::from_secs(300),
            pipe_bytes: 256 << 10,
            tell: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("workers", &self.workers)
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

/// The flag that chooses the ports of the relay's listeners.
pub const PORTS_FLAG: &str = "proxy-port-range";

/// Reads `30000-30100`, `30000+100`, `30000`; empty or `0` leaves it to the kernel, as it did upstream.
pub fn ports(text: &str) -> Result<Option<RangeInclusive<u16>>, String> {
    if matches!(text, "" | "0" | "0-0") {
        return Ok(None);
    }
    let parse = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let range = match (text.split_once('-'), text.split_once('+')) {
        (Some((first, last)), _) => parse(first).zip(parse(last)),
        (None, Some((first, size))) => parse(first)
            .zip(size.trim().parse::<u16>().ok())
            .and_then(|(first, size)| Some((first, first.checked_add(size)?))),
        (None, None) => parse(text).map(|port| (port, port)),
    };
    range
        .filter(|(first, last)| first <= last)
        .map(|(first, last)| Some(first..=last))
        .ok_or_else(|| format!("`{text}` is no range of ports: write it as `40000-40999` or `40000+999`"))
}

/// [`ports`], for a setting.
pub(crate) fn parse_ports(text: &str) -> Result<String, String> {
    let text_of = |ports: RangeInclusive<u16>| format!("{}-{}", ports.start(), ports.end());
    ports(text).map(|ports| ports.map(text_of).unwrap_or_default())
}

/// What somebody should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No file descriptor is left.
    #[error(
        "new connections wait: portway has as many files open as it may ({limit}); raise LimitNOFILE of its unit \
         (two files for each connection), or find out who has so many connections: `portway get routes -o wide`"
    )]
    TooManyFiles {
        /// How many it may have.
        limit: u64,
    },
    /// The kernel has no room for another socket.
    #[error(
        "new connections wait: the kernel has no room for more ({said}); see net.ipv4.tcp_mem and the machine's memory"
    )]
    NoRoom {
        /// What it said.
        said: String,
    },
    /// A worker cannot go on.
    #[error("a thread of the relay waits for the kernel in vain ({said}): restart portway")]
    Broken {
        /// What the kernel said.
        said: String,
    },
}

impl Trouble {
    /// What somebody should know about an error: that there is no room. Anything else is about one connection.
    pub(super) fn of(error: &io::Error, limit: u64) -> Option<Self> {
        match error.raw_os_error()? {
            libc::EMFILE | libc::ENFILE => Some(Trouble::TooManyFiles { limit }),
            libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC => Some(Trouble::NoRoom { said: error.to_string() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_ports_are_written_as_upstream_did() {
        assert_eq!(ports("40000-40999"), Ok(Some(40000..=40999)));
        assert_eq!(ports("40000+999"), Ok(Some(40000..=40999)));
        assert_eq!(ports("40000"), Ok(Some(40000..=40000)));
        assert_eq!((ports(""), ports("0")), (Ok(None), Ok(None)));
        for bad in ["40999-40000", "0-5", "65535+1", "a-b", "-", "70000"] {
            assert!(ports(bad).unwrap_err().starts_with(&format!("`{bad}`")), "{bad}");
        }
    }
}
