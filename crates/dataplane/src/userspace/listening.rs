//! Listeners: opened before rules lead to them, closed when none does any more.
//!
//! A service port is served as a whole or stays as it was: where one of its listeners cannot be opened, those that it had keep their
//! pools, and the rules keep leading to them. The same where the iptables program refuses its rules. It is refused by name, and all
//! others work.

use std::collections::{BTreeMap, BTreeSet};

use model::{Family, ForwardingTable, Protocol, ServicePort, ServicePortId};

use super::earlier::Earlier;
use super::ports::{Ports, listener, listeners};
use super::render::Portals;
use crate::quarantine::Accepted;
use crate::relay::{ListenerId, Purpose, Relays};

const NO_SCTP: &str =
    "userspace mode cannot carry SCTP, so nothing leads to this port: use a mode that carries it";

/// What is open, and for which service ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Listening {
    /// Open, and nothing shall lead there any more.
    doomed: BTreeSet<ListenerId>,
    accepted: Accepted,
    /// Rules of this process were in force once.
    was_in_force: bool,
}

/// What listeners are opened with.
pub(super) struct Opener<'a, R> {
    pub(super) relays: &'a mut R,
    pub(super) desired: &'a ForwardingTable,
    /// The families that are served.
    pub(super) families: &'a [Family],
    pub(super) style: &'a mut Portals,
    pub(super) earlier: &'a mut Earlier,
}

impl Listening {
    /// Opens what these service ports need, and brings what is open to its pool.
    pub(super) fn open<R: Relays>(&mut self, opener: &mut Opener<'_, R>, ids: &BTreeSet<ServicePortId>) {
        for id in ids {
            opener.style.quarantine.release(id);
            self.bring(opener, id);
        }
    }

    /// Brings service ports back to how they were that the iptables program refused. Returns those.
    ///
    /// Before rules of this process were in force it is not known how they were: what a previous process left leads to the same listeners.
    pub(super) fn bring_back<R: Relays>(
        &mut self,
        opener: &mut Opener<'_, R>,
        refused: BTreeMap<ServicePortId, String>,
    ) -> BTreeSet<ServicePortId> {
        let mut back = BTreeSet::new();
        if !self.was_in_force {
            return back;
        }
        for (id, reason) in refused {
            if !opener.style.quarantine.contains(&id) {
                opener.style.quarantine.add(opener.desired, &id, self.accepted.before(&id), reason);
                self.bring(opener, &id);
                back.insert(id);
            }
        }
        back
    }

    /// Opens what is wanted for a service port. Where that is refused, it is wanted as it was before.
    fn bring<R: Relays>(&mut self, opener: &mut Opener<'_, R>, id: &ServicePortId) {
        loop {
            let wanted = opener.style.quarantine.wanted(opener.desired, id);
            self.accepted.write(id, wanted.clone());
            let Err(reason) = self.open_all(opener, id, wanted.as_deref()) else { return };
            opener.style.quarantine.add(opener.desired, id, self.accepted.before(id), reason);
        }
    }

    fn open_all<R: Relays>(
        &mut self,
        opener: &mut Opener<'_, R>,
        id: &ServicePortId,
        port: Option<&ServicePort>,
    ) -> Result<(), String> {
        let mut needless = opener.style.ports.of(id);
        if let Some(port) = port {
            let is_served = |family| opener.families.contains(&family);
            let mut frontends = port.routes.iter().map(|route| route.frontend);
            if id.protocol == Protocol::Sctp && frontends.any(|one| is_served(one.family())) {
                return Err(NO_SCTP.to_owned());
            }
            let mut needed: Vec<_> =
                opener.families.iter().flat_map(|family| listeners(port, *family)).collect();
            // Those first that may be refused: then the pools of the others are as they were.
            needed.sort_by_key(|(id, _)| needless.contains(id));
            for (id, pool) in needed {
                let wish = opener.earlier.wish(&id, opener.relays);
                let wanted = listener(port, id.family, pool, wish);
                let number = opener.relays.open(&id, &wanted).map_err(|error| error.to_string())?;
                opener.style.ports.insert(&id, number);
                self.doomed.remove(&id);
                needless.remove(&id);
            }
        }
        self.doomed.extend(needless);
        Ok(())
    }

    /// Rules are in force that lead to what was opened.
    pub(super) fn accept(&mut self) {
        self.accepted.accept();
        self.was_in_force = true;
    }

    /// Closes what nothing leads to. If all is known, also whatever else is open: an earlier process gave it to us.
    pub(super) fn close<R: Relays>(&mut self, relays: &mut R, ports: &mut Ports, is_complete: bool) {
        if is_complete {
            let is_ours = |id: &ListenerId| id.purpose != Purpose::Localhost;
            let is_needless = |id: &ListenerId| ports.get(&id.port, id.family, id.purpose).is_none();
            self.doomed.extend(relays.ids().into_iter().filter(|id| is_ours(id) && is_needless(id)));
        }
        for id in std::mem::take(&mut self.doomed) {
            relays.close(&id);
            ports.remove(&id);
        }
    }
}
