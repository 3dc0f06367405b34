//! Who was sent where: clients that come back soon go to the same endpoint.
//!
//! In: clients and endpoints, with the time. Out: the endpoint of a client, while it is remembered.
//!
//! What is remembered belongs to a service port, over all its listeners, as `model::affinity` says. Memory is bounded:
//! what has run out goes when clients come, and beyond [`CLIENTS_MAX`] a client goes for each that comes.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// More clients than these are not remembered.
const CLIENTS_MAX: usize = 131_072;
/// How many old clients are looked at when one comes: more than one, so that what has run out shrinks.
const SWEEP: usize = 2;

/// What is remembered of the clients of a service port.
#[derive(Debug, Default)]
pub(in crate::relay) struct Memory {
    clients: HashMap<IpAddr, Entry>,
    /// Each client once, in the order in which they are looked at.
    queue: VecDeque<IpAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// None once the endpoint could not be reached.
    endpoint: Option<SocketAddr>,
    until: Instant,
}

impl Memory {
    /// Where a client went last, if that is remembered.
    pub(super) fn recall(&self, now: Instant, client: IpAddr) -> Option<SocketAddr> {
        self.clients.get(&client).filter(|entry| now < entry.until)?.endpoint
    }

    /// A client goes there, and is remembered for so long.
    pub(super) fn remember(&mut self, now: Instant, client: IpAddr, endpoint: SocketAddr, timeout: Duration) {
        self.sweep(now);
        let entry = Entry { endpoint: Some(endpoint), until: now + timeout };
        if self.clients.insert(client, entry).is_none() {
            self.queue.push_back(client);
        }
        if self.clients.len() > CLIENTS_MAX {
            self.make_room();
        }
    }

    /// A client could not reach the endpoint.
    pub(super) fn forget(&mut self, client: IpAddr, endpoint: SocketAddr) {
        // Its place in the queue stays until it is swept, so the entry has to stay too.
        if let Some(entry) = self.clients.get_mut(&client).filter(|entry| entry.endpoint == Some(endpoint)) {
            entry.endpoint = None;
        }
    }

    fn sweep(&mut self, now: Instant) {
        for _ in 0..SWEEP {
            let Some(client) = self.queue.pop_front() else { return };
            if self.clients.get(&client).is_some_and(|entry| now < entry.until) {
                self.queue.push_back(client);
            } else {
                self.clients.remove(&client);
            }
        }
    }

    fn make_room(&mut self) {
        if let Some(client) = self.queue.pop_front() {
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn endpoint(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 80).into()
    }

    #[test]
    fn a_client_is_remembered_until_its_timeout_and_longer_if_it_comes_back() {
        let (start, mut memory) = (Instant::now(), Memory::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        memory.remember(start, client(1), endpoint(1), TIMEOUT);
        assert_eq!(memory.recall(at(9), client(1)), Some(endpoint(1)));
        assert_eq!(memory.recall(at(10), client(1)), None);
        memory.remember(at(9), client(1), endpoint(1), TIMEOUT);
        assert_eq!(memory.recall(at(18), client(1)), Some(endpoint(1)));
    }

    #[test]
    fn a_client_that_could_not_reach_its_endpoint_is_free_again() {
        let (now, mut memory) = (Instant::now(), Memory::default());
        memory.remember(now, client(1), endpoint(1), TIMEOUT);
        memory.forget(client(1), endpoint(2));
        assert_eq!(memory.recall(now, client(1)), Some(endpoint(1)), "it was another endpoint that failed");
        memory.forget(client(1), endpoint(1));
        assert_eq!(memory.recall(now, client(1)), None);
    }

    #[test]
    fn what_has_run_out_does_not_stay_in_memory() {
        let (start, mut memory) = (Instant::now(), Memory::default());
        for number in 0..1000 {
            memory.remember(start, client(number), endpoint(1), TIMEOUT);
        }
        for number in 1000..2000 {
            memory.remember(start + TIMEOUT, client(number), endpoint(1), TIMEOUT);
        }
        assert_eq!((memory.clients.len(), memory.queue.len()), (1000, 1000));
    }

    #[test]
    fn more_clients_than_the_limit_are_not_kept() {
        let (now, mut memory) = (Instant::now(), Memory::default());
        for number in 0..200_000 {
            memory.remember(now, client(number), endpoint(1), TIMEOUT);
        }
        assert_eq!((memory.clients.len(), memory.queue.len()), (CLIENTS_MAX, CLIENTS_MAX));
        assert_eq!(memory.recall(now, client(199_999)), Some(endpoint(1)));
    }
}
