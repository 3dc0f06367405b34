//! In which order things come and go, so that every packet meets an endpoint of the old route or of the new one.
//!
//! In: what must come and what must go. Out: steps, each a list of requests to one door.
//!
//! There is no transaction here. What leads to a thing comes after it and goes before it: records and allowed sources first; then
//! virtual servers, which refuse while they are empty; then what hides sources; then real servers; addresses last. Frontends whose
//! outside has endpoints of its own are told apart by rules and a set, which change between the real servers by mark and the
//! others. What goes, goes in the opposite order. An address that was an endpoint's, or becomes one, is this host's only while no real
//! server is there. A virtual server that gets another scheduler has none for a moment, and would refuse: new connections to it are held
//! back meanwhile. Where a source is hidden by the old route or by the new one, it is hidden
//! between them, too: then answers find their way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kernel::ipset;
use kernel::ipvs::{RealServer, Request, VirtualServer, What};
use model::Family;

use super::items::{Delta, Item, Place};
use super::names::SetId;

/// What is asked of one door at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of sets.
    Sets(Vec<ipset::Request>),
    /// Of virtual servers.
    Servers(Vec<Request>),
    /// Of iptables: the rules are brought to what they shall be.
    Rules,
    /// Of the interface: these addresses come.
    AddAddresses(Vec<IpAddr>),
    /// Of the interface: these addresses go.
    DeleteAddresses(Vec<IpAddr>),
}

/// Real servers that are to be left by their connections before they go, by virtual server.
pub type Draining = BTreeSet<(What, SocketAddr)>;

/// The steps of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One after the other.
    pub steps: Vec<Step>,
    /// Real servers that have weight 0 from now on.
    pub drained: Draining,
    /// Those that were so, and are needed again.
    pub returned: Draining,
}

/// What must be done. `draining` have weight 0 already; `drains` says of which virtual servers real servers are drained, and not
/// removed at once; `places` are those at which a virtual server is dialled.
pub fn plan(
    delta: &Delta,
    draining: &Draining,
    drains: &dyn Fn(&What) -> bool,
    places: &dyn Fn(&What) -> Vec<Place>,
) -> Plan {
    let real = Real::of(delta, draining, drains);
    let by_mark = |request: &Request| matches!(whose(request), Some(What::Mark(..)));
    let (mark_added, added) = real.added.into_iter().partition(by_mark);
    let entries = |sets: &[SetId]| Step::Sets(adds(delta, sets));
    let without = |sets: &[SetId]| Step::Sets(deletes(delta, sets));
    let mut steps = vec![Step::DeleteAddresses(addresses(&delta.removed)), entries(&RECORDS)];
    steps.extend(changes(delta, places));
    steps.extend([
        entries(&CLASSES),
        Step::Servers(mark_added),
        Step::Servers(real.emptied),
        without(&[SetId::Local]),
        Step::Rules,
        entries(&[SetId::Local]),
        // Who is in both is hidden, and by that mark finds no virtual server by mark: as before, until here.
        without(&[SetId::Masquerade]),
        Step::Servers(added),
        Step::Servers(real.removed),
        Step::AddAddresses(addresses(&delta.added)),
        without(&OTHER_CLASSES),
        Step::Servers(gone(delta)),
        without(&RECORDS),
    ]);
    Plan { steps, drained: real.drained, returned: real.returned }
}

/// What is written before, and removed after all else.
const RECORDS: [SetId; 5] = [SetId::Servers, SetId::Marks, SetId::Bound, SetId::Addresses, SetId::Sources];
/// What says what becomes of a place's packets.
const CLASSES: [SetId; 6] =
    [SetId::ClusterIps, SetId::Masquerade, SetId::Hairpin, SetId::Drop, SetId::Guarded, SetId::HealthChecks];
const OTHER_CLASSES: [SetId; 5] =
    [SetId::ClusterIps, SetId::Hairpin, SetId::Drop, SetId::Guarded, SetId::HealthChecks];

impl Step {
    /// How many requests it is.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Sets(requests) => requests.len(),
            Self::Servers(requests) => requests.len(),
            Self::Rules => 0,
            Self::AddAddresses(addresses) | Self::DeleteAddresses(addresses) => addresses.len(),
        }
    }

    /// Whether it asks for nothing. Of rules that is not known.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && *self != Self::Rules
    }

    /// In words.
    pub(super) fn lines(&self, interface: &str) -> Vec<String> {
        match self {
            Self::Sets(requests) => requests.iter().map(ToString::to_string).collect(),
            Self::Servers(requests) => requests.iter().map(ToString::to_string).collect(),
            Self::Rules => Vec::new(),
            Self::AddAddresses(all) => {
                all.iter().map(|ip| format!("add address {ip} to {interface}")).collect()
            }
            Self::DeleteAddresses(all) => {
                all.iter().map(|ip| format!("delete address {ip} from {interface}")).collect()
            }
        }
    }
}

fn adds(delta: &Delta, sets: &[SetId]) -> Vec<ipset::Request> {
    entries_of(&delta.added, sets).map(|(name, entry)| ipset::Request::Add(name, entry)).collect()
}

fn deletes(delta: &Delta, sets: &[SetId]) -> Vec<ipset::Request> {
    entries_of(&delta.removed, sets).map(|(name, entry)| ipset::Request::Delete(name, entry)).collect()
}

fn entries_of<'a>(
    items: &'a BTreeSet<Item>,
    sets: &'a [SetId],
) -> impl Iterator<Item = (ipset::SetName, ipset::Entry)> + 'a {
    items.iter().filter_map(|item| match item {
        Item::Entry(family, set, entry) if sets.contains(set) => Some((set.name(*family), *entry)),
        _ => None,
    })
}

