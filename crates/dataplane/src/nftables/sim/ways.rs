//! A packet, sent once for each way in which the drawn numbers may fall.

use std::time::Duration;

use kernel::IpProtocol;
use kernel::nft::Reject;
use kernel_sim::nft::{Fate, Outcome, SimPacket, Simulated};

use crate::sim::{End, Ends, end_of};

/// One way in which the numbers may fall.
#[derive(Clone, Debug)]
pub struct Way {
    pub end: End,
    /// It happens once in so many.
    pub one_in: u32,
    /// The kernel afterwards; it may remember the client.
    pub kernel: Simulated,
}

/// Sends the packet once for each way, each time through a kernel that is as `kernel` is.
pub fn ways(kernel: &Simulated, packet: &SimPacket, now: Duration) -> Result<Vec<Way>, String> {
    let (mut draws, mut ways) = (Draws::default(), Vec::new());
    loop {
        let mut after = kernel.clone();
        let outcome = draws.play(|random| after.send(packet, now, random));
        ways.push(Way { end: meant(packet, &outcome)?, one_in: draws.one_in()?, kernel: after });
        if !draws.advance() {
            return Ok(ways);
        }
    }
}

/// The same, where nothing is remembered: the kernel is used as it is.
pub fn ends(kernel: &mut Simulated, packet: &SimPacket, now: Duration) -> Result<Ends, String> {
    let (mut draws, mut ends) = (Draws::default(), Vec::new());
    loop {
        let outcome = draws.play(|random| kernel.send(packet, now, random));
        ends.push((meant(packet, &outcome)?, (1, draws.one_in()?.into())));
        if !draws.advance() {
            return Ends::of(ends);
        }
    }
}

/// TCP must be refused by a reset: other answers are rate limited, and a lost one is a timeout.
fn meant(packet: &SimPacket, outcome: &Outcome) -> Result<End, String> {
    if let Fate::Rejected(how) = outcome.fate
        && (how == Reject::TcpReset) != (packet.protocol == IpProtocol::TCP)
    {
        return Err(format!("{:?} is refused by {how:?}", packet.protocol));
    }
    end_of(packet, outcome, false)
}

/// The numbers that are drawn: each time the next possibility.
#[derive(Debug, Default)]
struct Draws {
    drawn: Vec<(u32, u32)>,
}

impl Draws {
    fn play(&mut self, send: impl FnOnce(&mut dyn FnMut(u32) -> u32) -> Outcome) -> Outcome {
        let (drawn, mut at) = (&mut self.drawn, 0);
        let outcome = send(&mut |modulus| {
            if at == drawn.len() {
                drawn.push((0, modulus));
            }
            at += 1;
            drawn[at - 1].0
        });
        drawn.truncate(at);
        outcome
    }

    fn one_in(&self) -> Result<u32, String> {
        let product = self.drawn.iter().try_fold(1u32, |product, (_, modulus)| product.checked_mul(*modulus));
        product.ok_or_else(|| format!("too many numbers are drawn: {:?}", self.drawn))
    }

    /// Goes on to the next possibility. False after the last one.
    fn advance(&mut self) -> bool {
        while let Some((number, modulus)) = self.drawn.pop() {
            if number + 1 < modulus {
                self.drawn.push((number + 1, modulus));
                return true;
            }
        }
        false
    }
}
