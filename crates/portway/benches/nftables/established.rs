//! What established connections pay for the rule that drops stray replies, the only one of ours that their packets meet.
//!
//! One connection through a Service. Its exchanges and its throughput are measured with and without the rule, in turn, many times. Client
//! and server take turns in one thread, so that no wake-up hides the cost; and of each turn the quickest slice counts, because whatever
//! else happens on the machine only adds to the others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dataplane::{Dataplane as _, Scope};
use harness::cluster::{self, PORT};
use harness::rounds;
use kernel_sim::sysctl::Simulated;
use playground::{Family, Options, Playground};
use serde::{Deserialize, Serialize};

use crate::Proxy;

/// Rounds, each with and without the rule.
pub(crate) const ROUNDS: u32 = 25;
/// Slices of a turn, of which the quickest counts.
const SLICES: usize = 40;
/// Exchanges in a slice: one byte there, one back.
const EXCHANGES: u32 = 500;
/// Blocks in a slice, from the server to the client.
const BLOCKS: u32 = 64;
const BLOCK: usize = 64 * 1024;
const SERVER_PORT: u16 = 8080;
pub(crate) const SERVICES: u32 = 10;
const LOOSE: &str = "net/netfilter/nf_conntrack_tcp_loose";

/// One round: nanoseconds without and with the rule.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Of one exchange.
    exchange_ns: [f64; 2],
    /// Of one block of 64 KiB.
    block_ns: [f64; 2],
}

impl Round {
    /// An exchange with the rule, as a multiple of one without.
    pub(crate) fn exchange_ratio(&self) -> f64 {
        self.exchange_ns[1] / self.exchange_ns[0]
    }

    /// A block with the rule, as a multiple of one without.
    pub(crate) fn block_ratio(&self) -> f64 {
        self.block_ns[1] / self.block_ns[0]
    }

    /// An exchange without the rule.
    pub(crate) fn exchange_us(&self) -> f64 {
        self.exchange_ns[0] / 1e3
    }

    /// Throughput without the rule.
    pub(crate) fn gigabits(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "the size of a block is small")]
        let bits = BLOCK as f64 * 8.0;
        bits / self.block_ns[0]
    }
}

/// All rounds.
pub(crate) fn measure() -> Result<Vec<Round>> {
    let options = Options { serve: None, servers_per_node: 1, ..Options::default() };
    let playground = Playground::new(&options)?;
    let node = playground.node("a");
    let (web, client) = (playground.place("web-a-0"), playground.place("client-a"));
    let (mut proxy, _) = crate::start(node.place().namespace(), cluster::facts(SERVICES))?;
    proxy.change(vec![cluster::with_endpoints(0, &[web.address(Family::V4)])])?;
    let listener = web.run(|| TcpListener::bind(web.at(Family::V4, SERVER_PORT)))??;
    let service = SocketAddr::new(cluster::cluster_ip(0).into(), PORT);
    let mut pair =
        Pair { client: client.run(|| TcpStream::connect(service))??, server: listener.accept()?.0 };
    pair.client.set_nodelay(true)?;
    pair.server.set_nodelay(true)?;
    rounds(0, ROUNDS, |i| pair.round(&mut proxy, i as usize))
}

/// Both ends of one connection.
struct Pair {
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    fn round(&mut self, proxy: &mut Proxy, round: usize) -> Result<Round> {
        let mut measured = Round { exchange_ns: [0.0; 2], block_ns: [0.0; 2] };
        // Who comes first changes, too.
        for turn in [round % 2, (round + 1) % 2] {
            switch(proxy, ["0", "1"][turn]).context("cannot switch the rule")?;
            measured.exchange_ns[turn] = quickest(|| self.exchanges(), EXCHANGES)?;
            measured.block_ns[turn] = quickest(|| self.blocks(), BLOCKS)?;
        }
        Ok(measured)
    }

    fn exchanges(&mut self) -> Result<()> {
        let mut byte = [0];
        for _ in 0..EXCHANGES {
            self.client.write_all(&byte)?;
            self.server.read_exact(&mut byte)?;
            self.server.write_all(&byte)?;
            self.client.read_exact(&mut byte)?;
        }
        Ok(())
    }

    fn blocks(&mut self) -> Result<()> {
        let mut block = vec![0; BLOCK];
        for _ in 0..BLOCKS {
            self.server.write_all(&block)?;
            self.client.read_exact(&mut block)?;
        }
        Ok(())
    }
}

/// Compares everything, as if the kernel had this setting, on which the rule depends.
fn switch(proxy: &mut Proxy, loose: &str) -> Result<()> {
    *proxy.mode.settings() = Simulated::new([(LOOSE, loose)]);
    proxy.mode.sync(&proxy.table, Scope::Everything)?;
    proxy.settle()?;
    Ok(())
}

/// Nanoseconds of one of `count` in the quickest slice; the first is not counted.
fn quickest(mut slice: impl FnMut() -> Result<()>, count: u32) -> Result<f64> {
    slice()?;
    let mut best = Duration::MAX;
    for _ in 0..SLICES {
        let start = Instant::now();
        slice()?;
        best = best.min(start.elapsed());
    }
    Ok(best.as_secs_f64() * 1e9 / f64::from(count))
}
