//! Service ports that the kernel refused. Each stays as it was, so that it does not hold back the others.
//!
//! In: a refused transaction. Out: whose element it was, and what is written instead: the service port as it was before, or
//! nothing. It is tried again when it changes, and with every full sync.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kernel::nft::{Error, Operation, Transaction};
use model::{ForwardingTable, ServicePort, ServicePortId};

use super::elements;
use super::family::FamilyState;
use super::follow::address;
use super::layout::SetId;
use super::plan::{ElementKey, key_of};

/// The elements of which one was refused; mostly it is known which.
#[derive(Debug)]
pub(super) struct Culprit(Vec<ElementKey>);

impl Culprit {
    /// The elements that a refusal is about. `None` where it is about something else, or may pass by itself.
    pub(super) fn of(transaction: &Transaction, error: &Error) -> Option<Self> {
        let Error::Refused { index, element, .. } = error else { return None };
        let Some(Operation::AddElements(set, elements)) = transaction.operations.get(*index) else {
            return None;
        };
        let set = SetId::ALL.into_iter().find(|id| id.name() == &**set)?;
        let suspects = match element {
            Some(at) => elements.get(*at..=*at)?,
            None => elements,
        };
        let keys = suspects.iter().map(|element| key_of(set, element)).collect();
        (!error.retry_helps()).then_some(Self(keys))
    }
}

/// What is written instead of a service port, and why.
#[derive(Clone, Debug)]
struct Instead {
    port: Option<Arc<ServicePort>>,
    reason: String,
}

/// All that are withheld.
#[derive(Clone, Debug, Default)]
pub(super) struct Withheld {
    ports: BTreeMap<ServicePortId, Instead>,
}

impl Withheld {
    pub(super) fn count(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn contains(&self, id: &ServicePortId) -> bool {
        self.ports.contains_key(id)
    }

    pub(super) fn try_again(&mut self, id: &ServicePortId) {
        self.ports.remove(id);
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &ServicePortId> {
        self.ports.keys()
    }

    /// Each with the kernel's reason.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (ServicePortId, String)> {
        self.ports.iter().map(|(id, instead)| (id.clone(), instead.reason.clone()))
    }

    /// Withholds a service port, and keeps it as it was, without frontends that are another's by now.
    pub(super) fn add(
        &mut self,
        desired: &ForwardingTable,
        id: ServicePortId,
        before: Option<&ServicePort>,
        reason: String,
    ) {
        let port = before.map(|before| {
            let is_free = |frontend| desired.route(frontend).is_none_or(|(holder, _)| *holder.id() == id);
            let mut port = before.clone();
            port.routes = before.routes.iter().filter(|route| is_free(&route.frontend)).cloned().collect();
            Arc::new(port)
        });
        self.ports.insert(id, Instead { port, reason });
    }

    /// What is to be written for a service port.
    pub(super) fn wanted(&self, desired: &ForwardingTable, id: &ServicePortId) -> Option<Arc<ServicePort>> {
        match self.ports.get(id) {
            Some(instead) => instead.port.clone(),
            None => desired.port(id).cloned(),
        }
    }
}

impl FamilyState {
    /// The service port whose elements all of these are. A cluster IP is each of its ports'; what all may need together has no
    /// owner.
    pub(super) fn owner(&self, culprit: &Culprit) -> Option<ServicePortId> {
        let owns_all = |port: &ServicePort| {
            let needs = elements::of(port, self.family, &self.numbers);
            let addresses = needs.cluster_addresses.iter().map(|ip| address(SetId::ClusterAddresses, *ip));
            let own: BTreeSet<ElementKey> =
                needs.own.into_iter().chain(addresses).map(|(set, element)| key_of(set, &element)).collect();
            culprit.0.iter().all(|key| own.contains(key))
        };
        self.ports.values().find(|port| owns_all(port)).map(|port| port.id().clone())
    }
}
