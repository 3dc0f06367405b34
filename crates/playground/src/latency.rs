//! How long a TCP connect takes, sampled side by side for several destinations.
//!
//! Interleaved, one after the other from one thread, so that whatever else happens on the machine meets all
//! destinations alike. Only the connect is timed; then the answer is read to its end, so that the next
//! sample meets a quiet machine.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::namespace::socket::reset_on_close;

use crate::client::{Ask, connect_here};
use crate::error::{Result, Trying};
use crate::place::Place;

/// Samples of one destination, in ascending order; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    sorted: Vec<Duration>,
}

impl Latencies {
    fn new(mut samples: Vec<Duration>) -> Self {
        assert!(!samples.is_empty(), "a latency needs at least one sample");
        samples.sort_unstable();
        Self { sorted: samples }
    }

    /// The smallest sample that at least `percent` of a hundred do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent.min(100)).div_ceil(100).max(1);
        self.sorted[rank - 1]
    }

    /// The median.
    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }

    /// What one in a hundred exceeds.
    pub fn p99(&self) -> Duration {
        self.percentile(99)
    }

    /// All samples, in ascending order.
    pub fn sorted(&self) -> &[Duration] {
        &self.sorted
    }
}

/// Connects `rounds` times to each destination in turn; one entry for each, in their order. The first
/// connect that fails ends it: a latency with failures in it says nothing.
pub fn connect_latencies(from: &Place, destinations: &[SocketAddr], rounds: usize) -> Result<Vec<Latencies>> {
    let sampled = from.run(|| {
        let mut samples = vec![Vec::with_capacity(rounds); destinations.len()];
        for _ in 0..rounds.max(1) {
            for (samples, destination) in samples.iter_mut().zip(destinations) {
                samples.push(sample(*destination)?);
            }
        }
        Ok(samples)
    })?;
    Ok(sampled?.into_iter().map(Latencies::new).collect())
}

fn sample(destination: SocketAddr) -> Result<Duration> {
    let connecting = || format!("connect to {destination}");
    let start = Instant::now();
    let mut stream = connect_here(destination, &Ask::default()).trying(connecting)?;
    let elapsed = start.elapsed();
    reset_on_close(&stream).trying(connecting)?;
    stream.set_read_timeout(Some(Ask::default().limit)).trying(connecting)?;
    stream.read_to_end(&mut Vec::new()).trying(connecting)?;
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let latencies = Latencies::new((1..=200).rev().map(Duration::from_micros).collect());
        assert_eq!(latencies.p50(), Duration::from_micros(100));
        assert_eq!(latencies.p99(), Duration::from_micros(198));
        assert_eq!(latencies.percentile(0), Duration::from_micros(1));
        assert_eq!(latencies.percentile(100), Duration::from_micros(200));
        let one = Latencies::new(vec![Duration::from_micros(7)]);
        assert_eq!((one.p50(), one.p99()), (Duration::from_micros(7), Duration::from_micros(7)));
    }
}
