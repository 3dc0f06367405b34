//! Notifications that are lost: what somebody else did to our tables is put right all the same.
//!
//! Where the kernel says that it lost something, at once, as if it had been heard; where nobody hears of it, by the next
//! comparison of everything.

use std::time::Duration;

use dataplane::nftables::Listener;
use kernel::nft::{Event, Family, Object, Operation, Transaction};
use kernel_sim::nft::{Losing, Loss};

use crate::storm::Storm;

/// A moment for the writing.
const SOON: Duration = Duration::from_secs(2);
/// Everything is compared more often than this.
const LATER: Duration = Duration::from_secs(40);

/// Loses each notification of a foreign write, in each way. Returns how many cases that were.
pub(crate) fn lose_each() -> Result<usize, String> {
    let mut tried = 0;
    for n in 0..notifications().len() {
        for loss in [Loss::Said, Loss::Unsaid] {
            lose(n, loss).map_err(|why| format!("notification {n}, {loss:?}: {why}"))?;
            tried += 1;
        }
    }
    Ok(tried)
}

fn lose(n: usize, loss: Loss) -> Result<(), String> {
    let (mut storm, mut losing, mut listener) = (Storm::new(2)?, Losing::default(), Listener::default());
    losing.lose(n, loss);
    let mut foreign = Transaction::new(Family::V4, "kube-proxy");
    foreign.push(Operation::FlushSet("endpoints".into()));
    foreign.push(Operation::FlushSet("frontends".into()));
    storm.meddle(&foreign)?;
    if storm.has_converged().is_ok() {
        return Err("nobody notices what was done".into());
    }
    for event in notifications() {
        if let Some(meddled) = losing.pass(event).and_then(|event| listener.hear(event)) {
            storm.feed(agent::Event::Meddled(meddled))?;
        }
    }
    storm.pass(if loss == Loss::Said { SOON } else { LATER })?;
    storm.has_converged()
}

/// What the kernel tells of it.
fn notifications() -> Vec<Event> {
    let changed = || Event::Changed {
        family: Family::V4,
        table: "kube-proxy".into(),
        object: Object::Elements,
        port: 7,
    };
    vec![changed(), changed(), Event::Generation { id: 99, thread: 7, name: "nft".into() }]
}
