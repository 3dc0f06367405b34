//! Who holds which frontend.
//!
//! Nearly every frontend has one claimant. Where there are more, all claims are kept, so that the next one takes over when
//! the holder goes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::types::Claim;
use crate::frontend::Frontend;
use crate::name::ServicePortId;
use crate::net::Protocol;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    holders: BTreeMap<Frontend, Arc<Claim>>,
    /// Frontends with two claimants or more: all of them, the holder first.
    contested: BTreeMap<Frontend, Vec<Arc<Claim>>>,
}

impl Claims {
    /// Who holds `frontend`.
    pub(super) fn holder(&self, frontend: &Frontend) -> Option<&Arc<Claim>> {
        self.holders.get(frontend)
    }

    /// The frontends at an address.
    pub(super) fn at(&self, ip: IpAddr) -> impl Iterator<Item = (&Frontend, &Arc<Claim>)> {
        let first = Frontend::Address { ip, protocol: Protocol::Tcp, port: 0 };
        let last = Frontend::Address { ip, protocol: Protocol::Sctp, port: u16::MAX };
        self.holders.range(first..=last)
    }

    /// Claims `frontend`. Returns the other claimants, if it has another holder by that: each must know who has it.
    pub(super) fn claim(&mut self, frontend: Frontend, claim: &Arc<Claim>) -> Vec<ServicePortId> {
        let holder = self.holders.entry(frontend).or_insert_with(|| Arc::clone(claim));
        let previous = std::mem::replace(holder, Arc::clone(claim));
        if previous.id == claim.id && !self.contested.contains_key(&frontend) {
            return Vec::new();
        }
        let claims = self.contested.entry(frontend).or_insert_with(|| vec![Arc::clone(&previous)]);
        claims.retain(|c| c.id != claim.id);
        claims.push(Arc::clone(claim));
        claims.sort_by(|a, b| a.precedence(b));
        *holder = Arc::clone(&claims[0]);
        others(claims, &previous, &claim.id)
    }

    /// Takes back a claim. Returns the remaining claimants, if it has another holder by that.
    pub(super) fn release(&mut self, frontend: &Frontend, id: &ServicePortId) -> Vec<ServicePortId> {
        let Some(claims) = self.contested.get_mut(frontend) else {
            if self.holders.get(frontend).is_some_and(|holder| holder.id == *id) {
                self.holders.remove(frontend);
            }
            return Vec::new();
        };
        claims.retain(|c| c.id != *id);
        let heir = Arc::clone(claims.first().expect("a contested frontend has two claimants or more"));
        let others = match self.holders.insert(*frontend, heir) {
            Some(previous) => others(claims, &previous, id),
            None => Vec::new(),
        };
        if claims.len() == 1 {
            self.contested.remove(frontend);
        }
        others
    }
}

/// Everybody but `claimant`, if the first of `claims` is another one than `previous`.
fn others(claims: &[Arc<Claim>], previous: &Claim, claimant: &ServicePortId) -> Vec<ServicePortId> {
    if claims[0].id == previous.id {
        return Vec::new();
    }
    claims.iter().map(|c| &c.id).filter(|id| *id != claimant).cloned().collect()
}
