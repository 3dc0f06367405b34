//! What IPVS does to a packet that passes between the tables.
//!
//! In: the packet as it is there, and whom IPVS may give it to. Out: its new destination, chosen by the same chance as rules
//! by probability, so that every way can be tried.

use std::net::SocketAddr;

use kernel::xtables::Probability;

use super::run::{End, Run};
use crate::ipvs::{Answer, Share, Simulated};

/// Where the packet goes on.
pub(super) enum Balanced {
    /// Nowhere.
    End(End),
    /// At another host.
    Away,
    /// As if IPVS were not there; perhaps with another destination on this host.
    Here,
}

impl Run<'_> {
    pub(super) fn balance(&mut self, ipvs: &Simulated) -> Balanced {
        match ipvs.answer(&self.packet, self.now) {
            Answer::Ignored => Balanced::Here,
            Answer::Refused => Balanced::End(End::Reject),
            Answer::OneOf(shares) => {
                let server = self.one_of(&shares);
                ipvs.deliver(&self.packet, server, self.now);
                self.is_balanced = true;
                self.packet.destination = server.ip();
                self.packet.port = Some(server.port());
                self.destination = Some((server.ip(), Some(server.port())));
                if self.is_for_us() { Balanced::Here } else { Balanced::Away }
            }
        }
    }

    /// One after the other is asked whether it gets the packet; the last one gets what nobody before it did.
    fn one_of(&mut self, shares: &[Share]) -> SocketAddr {
        let mut left: u32 = shares.iter().map(|share| share.times).sum();
        let last = shares.len() - 1;
        for share in &shares[..last] {
            if (self.chance)(Probability::new(share.times, left)) {
                return share.server;
            }
            left -= share.times;
        }
        shares[last].server
    }
}
