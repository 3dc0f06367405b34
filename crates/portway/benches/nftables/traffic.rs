//! What a connection pays: through the last service, and straight to its pods.
//!
//! A client pod, four server pods and the rules between them, in the namespace of their node: every packet passes the
//! node's prerouting hook, also those that go straight. The same on a second node that has no rules at all shows what
//! these cost everybody.
//!
//! Both ways are taken in turn, connect by connect, so that whatever else happens on the machine meets both alike.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};
use harness::cluster::{self, ENDPOINTS, PORT};
use harness::{Quantiles, Spread, rounds};
use playground::{Family, Latencies, Node, Options, Place, Playground, Ports, Work, connect_latencies, many};
use serde::{Deserialize, Serialize};

use crate::Proxy;

/// Rounds; each is long enough to stand for itself.
pub(crate) const ROUNDS: u32 = 7;
/// Connects of each way in a round.
pub(crate) const CONNECTS: usize = 2_000;
/// Connections of each way in a round of throughput.
const CONNECTIONS: usize = 8_000;
/// Connects that nobody counts.
const WARM_UP: usize = 200;
const SERVER_PORT: u16 = 8080;

/// All rounds at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) services: u32,
    pub(crate) rounds: Vec<Round>,
}

/// One round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Median time of a connect through the service.
    pub(crate) service_us: f64,
    /// … straight to its pods.
    pub(crate) straight_us: f64,
    /// … straight to a pod of a node without rules.
    pub(crate) bare_us: f64,
    /// Connections per second through the service: connect, one line, close.
    pub(crate) service_per_second: f64,
    /// … straight to its pods.
    pub(crate) straight_per_second: f64,
}

impl Traffic {
    pub(crate) fn spread(&self, figure: fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }
}

impl Round {
    /// Through the service, as a multiple of straight.
    pub(crate) fn ratio(&self) -> f64 {
        self.service_us / self.straight_us
    }
}

/// Measures at one size.
pub(crate) fn measure(services: u32) -> Result<Traffic> {
    let ground = Ground::new(services)?;
    ground.check()?;
    ground.connects(WARM_UP)?;
    Ok(Traffic { services, rounds: rounds(0, ROUNDS, |_| ground.round())? })
}

/// Two nodes; the first has the rules.
struct Ground {
    playground: Playground,
    service: SocketAddr,
    _proxy: Proxy,
}

impl Ground {
    fn new(services: u32) -> Result<Self> {
        let pods = usize::try_from(ENDPOINTS)?;
        let ports = Ports { tcp: vec![SERVER_PORT], held: Vec::new(), udp: Vec::new(), sctp: Vec::new() };
        let options =
            Options { clients_per_node: 1, servers_per_node: pods, serve: Some(ports), ..Options::default() };
        let playground = Playground::new(&options)?;
        let node = playground.node("a");
        let (mut proxy, _) = crate::start(node.place().namespace(), cluster::facts(services))?;
        forget_quickly(node)?;
        let last = services - 1;
        let addresses: Vec<IpAddr> = node.webs().map(|web| web.address(Family::V4)).collect();
        proxy.change(vec![cluster::with_endpoints(last, &addresses)])?;
        let service = SocketAddr::new(cluster::cluster_ip(last).into(), PORT);
        Ok(Self { playground, service, _proxy: proxy })
    }

    fn client(&self, node: &str) -> &Place {
        self.playground.place(&format!("client-{node}"))
    }

    fn pods(&self, node: &str) -> Vec<SocketAddr> {
        self.playground.node(node).webs().map(|web| web.at(Family::V4, SERVER_PORT)).collect()
    }

    /// Every pod answers through the service, and nobody else.
    fn check(&self) -> Result<()> {
        let stats = many(self.client("a"), self.service, 200, &Work::default())?;
        ensure!(
            stats.failed == 0 && stats.servers.len() == self.pods("a").len(),
            "the service fails: {stats}"
        );
        Ok(())
    }

    fn round(&self) -> Result<Round> {
        let [service_us, straight_us, bare_us] = self.connects(CONNECTS)?;
        let service_per_second = self.rate(&vec![self.service; self.pods("a").len()])?;
        let straight_per_second = self.rate(&self.pods("a"))?;
        Ok(Round { service_us, straight_us, bare_us, service_per_second, straight_per_second })
    }

    /// Median microseconds of a connect: through the service, straight, straight without rules.
    fn connects(&self, count: usize) -> Result<[f64; 3]> {
        let in_turn: Vec<_> = self.pods("a").into_iter().flat_map(|pod| [self.service, pod]).collect();
        let each = count.div_ceil(in_turn.len() / 2);
        let sampled = connect_latencies(self.client("a"), &in_turn, each)?;
        let bare = connect_latencies(self.client("b"), &self.pods("b"), each)?;
        let [service, straight] = [0, 1].map(|first| median_us(sampled.iter().skip(first).step_by(2)));
        Ok([service, straight, median_us(bare.iter())])
    }

    /// Connections per second, by one asker for each of the destinations.
    fn rate(&self, destinations: &[SocketAddr]) -> Result<f64> {
        let (client, each) = (self.client("a"), CONNECTIONS / destinations.len());
        let work = &Work { parallel: 1, ..Work::default() };
        let start = Instant::now();
        let stats = thread::scope(|scope| {
            let ask = |destination| scope.spawn(move || many(client, destination, each, work));
            let askers: Vec<_> = destinations.iter().map(|destination| ask(*destination)).collect();
            let answers = askers.into_iter().map(|asker| asker.join().expect("an asker does not panic"));
            answers.collect::<Result<Vec<_>, _>>()
        })?;
        for stats in &stats {
            ensure!(stats.failed == 0, "connections failed: {stats}");
        }
        let answered: u64 = stats.iter().map(|stats| stats.ok).sum();
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        Ok(answered as f64 / start.elapsed().as_secs_f64())
    }
}

/// A client that dials one pod both ways, some ten thousand times, comes back with a port that the pod and the connection
/// tracker still remember from the other way. They would keep it waiting for a second; here nothing is in flight that
/// they would have to wait for.
fn forget_quickly(node: &Node) -> Result<()> {
    node.place().set(&[("netfilter/nf_conntrack_tcp_timeout_time_wait", "1")])?;
    for web in node.webs() {
        web.set(&[("ipv4/tcp_max_tw_buckets", "0")])?;
    }
    Ok(())
}

fn median_us<'a>(latencies: impl Iterator<Item = &'a Latencies>) -> f64 {
    Quantiles::of(latencies.flat_map(Latencies::sorted).copied()).p50_us
}
