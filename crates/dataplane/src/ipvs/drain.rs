//! Graceful termination: a real server that is needed no more gets weight 0, and goes when it has no connection left.
//!
//! In: which real servers are so, since when, and how many connections each has; the time. Out: which may go.
//!
//! The kernel is the memory: a real server of weight 0 that nobody asks for is one of these, also after a restart. From then on its
//! time counts anew.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use kernel::ipvs::What;

use super::steps::Draining;

/// Real servers that are to go.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    since: BTreeMap<(What, SocketAddr), Duration>,
}

impl Drain {
    /// These have weight 0 from now on. Those that had it before keep their time.
    pub fn begin(&mut self, now: Duration, servers: impl IntoIterator<Item = (What, SocketAddr)>) {
        for server in servers {
            self.since.entry(server).or_insert(now);
        }
    }

    /// These are needed again, or gone.
    pub fn end<'a>(&mut self, servers: impl IntoIterator<Item = &'a (What, SocketAddr)>) {
        for server in servers {
            self.since.remove(server);
        }
    }

    /// All but these are gone.
    pub fn only(&mut self, servers: &Draining) {
        self.since.retain(|server, _| servers.contains(server));
    }

    /// Only those of these virtual servers are left.
    pub fn retain(&mut self, is_there: impl Fn(&What) -> bool) {
        self.since.retain(|(what, _), _| is_there(what));
    }

    /// All of them.
    pub fn servers(&self) -> Draining {
        self.since.keys().copied().collect()
    }

    /// For how long the first of them has waited; `None` if there is none.
    pub fn longest(&self, now: Duration) -> Option<Duration> {
        self.since.values().min().map(|since| now.saturating_sub(*since))
    }

    /// Those that may go: with no connection, or after this long whatever they have. `connections` says how many each has; one
    /// that is not in it is gone already.
    pub fn due(
        &self,
        now: Duration,
        limit: Duration,
        connections: &BTreeMap<(What, SocketAddr), u32>,
    ) -> Draining {
        let is_due = |(server, since): &(&(What, SocketAddr), &Duration)| {
            let is_left = connections.get(*server).is_some_and(|count| *count == 0);
            is_left || now.saturating_sub(**since) >= limit
        };
        self.since.iter().filter(is_due).map(|(server, _)| *server).collect()
    }
}

#[cfg(test)]
mod tests {
    use kernel::IpProtocol;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    fn server(last: u8) -> (What, SocketAddr) {
        let what = What::Address(SocketAddr::from(([10, 96, 0, 1], 80)), IpProtocol::TCP);
        (what, SocketAddr::from(([10, 244, 0, last], 8080)))
    }

    fn due(drain: &Drain, seconds: u64, counts: [u32; 2]) -> Vec<(What, SocketAddr)> {
        let connections = [(server(1), counts[0]), (server(2), counts[1])].into();
        drain.due(Duration::from_secs(seconds), LIMIT, &connections).into_iter().collect()
    }

    #[test]
    fn a_server_goes_with_its_last_connection_or_when_its_time_is_over() {
        let mut drain = Drain::default();
        drain.begin(Duration::ZERO, [server(1)]);
        drain.begin(Duration::from_secs(100), [server(1), server(2)]);
        assert_eq!(drain.longest(Duration::from_secs(130)), Some(Duration::from_secs(130)));
        assert_eq!(due(&drain, 100, [1, 1]), []);
        assert_eq!(due(&drain, 100, [1, 0]), [server(2)]);
        assert_eq!(due(&drain, 600, [1, 1]), [server(1)]);
        assert_eq!(due(&drain, 700, [1, 1]), [server(1), server(2)]);
    }

    #[test]
    fn one_that_is_needed_again_stays_and_begins_anew_the_next_time() {
        let mut drain = Drain::default();
        drain.begin(Duration::ZERO, [server(1)]);
        drain.end(&[server(1)]);
        assert_eq!(due(&drain, 700, [0, 0]), []);
        drain.begin(Duration::from_secs(700), [server(1)]);
        assert_eq!(due(&drain, 1299, [1, 0]), []);
        assert_eq!(due(&drain, 1300, [1, 0]), [server(1)]);
    }
}
