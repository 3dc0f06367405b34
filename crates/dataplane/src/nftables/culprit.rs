//! Whose element the kernel refused, so that this service port alone is quarantined.
//!
//! In: a refused transaction. Out: the elements that it was about, and their owner.

use std::collections::BTreeSet;

use kernel::nft::{Error, Operation, Transaction};
use model::{ServicePort, ServicePortId};

use super::desired::address;
use super::elements;
use super::family::FamilyState;
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

impl FamilyState {
    /// The service port whose elements all of these are. A cluster IP is each of its ports'; what all may need together has no
    /// owner.
    pub(super) fn owner(&self, culprit: &Culprit) -> Option<ServicePortId> {
        let owns_all = |port: &ServicePort| {
            let needs = elements::of(port, self.family, &self.desired.numbers);
            let addresses = needs.cluster_addresses.iter().map(|ip| address(SetId::ClusterAddresses, *ip));
            let own: BTreeSet<ElementKey> =
                needs.own.into_iter().chain(addresses).map(|(set, element)| key_of(set, &element)).collect();
            culprit.0.iter().all(|key| own.contains(key))
        };
        self.desired.ports().find(|port| owns_all(port)).map(|port| port.id().clone())
    }
}
