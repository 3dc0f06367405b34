//! Spreads connections over a pool: round robin by weight.
//!
//! In: the pool, and what was tried already. Out: the next endpoint.
//!
//! Each endpoint has a turn at regular intervals of a common time that passes with the choices: one with three slots three
//! times as often as one with one. The endpoint whose turn is next is taken. Over as many choices as there are slots each
//! is taken exactly as often as it has slots. Who comes has its first turn from now on, and who goes takes no turn of
//! others along: endpoints that come and go neither favour nor harm those that stay.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use model::Pool;

use super::health::Health;
use super::{Chosen, Tried};
use crate::relay::counters::{Counts, Tally};

/// The endpoints of a pool, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Spread {
    members: Vec<Member>,
    /// The common time: when the last one had its turn.
    now: Turn,
    /// Endpoints that left the pool and may still have connections.
    leaving: Vec<(SocketAddr, Arc<Tally>)>,
}

/// A point, or a length, of the time that passes with the choices.
type Turn = u128;

/// An endpoint of one slot has a turn once in this time.
const ROUND: Turn = 1 << 32;

#[derive(Debug)]
struct Member {
    address: SocketAddr,
    /// The time between its turns.
    interval: Turn,
    next: Turn,
    health: Health,
    tally: Arc<Tally>,
}

impl Spread {
    /// Takes over a pool; endpoints that stay keep their turn, health and figures.
    pub(super) fn bring_to(&mut self, pool: &Pool) {
        let mut before: HashMap<SocketAddr, Member> =
            self.members.drain(..).map(|member| (member.address, member)).collect();
        for endpoint in pool.endpoints() {
            let address = SocketAddr::new(endpoint.address, endpoint.port);
            let interval = ROUND / Turn::from(endpoint.slots.max(1));
            let mut member = before.remove(&address).unwrap_or_else(|| self.newcomer(address, interval));
            // With more slots than before it need not wait for the turn that it would have had.
            member.next = member.next.min(self.now + interval);
            member.interval = interval;
            self.members.push(member);
        }
        self.leaving.extend(before.into_values().map(|member| (member.address, member.tally)));
    }

    fn newcomer(&mut self, address: SocketAddr, interval: Turn) -> Member {
        // One that comes back counts on.
        let known = self.leaving.iter().position(|(left, _)| *left == address);
        let tally = known.map(|i| self.leaving.swap_remove(i).1).unwrap_or_default();
        // In the middle of its interval, so that one with many slots is not taken in a burst.
        let next = self.now + interval / 2;
        Member { address, interval, next, health: Health::default(), tally }
    }

    /// The endpoint whose turn it is, of those that have not been tried; where all have been, of those that were silent.
    pub(super) fn choose(&mut self, now: Instant, tried: &[Tried]) -> Option<Chosen> {
        let is_new = |member: &Member| !tried.iter().any(|t| t.address == member.address);
        let was_silent = |member: &Member| {
            let mut attempts = tried.iter().filter(|t| t.address == member.address);
            attempts.all(|t| t.was_silent)
        };
        let is_well = |member: &Member| !member.health.is_out(now);
        let winner = self
            .next(|member| is_new(member) && is_well(member))
            .or_else(|| self.next(is_new))
            .or_else(|| self.next(was_silent))?;
        Some(self.members[winner].dial(now))
    }

    /// The candidate whose turn is next.
    fn next(&mut self, is_candidate: impl Fn(&Member) -> bool) -> Option<usize> {
        let candidates = self.members.iter().enumerate().filter(|(_, member)| is_candidate(member));
        let (winner, _) = candidates.min_by_key(|(_, member)| member.next)?;
        let member = &mut self.members[winner];
        // One that was left out for a while does not make up for all the turns that it has missed.
        let turn = member.next.max(self.now.saturating_sub(member.interval));
        member.next = turn + member.interval;
        self.now = self.now.max(turn);
        Some(winner)
    }

    /// This very endpoint, if it is in the pool and not left out.
    pub(super) fn take(&mut self, now: Instant, address: SocketAddr) -> Option<Chosen> {
        let member = self.member(address).filter(|member| !member.health.is_out(now))?;
        Some(member.dial(now))
    }

    pub(super) fn succeeded(&mut self, address: SocketAddr) {
        if let Some(member) = self.member(address) {
            member.health.succeeded();
        }
    }

    pub(super) fn failed(&mut self, now: Instant, address: SocketAddr) {
        if let Some(member) = self.member(address) {
            member.health.failed(now);
        }
    }

    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.members.iter().any(|member| member.address == address)
    }

    pub(super) fn counts(&mut self) -> Vec<(SocketAddr, Counts)> {
        self.leaving.retain(|(_, tally)| tally.read().active > 0);
        let members = self.members.iter().map(|member| (member.address, &member.tally));
        let leaving = self.leaving.iter().map(|(address, tally)| (*address, tally));
        members.chain(leaving).map(|(address, tally)| (address, tally.read())).collect()
    }

    fn member(&mut self, address: SocketAddr) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.address == address)
    }
}

impl Member {
    fn dial(&mut self, now: Instant) -> Chosen {
        self.health.dialled(now);
        Chosen { address: self.address, tally: Arc::clone(&self.tally) }
    }
}
