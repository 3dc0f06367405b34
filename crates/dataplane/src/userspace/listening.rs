//! Listeners: opened before rules lead to them, closed when none does any more.
//!
//! A listener that cannot be opened takes its service port, in that family, out of the rules: it is refused by name, and all
//! others work.

use std::collections::{BTreeMap, BTreeSet};

use model::{Family, ForwardingTable, Protocol, ServicePort, ServicePortId};

use super::earlier::Earlier;
use super::ports::{Ports, PortsOfOne, listener, needed};
use crate::relay::{ListenerId, Purpose, Relays};

const NO_SCTP: &str =
    "userspace mode cannot carry SCTP, so nothing leads to this port: use a mode that carries it";

/// What is open, and what could not be.
#[derive(Clone, Debug, Default)]
pub(super) struct Listening {
    /// Open, and nothing shall lead there any more.
    doomed: BTreeSet<ListenerId>,
    /// Service ports without a listener that they need, with the reason.
    pub(super) refused: BTreeMap<ServicePortId, String>,
}

impl Listening {
    /// Opens what these service ports need, and brings what is open to its pool.
    pub(super) fn open<R: Relays>(
        &mut self,
        relays: &mut R,
        ids: &BTreeSet<ServicePortId>,
        desired: &ForwardingTable,
        families: &[Family],
        ports: &mut Ports,
        earlier: &mut Earlier,
    ) {
        for id in ids {
            self.refused.remove(id);
            let mut now = PortsOfOne::new();
            if let Some(port) = desired.port(id) {
                for family in families {
                    now.extend(self.open_family(relays, port, *family, earlier));
                }
            }
            let before = ports.replace(id, now.clone());
            let gone = before.into_keys().filter(|key| !now.contains_key(key));
            self.doomed.extend(gone.map(|(family, purpose)| ListenerId {
                port: id.clone(),
                family,
                purpose,
            }));
        }
    }

    fn open_family<R: Relays>(
        &mut self,
        relays: &mut R,
        port: &ServicePort,
        family: Family,
        earlier: &mut Earlier,
    ) -> PortsOfOne {
        let id = port.id();
        if id.protocol == Protocol::Sctp {
            if port.routes.iter().any(|route| route.frontend.family() == family) {
                self.refused.insert(id.clone(), NO_SCTP.to_owned());
            }
            return PortsOfOne::new();
        }
        let mut open = PortsOfOne::new();
        for (purpose, pool) in needed(port, family) {
            let listener_id = ListenerId { port: id.clone(), family, purpose };
            let wish = earlier.wish(&listener_id, relays);
            match relays.open(&listener_id, &listener(port, family, pool, wish)) {
                Ok(number) => {
                    self.doomed.remove(&listener_id);
                    open.insert((family, purpose), number);
                }
                Err(error) => {
                    self.refused.insert(id.clone(), error.to_string());
                    let opened = open.into_keys();
                    self.doomed.extend(opened.map(|(family, purpose)| ListenerId {
                        port: id.clone(),
                        family,
                        purpose,
                    }));
                    return PortsOfOne::new();
                }
            }
        }
        open
    }

    /// Closes what nothing leads to. With `only`, also whatever else is open and none of these: an earlier process gave it to us.
    pub(super) fn close<R: Relays>(&mut self, relays: &mut R, only: Option<&Ports>) {
        if let Some(wanted) = only {
            let is_ours = |id: &ListenerId| id.purpose != Purpose::Localhost;
            let is_needless = |id: &ListenerId| wanted.get(&id.port, id.family, id.purpose).is_none();
            self.doomed.extend(relays.ids().into_iter().filter(|id| is_ours(id) && is_needless(id)));
        }
        for id in std::mem::take(&mut self.doomed) {
            relays.close(&id);
        }
    }
}
