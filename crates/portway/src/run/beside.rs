//! Carries out errands: what is to be done in this kernel beside the rules.

use std::collections::BTreeSet;

use dataplane::{flows, upstream};
use kernel::conntrack::Netlink;
use kernel::nft;
use kernel::xtables::Programs;
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
            Errand::TakeOver => take_over(),
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

/// One program or family that fails does not hide the others.
fn take_over() -> Result<Done, String> {
    let mut nft = nft::Netlink::open().map_err(|error| error.to_string())?;
    let taken = upstream::take_over(&mut Programs::find(), &mut nft);
    let (again, stays): (Vec<_>, Vec<_>) = taken.problems.iter().partition(|problem| problem.retry_helps());
    Ok(Done {
        removed: taken.removed.iter().map(ToString::to_string).collect(),
        stays: stays.iter().map(ToString::to_string).collect(),
        again: again.first().map(ToString::to_string),
        ..Done::default()
    })
}
