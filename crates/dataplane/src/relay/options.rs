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
