//! Whom the simulated IPVS gives a packet to.
//!
//! In: the first packet of a connection, as it is when IPVS meets it. Out: who may get it and how often; who did get it is
//! remembered where the virtual server has persistence.
//!
//! Schedulers are told apart only by whom they can choose: `rr` and its like all alike, `wrr` and its like by weight, `fo` the
//! heaviest. Absent on purpose: the order in which they choose, and how many connections a server has.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use kernel::ipvs::What;

use super::{Behind, Simulated, State};
use crate::nft::SimPacket;

/// What IPVS does with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// No virtual server takes it: it goes on as it is.
    Ignored,
    /// One takes it but has nobody to give it to: "port unreachable".
    Refused,
    /// One of these gets it; never empty.
    OneOf(Vec<Share>),
}

/// How often a real server is chosen, against the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Where the packet then goes.
    pub server: SocketAddr,
    /// So many times.
    pub times: u32,
}

/// Which client was given to whom, and when last.
pub(super) type Remembered = BTreeMap<(What, IpAddr), (SocketAddr, Duration)>;

impl Simulated {
    /// Who may get the packet, if it comes now.
    pub fn answer(&self, packet: &SimPacket, now: Duration) -> Answer {
        let state = self.state();
        match state.taker(packet) {
            Some(behind) => state.choice(behind, packet, now),
            None => Answer::Ignored,
        }
    }

    /// Gives the packet to one of those that may get it. With persistence the client comes back to it.
    pub fn deliver(&self, packet: &SimPacket, server: SocketAddr, now: Duration) {
        let mut state = self.state();
        let Some(behind) = state.taker(packet) else { return };
        let chosen = behind.shares().find(|share| behind.target(share.server, packet) == server);
        let client = behind.client(packet.source);
        if let Some(share) = chosen.filter(|_| behind.server.persistence_s.is_some()) {
            state.remembered.insert(client, (share.server, now));
        }
    }
}

impl State {
    /// Marks go before addresses.
    fn taker(&self, packet: &SimPacket) -> Option<&Behind> {
        let marked = self.servers.get(&What::Mark(packet.mark, packet.family)).filter(|_| packet.mark != 0);
        marked.or_else(|| {
            let address = SocketAddr::new(packet.destination, packet.port?);
            self.servers.get(&What::Address(address, packet.protocol))
        })
    }

    fn choice(&self, behind: &Behind, packet: &SimPacket, now: Duration) -> Answer {
        if let Some(server) = self.known(behind, packet.source, now) {
            return Answer::OneOf(vec![Share { server: behind.target(server, packet), times: 1 }]);
        }
        let target = |share: Share| Share { server: behind.target(share.server, packet), ..share };
        let shares: Vec<Share> = behind.shares().map(target).collect();
        if shares.is_empty() { Answer::Refused } else { Answer::OneOf(shares) }
    }

    /// The server that the client had, if it still takes anybody: a node has `expire_quiescent_template` set.
    fn known(&self, behind: &Behind, source: IpAddr, now: Duration) -> Option<SocketAddr> {
        let seconds = behind.server.persistence_s?;
        let (server, when) = self.remembered.get(&behind.client(source))?;
        let is_fresh = now.saturating_sub(*when) < Duration::from_secs(seconds.into());
        let takes = behind.real.get(server).is_some_and(|found| found.server.weight > 0);
        (is_fresh && takes).then_some(*server)
    }
}

impl Behind {
    fn client(&self, source: IpAddr) -> (What, IpAddr) {
        let net = IpNet::new(source, self.server.client_bits);
        (self.server.what, net.map_or(source, |net| net.network()))
    }

    /// A server without a port gets the packet at the port that it was sent to. So do all servers of a virtual server by mark
    /// that has persistence: there the kernel forgets the server's own port.
    fn target(&self, server: SocketAddr, packet: &SimPacket) -> SocketAddr {
        let keeps_port = matches!(self.server.what, What::Mark(..)) && self.server.persistence_s.is_some();
        match packet.port {
            Some(port) if keeps_port || server.port() == 0 => SocketAddr::new(server.ip(), port),
            _ => server,
        }
    }

    fn shares(&self) -> impl Iterator<Item = Share> {
        let heaviest = self.real.values().map(|found| found.server.weight).max().unwrap_or(0);
        let scheduler = self.server.scheduler.as_str();
        self.real.values().filter(|found| found.server.weight > 0).filter_map(move |found| {
            let weight = found.server.weight;
            let times = match scheduler {
                "wrr" | "wlc" | "sed" | "nq" | "sh" | "mh" => weight,
                "fo" => u32::from(weight == heaviest),
                _ => 1,
            };
            (times > 0).then_some(Share { server: found.server.address, times })
        })
    }
}