fn addresses(items: &BTreeSet<Item>) -> Vec<IpAddr> {
    let address = |item: &Item| if let Item::Address(ip) = item { Some(*ip) } else { None };
    items.iter().filter_map(address).collect()
}

/// Virtual servers that come, or become others.
fn servers(delta: &Delta) -> Vec<Request> {
    let before: BTreeSet<What> = whats(&delta.removed).collect();
    let request = |item: &Item| match item {
        Item::Server(server) if before.contains(&server.what) => Some(Request::Change(server.clone())),
        Item::Server(server) => Some(Request::Add(server.clone())),
        _ => None,
    };
    delta.added.iter().filter_map(request).collect()
}

/// Virtual servers that come, or become others. One that gets another scheduler refuses while the kernel exchanges it, so those who dial
/// it are held back meanwhile: each by itself, since every exchange takes a while.
fn changes(delta: &Delta, places: &dyn Fn(&What) -> Vec<Place>) -> Vec<Step> {
    let rescheduled = rescheduled(delta);
    let is_held = |request: &Request| whose(request).is_some_and(|what| rescheduled.contains(&what));
    let (exchanged, others) = servers(delta).into_iter().partition::<Vec<_>, _>(is_held);
    let mut steps = vec![Step::Servers(others)];
    for request in exchanged {
        let places = whose(&request).map(|what| places(&what)).unwrap_or_default();
        let held: Vec<_> = places.into_iter().filter_map(|place| hold(place, delta)).collect();
        let sets = |ask: fn(ipset::SetName, ipset::Entry) -> ipset::Request| {
            Step::Sets(held.iter().map(|(set, entry)| ask(set.clone(), *entry)).collect())
        };
        steps.extend([sets(ipset::Request::Add), Step::Servers(vec![request]), sets(ipset::Request::Delete)]);
    }
    steps
}

/// Virtual servers that choose in another way than before.
fn rescheduled(delta: &Delta) -> BTreeSet<What> {
    let schedulers = |items| servers_of(items).map(|server| (server.what, &server.scheduler));
    let before: BTreeMap<What, &String> = schedulers(&delta.removed).collect();
    let is_other = |(what, scheduler): &(What, &String)| before.get(what).is_some_and(|was| was != scheduler);
    schedulers(&delta.added).filter(is_other).map(|(what, _)| what).collect()
}

/// Who dials this place hears nothing for a moment, and a second later tries again. Where somebody else has a say in whether it is
/// silent, it stays as it is.
fn hold(at: Place, delta: &Delta) -> Option<(ipset::SetName, ipset::Entry)> {
    let family = Family::of(at.ip);
    let entry = Item::Entry(family, SetId::Drop, at.entry());
    let changes = delta.removed.contains(&entry) || delta.added.contains(&entry);
    (!changes).then(|| (SetId::Drop.name(family), at.entry()))
}

/// Virtual servers that go.
fn gone(delta: &Delta) -> Vec<Request> {
    let after: BTreeSet<What> = whats(&delta.added).collect();
    whats(&delta.removed).filter(|what| !after.contains(what)).map(Request::Delete).collect()
}

fn whats(items: &BTreeSet<Item>) -> impl Iterator<Item = What> + '_ {
    servers_of(items).map(|server| server.what)
}

fn servers_of(items: &BTreeSet<Item>) -> impl Iterator<Item = &VirtualServer> {
    items.iter().filter_map(|item| if let Item::Server(server) = item { Some(server) } else { None })
}

fn whose(request: &Request) -> Option<What> {
    match request {
        Request::Add(server) | Request::Change(server) => Some(server.what),
        Request::Delete(what)
        | Request::AddServer(what, _)
        | Request::ChangeServer(what, _)
        | Request::DeleteServer(what, _) => Some(*what),
        Request::SetTimeouts(_) => None,
    }
}

/// What becomes of real servers.
#[derive(Default)]
struct Real {
    added: Vec<Request>,
    /// Of virtual servers that go: first they take nobody any more.
    emptied: Vec<Request>,
    removed: Vec<Request>,
    drained: Draining,
    returned: Draining,
}

impl Real {
    fn of(delta: &Delta, draining: &Draining, drains: &dyn Fn(&What) -> bool) -> Self {
        let before = real(&delta.removed);
        let after = real(&delta.added);
        let going: BTreeSet<What> = gone(delta).iter().filter_map(whose).collect();
        let mut found = Self::default();
        for ((what, address), weight) in &after {
            let server = RealServer::masquerading(*address, *weight);
            let is_draining = draining.contains(&(*what, *address));
            if is_draining {
                found.returned.insert((*what, *address));
            }
            found.added.push(if is_draining || before.contains_key(&(*what, *address)) {
                Request::ChangeServer(*what, server)
            } else {
                Request::AddServer(*what, server)
            });
        }
        for (what, address) in before.into_keys().filter(|key| !after.contains_key(key)) {
            let removed = Request::DeleteServer(what, address);
            if going.contains(&what) && matches!(what, What::Address(..)) {
                found.emptied.push(removed);
            } else if !going.contains(&what) && drains(&what) {
                found.drained.insert((what, address));
                found.removed.push(Request::ChangeServer(what, RealServer::masquerading(address, 0)));
            } else {
                found.removed.push(removed);
            }
        }
        found
    }
}

fn real(items: &BTreeSet<Item>) -> BTreeMap<(What, SocketAddr), u32> {
    let key = |item: &Item| match item {
        Item::Real(what, address, weight) => Some(((*what, *address), *weight)),
        _ => None,
    };
    items.iter().filter_map(key).collect()
}
