//! Sends a packet once for each way in which chance may fall.
//!
//! In: a packet. Out: every outcome with its share and the tables as they then are: they may remember the client. Shares add
//! up to one; equal outcomes by different ways are not added up.

use std::collections::BTreeSet;
use std::time::Duration;

use kernel::xtables::{Probability, State};

use super::Simulated;
use crate::ipvs;
use crate::nft::{Outcome, SimPacket};

/// One way in which chance may fall.
#[derive(Debug, Clone)]
pub struct Way {
    /// What then becomes of the packet.
    pub outcome: Outcome,
    /// How often that is: so many times, of so many; in lowest terms.
    pub share: (u64, u64),
    /// The tables afterwards. They do not know what was restored or counted before.
    pub after: Simulated,
}

impl Simulated {
    /// Sends the first packet of a connection, each time through tables that are as these are.
    ///
    /// # Panics
    ///
    /// If a share is too small to be counted.
    pub fn ways(&self, packet: &SimPacket, now: Duration) -> Vec<Way> {
        self.ways_as(packet, &BTreeSet::from([State::New]), now)
    }

    /// The same for a packet of which the connection tracker says this.
    ///
    /// # Panics
    ///
    /// If a share is too small to be counted.
    pub fn ways_as(&self, packet: &SimPacket, states: &BTreeSet<State>, now: Duration) -> Vec<Way> {
        let (mut falls, mut ways) = (Falls::default(), Vec::new());
        loop {
            let mut after = self.without_history();
            let outcome = falls.play(|chance| after.send_as(packet, states, now, chance));
            ways.push(Way { outcome, share: falls.share(), after });
            if !falls.advance() {
                return ways;
            }
        }
    }

    fn without_history(&self) -> Self {
        let (tables, lists, sets) = (self.tables.clone(), self.lists.clone(), self.sets.clone());
        // It remembers clients, and may do so differently on each way.
        let ipvs = self.ipvs.as_ref().map(ipvs::Simulated::copy);
        Self { tables, lists, sets, ipvs, ..Self::new(self.variant, self.family) }
    }
}

/// What was asked and how it fell: each time the next possibility. What is certain is not tried the other way.
#[derive(Default)]
struct Falls(Vec<(Probability, bool)>);

impl Falls {
    fn play(&mut self, send: impl FnOnce(&mut dyn FnMut(Probability) -> bool) -> Outcome) -> Outcome {
        let (falls, mut at) = (&mut self.0, 0);
        let outcome = send(&mut |probability| {
            if at == falls.len() {
                falls.push((probability, probability.fraction().0 > 0));
            }
            at += 1;
            falls[at - 1].1
        });
        falls.truncate(at);
        outcome
    }

    fn share(&self) -> (u64, u64) {
        let shares = self.0.iter().map(|(probability, is_taken)| {
            let (slots, of) = probability.fraction();
            (u64::from(if *is_taken { slots } else { of - slots }), u64::from(of))
        });
        shares.fold((1, 1), |(part, whole), (slots, of)| {
            let product = part.checked_mul(slots).zip(whole.checked_mul(of));
            let (part, whole) = product.expect("shares that rules can say are not too small to count");
            lowest(part, whole)
        })
    }

    /// Goes on to the next possibility; false after the last one.
    fn advance(&mut self) -> bool {
        while let Some((probability, is_taken)) = self.0.pop() {
            let (slots, of) = probability.fraction();
            if is_taken && slots < of {
                self.0.push((probability, false));
                return true;
            }
        }
        false
    }
}

/// A fraction in lowest terms.
fn lowest(part: u64, whole: u64) -> (u64, u64) {
    let (mut a, mut b) = (part, whole);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (part / a.max(1), whole / a.max(1))
}
