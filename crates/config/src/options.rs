//! The choices of an operator, each group as a value.
//!
//! Absent on purpose: what is done with them.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The pace of syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceOptions {
    /// The shortest time from the end of a sync to the begin of the next.
    pub min_sync_period: Duration,
    /// How often everything is compared with the kernel.
    pub sync_period: Duration,
}

impl Default for PaceOptions {
    fn default() -> Self {
        Self { min_sync_period: Duration::from_millis(50), sync_period: Duration::from_secs(30) }
    }
}

/// Where to listen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// `/healthz` and `/livez`; `None`: nowhere.
    pub healthz: Option<SocketAddr>,
    /// `/metrics` and more; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// To end where one of these cannot be had, instead of trying again.
    pub hard_fail: bool,
}

/// What the operator chose. Without a choice a setting is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// How many flows may be tracked.
    pub conntrack_max: Option<ConntrackMax>,
    /// How long a TCP connection is remembered that says nothing.
    pub tcp_established: Option<Duration>,
    /// How long one that is half closed.
    pub tcp_close_wait: Option<Duration>,
    /// To let packets pass that are outside of TCP's window. It is never taken back.
    pub tcp_be_liberal: bool,
    /// How long a UDP flow is remembered that was not answered.
    pub udp: Option<Duration>,
    /// How long one that was.
    pub udp_stream: Option<Duration>,
    /// To have the kernel forward packets of both families. It is never taken back.
    pub ip_forward: bool,
    /// How late the kernel ends this process when memory runs out: -1000 is never.
    pub oom_score_adj: Option<i32>,
}

/// How many flows may be tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackMax {
    /// For each core.
    pub per_core: u32,
    /// At least.
    pub min: u32,
}

/// As upstream, where nobody chose.
impl Default for ConntrackMax {
    fn default() -> Self {
        Self { per_core: 32_768, min: 131_072 }
    }
}

impl Tuning {
    /// What upstream does where nobody chose.
    pub fn as_upstream() -> Self {
        Self {
            conntrack_max: Some(ConntrackMax::default()),
            tcp_established: Some(Duration::from_secs(24 * 3600)),
            tcp_close_wait: Some(Duration::from_secs(3600)),
            oom_score_adj: Some(-999),
            ..Self::default()
        }
    }
}

/// What becomes of TCP connections to a Pod that has vanished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum VanishedTcp {
    /// They are ended, so that clients dial again at once.
    #[default]
    Reset,
    /// They are left alone, as upstream leaves them: clients wait for their own timers.
    Leave,
}

/// What the operator chose for the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySettings {
    /// The ports of its listeners; `None` leaves it to the kernel.
    pub ports: Option<RangeInclusive<u16>>,
    /// A UDP session ends when nothing came for so long.
    pub udp_timeout: Duration,
    /// How long connections may go on when their Service, or this process, ends.
    pub drain_timeout: Duration,
}

/// What to do where another portway is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Refuse to run.
    #[default]
    Refuse,
    /// Ask it to give way.
    TakeOver,
    /// Wait until it is gone.
    StandBy {
        /// We have just handed over to this process, which takes the locks in a moment.
        for_process: Option<u32>,
    },
}
