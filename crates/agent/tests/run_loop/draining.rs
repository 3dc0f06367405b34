//! Endpoints that wait for their connections to end: they are looked at again and again, and nothing waits for them.

use std::time::Duration;

use dataplane::{Dataplane, Scope, ServicePortIds, SyncError, Synced};
use model::ForwardingTable;

use crate::sim::{endpoints, ms, service, sim_on};

const AGAIN: Duration = Duration::from_secs(5);

/// A mode whose endpoints have connections for so many looks.
struct Drains {
    looks: usize,
}

impl Drains {
    fn synced(&self) -> Synced {
        Synced { drain_after: (self.looks > 0).then_some(AGAIN), ..Synced::default() }
    }
}

impl Dataplane for Drains {
    fn sync(
        &mut self,
        _desired: &ForwardingTable,
        _scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        Ok(self.synced())
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.looks -= 1;
        Ok(self.synced())
    }

    fn differences(&mut self, _desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        Ok(Vec::new())
    }
}

#[test]
fn endpoints_that_drain_are_looked_at_until_none_is_left() {
    let mut sim = sim_on(Drains { looks: 3 });
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(AGAIN * 2 + ms(100));
    assert_eq!(sim.settled, 2);
    sim.pass(AGAIN * 4);
    assert_eq!(sim.settled, 3, "there is nothing left to look at");
}

#[test]
fn no_change_waits_for_endpoints_that_drain_and_no_storm_keeps_them() {
    let mut sim = sim_on(Drains { looks: 2 });
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(2_000));
    let now = sim.now;
    sim.files(vec![endpoints("web", 1, 3)]);
    assert_eq!(sim.syncs.last().unwrap().0, now, "no time passed");
    for turn in 0..20 {
        sim.pass(ms(500));
        sim.files(vec![endpoints("web", 1, 1 + turn % 2)]);
    }
    assert_eq!(sim.settled, 2);
}
