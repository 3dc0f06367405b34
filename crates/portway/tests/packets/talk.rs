//! One question over any protocol, and how many were asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::Protocol;
use playground::client::ask;
use playground::{Ask, Family, Outcome, Place, Stats, sctp_init};

use crate::manifest::family_name;

/// Who has not answered by then will not; far longer than an answer takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Who is dropped hears nothing for so long. A refusal comes within a millisecond.
pub(crate) const SILENCE: Duration = Duration::from_millis(400);

/// Clients' ports: below node ports, and below those that the kernel gives to a relay's listeners on the same node.
const FIRST_PORT: u16 = 10_000;

/// Who asks, and counts.
#[derive(Debug)]
pub(crate) struct Talk {
    asked: Mutex<BTreeMap<(Family, Protocol), u64>>,
    next_port: AtomicU16,
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self { asked: Mutex::default(), next_port: AtomicU16::new(FIRST_PORT) }
    }

    /// Asks once.
    pub(crate) fn ask(&self, from: &Place, protocol: Protocol, to: SocketAddr, limit: Duration) -> Outcome {
        self.count(Family::of(to.ip()), protocol, 1);
        let plain = Ask::within(limit);
        match protocol {
            Protocol::Tcp => ask(from, protocol, to, &plain),
            Protocol::Udp => {
                let source = from.at(Family::of(to.ip()), self.unused_port());
                ask(from, protocol, to, &Ask { source: Some(source), ..plain })
            }
            Protocol::Sctp => sctp_init(from, to, limit),
        }
    }

    /// Asks once from the client's own address, also where the kernel would choose another. Whom the peer must see if nobody
    /// changes the source, and how it ended. The port is 0 where the kernel chooses it.
    pub(crate) fn ask_from_own_address(
        &self,
        from: &Place,
        protocol: Protocol,
        to: SocketAddr,
    ) -> (SocketAddr, Outcome) {
        let family = Family::of(to.ip());
        self.count(family, protocol, 1);
        let bound = |port| {
            let source = from.at(family, port);
            (source, ask(from, protocol, to, &Ask { source: Some(source), ..Ask::within(PATIENCE) }))
        };
        match protocol {
            Protocol::Tcp => bound(0),
            Protocol::Udp => bound(self.unused_port()),
            Protocol::Sctp => (from.at(family, 0), sctp_init(from, to, PATIENCE)),
        }
    }

    /// So many were asked elsewhere.
    pub(crate) fn count(&self, family: Family, protocol: Protocol, more: u64) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked.entry((family, protocol)).or_default() += more;
    }

    /// A load has asked so many.
    pub(crate) fn count_stats(&self, family: Family, protocol: Protocol, stats: &Stats) {
        self.count(family, protocol, stats.ok + stats.failed);
    }

    /// Says how many, for the summary.
    #[expect(clippy::print_stderr, reason = "the test's own output, from which the summary takes the counts")]
    pub(crate) fn tell(&self, way: &str) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for ((family, protocol), count) in asked.iter() {
            let kind = format!("{} {protocol}", family_name(*family)).to_lowercase();
            eprintln!("counted: {way} {kind} {count} connections");
        }
    }

    /// A datagram from a port that was used before would belong to the flow of then, with the endpoint of then.
    fn unused_port(&self) -> u16 {
        self.next_port.fetch_add(1, Ordering::Relaxed)
    }
}

/// So many connections prove the point, or as many as `PORTWAY_CONNECTIONS` says: a slow machine is told fewer.
pub(crate) fn enough(usually: u64) -> u64 {
    let told = std::env::var("PORTWAY_CONNECTIONS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(usually)
}

/// So many turns of what a case does again and again; a slow machine is told fewer connections, and takes fewer turns.
pub(crate) fn turns(usually: u32) -> u32 {
    if enough(u64::MAX) == u64::MAX { usually } else { usually.div_ceil(5) }
}

/// All were answered.
#[track_caller]
pub(crate) fn none_failed(stats: &Stats) {
    assert_eq!(stats.failed, 0, "{stats}");
    assert!(stats.ok > 0, "nothing was asked");
}
