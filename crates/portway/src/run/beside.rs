//! Carries out errands: what is to be done in this kernel beside the rules.

use std::collections::BTreeSet;

use dataplane::flows;
use kernel::conntrack::Netlink;
use model::flows::StaleFlows;

use super::errands::{Done, Errand};

/// The doors that errands need, opened when they are.
#[derive(Debug, Default)]
pub(super) struct Beside {
    conntrack: Option<Netlink>,
}

impl Beside {
    pub(super) fn run(&mut self, errand: &Errand) -> Result<Done, String> {
        match errand {
            Errand::Forget(stale) => self.forget(stale),
            Errand::TakeOver => Ok(Done::default()),
        }
    }

    /// A connection that failed is opened anew the next time.
    fn forget(&mut self, stale: &BTreeSet<StaleFlows>) -> Result<Done, String> {
        let mut conntrack = match self.conntrack.take() {
            Some(conntrack) => conntrack,
            None => Netlink::open().map_err(|error| error.to_string())?,
        };
        let forgotten = flows::forget(&mut conntrack, stale).map_err(|error| error.to_string())?;
        self.conntrack = Some(conntrack);
        Ok(Done { flows: forgotten.forgotten, ..Done::default() })
    }
}
