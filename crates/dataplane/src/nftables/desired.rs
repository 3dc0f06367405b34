//! What the kernel should hold of one family's table, as a value.
//!
//! In: the forwarding table, and which service ports of it have changed. Out: all elements and chains ([`Desired`]); for a change of them
//! the [`Plan`] that leads from those before to those after. The work of [`Desired::apply`] follows the change, not the cluster.
//!
//! Absent on purpose: what the kernel holds. `observed.rs` compares that with this.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kernel::nft::{Element, Part, Value};
use model::net::IpNet;
use model::{Family, ForwardingTable, ServicePort, ServicePortId};

use super::Options;
use super::chains::{self, BaseRules, Chains};
use super::class::{Class, Door};
use super::counts::Counts;
use super::elements;
use super::layout::SetId;
use super::numbers::Numbers;
use super::plan::{Plan, in_order};
use crate::quarantine::{Accepted, Quarantine};

/// What the elements and chains of one family follow from.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) table: &'a ForwardingTable,
    pub(super) family: Family,
    pub(super) options: &'a Options,
    pub(super) quarantine: &'a Quarantine,
    /// Not all Services are known: what looks like an unallocated address may be one of theirs.
    pub(super) keeps_leftovers: bool,
}

/// All elements and chains of one family.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    family: Family,
    /// The service ports that have an element in this family.
    pub(super) accepted: Accepted,
    pub(super) numbers: Numbers,
    counts: Counts,
    portless_cluster_ips: BTreeSet<IpAddr>,
    shared: Shared,
}

/// What belongs to no service port.
#[derive(Clone, Debug, Default)]
struct Shared {
    node_addresses: BTreeSet<IpAddr>,
    other_proxy_ips: BTreeSet<IpAddr>,
    service_networks: BTreeSet<IpNet>,
    chains: Chains,
}

/// The own elements of one service port, before and after a change.
struct PortChange {
    before: Vec<(SetId, Element)>,
    after: Vec<(SetId, Element)>,
}

impl Desired {
    /// Nothing at all.
    pub(super) fn nothing(family: Family) -> Self {
        Self {
            family,
            accepted: Accepted::default(),
            numbers: Numbers::default(),
            counts: Counts::default(),
            portless_cluster_ips: BTreeSet::new(),
            shared: Shared::default(),
        }
    }

    /// Nothing is known any more, except how the service ports were.
    pub(super) fn forget(&mut self) {
        let mut accepted = std::mem::take(&mut self.accepted);
        accepted.forget();
        *self = Self { accepted, ..Self::nothing(self.family) };
    }

    /// Everything for these inputs. Service ports that `numbers` knows keep their numbers.
    pub(super) fn of(inputs: &Inputs<'_>, numbers: Numbers, accepted: Accepted) -> Self {
        let mut desired = Self { accepted, numbers, ..Self::nothing(inputs.family) };
        for id in all_ids(inputs.table) {
            desired.set_port(inputs, &id);
        }
        desired.set_portless_cluster_ips(inputs.table);
        desired.counts.forget_touched();
        desired.shared = Shared::of(inputs, desired.counts.classes.needed());
        desired
    }

    /// Brings these service ports, and what belongs to none, to the inputs. Returns what that changes.
    pub(super) fn apply(
        &mut self,
        inputs: &Inputs<'_>,
        ids: impl IntoIterator<Item = ServicePortId>,
    ) -> Plan {
        let mut plan = Plan::default();
        for id in ids {
            let PortChange { before, after } = self.set_port(inputs, &id);
            plan.are_there(before);
            plan.must_all_be_there(after);
        }
        self.set_portless_cluster_ips(inputs.table);
        self.plan_counted(&mut plan);
        let shared = Shared::of(inputs, self.counts.classes.needed());
        shared.plan_from(&self.shared, &mut plan);
        self.shared = shared;
        plan
    }

    fn set_port(&mut self, inputs: &Inputs<'_>, id: &ServicePortId) -> PortChange {
        let before = self.remove_port(id);
        let wanted = inputs.quarantine.wanted(inputs.table, id);
        let sticky = wanted.as_ref().map(|port| elements::sticky_endpoints(port, self.family));
        self.numbers.assign(id, &sticky.unwrap_or_default());
        let after = wanted.as_deref().map(|port| self.add_needs(port)).unwrap_or_default();
        // A service port without an element in this family is not worth remembering.
        self.accepted.write(id, wanted.filter(|_| !after.is_empty()));
        PortChange { before, after }
    }

    fn remove_port(&mut self, id: &ServicePortId) -> Vec<(SetId, Element)> {
        let Some(port) = self.accepted.now(id) else { return Vec::new() };
        let needs = elements::of(port, self.family, &self.numbers);
        self.counts.remove(&needs);
        needs.own
    }

    fn add_needs(&mut self, port: &ServicePort) -> Vec<(SetId, Element)> {
        let needs = elements::of(port, self.family, &self.numbers);
        self.counts.add(&needs);
        needs.own
    }

    /// Cluster IPs without a route are refused like the undefined ports of others.
    fn set_portless_cluster_ips(&mut self, table: &ForwardingTable) {
        let ips: BTreeSet<IpAddr> = of_family(table.bare_cluster_ips().values().flatten(), self.family);
        let addresses = &mut self.counts.cluster_addresses;
        addresses.remove(&self.portless_cluster_ips.difference(&ips).copied().collect());
        addresses.add(&ips.difference(&self.portless_cluster_ips).copied().collect());
        self.portless_cluster_ips = ips;
    }

    fn plan_counted(&mut self, plan: &mut Plan) {
        let counts = &mut self.counts;
        for (ip, is_needed) in counts.cluster_addresses.take_touched() {
            plan.appear_or_go(address(SetId::ClusterAddresses, ip), is_needed);
        }
        for (ip, is_needed) in counts.hairpins.take_touched() {
            plan.appear_or_go(hairpin(ip), is_needed);
        }
        for (endpoint, is_needed) in counts.reply_sources.take_touched() {
            plan.appear_or_go(reply_source(endpoint), is_needed);
        }
        for (class, is_needed) in counts.classes.take_touched() {
            plan.appear_or_go(class_element(class), is_needed);
        }
    }

    /// The service ports that have an element in this family, as they are written.
    pub(super) fn ports(&self) -> impl Iterator<Item = &Arc<ServicePort>> {
        self.accepted.all_now().map(|(_, port)| port)
    }

    /// The chains, with their rules.
    pub(super) fn chains(&self) -> &Chains {
        &self.shared.chains
    }

    /// Every element, by set, each set in order.
    pub(super) fn elements(&self) -> BTreeMap<SetId, Vec<Element>> {
        let mut all: Vec<(SetId, Element)> = Vec::new();
        for port in self.ports() {
            all.extend(elements::of(port, self.family, &self.numbers).own);
        }
        let counts = &self.counts;
        all.extend(counts.cluster_addresses.needed().map(|ip| address(SetId::ClusterAddresses, *ip)));
        all.extend(counts.hairpins.needed().map(|ip| hairpin(*ip)));
        all.extend(counts.reply_sources.needed().map(|endpoint| reply_source(*endpoint)));
        all.extend(counts.classes.needed().map(|class| class_element(*class)));
        all.extend(self.shared.elements());
        let mut by_set: BTreeMap<SetId, Vec<Element>> = BTreeMap::new();
        for (set, element) in all {
            by_set.entry(set).or_default().push(element);
        }
        for elements in by_set.values_mut() {
            elements.sort_unstable_by(in_order);
            // What two service ports need is needed once.
            elements.dedup_by(|one, other| in_order(one, other).is_eq());
        }
        by_set
    }
}

impl Shared {
    fn of<'a>(inputs: &Inputs<'_>, classes: impl Iterator<Item = &'a (Door, Class)>) -> Self {
        let Inputs { table, family, .. } = *inputs;
        let base = BaseRules::of(table.node(), family, inputs.options);
        let chains = chains::render(&base, classes);
        Self {
            node_addresses: base.node_addresses,
            other_proxy_ips: of_family(table.left_alone().values().flatten(), family),
            service_networks: if inputs.keeps_leftovers { BTreeSet::new() } else { networks(table, family) },
            chains,
        }
    }

    fn elements(&self) -> impl Iterator<Item = (SetId, Element)> {
        let networks = self.service_networks.iter().map(network);
        let other_proxies = self.other_proxy_ips.iter().map(|ip| address(SetId::LeftAlone, *ip));
        let of_node = self.node_addresses.iter().map(|ip| address(SetId::NodeAddresses, *ip));
        networks.chain(other_proxies).chain(of_node)
    }

    /// Adds to `plan` in what this differs from what was before.
    fn plan_from(&self, before: &Self, plan: &mut Plan) {
        plan_set(plan, &before.other_proxy_ips, &self.other_proxy_ips, |ip| address(SetId::LeftAlone, *ip));
        plan_set(plan, &before.service_networks, &self.service_networks, network);
        plan_set(plan, &before.node_addresses, &self.node_addresses, |ip| address(SetId::NodeAddresses, *ip));
        plan.chains(&before.chains, &self.chains);
    }
}

pub(super) fn all_ids(table: &ForwardingTable) -> impl Iterator<Item = ServicePortId> {
    table.ports().map(|port| port.id().clone())
}

/// Adds to `plan` in what two sets differ.
fn plan_set<T: Ord>(
    plan: &mut Plan,
    before: &BTreeSet<T>,
    after: &BTreeSet<T>,
    element: impl Fn(&T) -> (SetId, Element),
) {
    before.difference(after).for_each(|gone| plan.appear_or_go(element(gone), false));
    after.difference(before).for_each(|new| plan.appear_or_go(element(new), true));
}

pub(super) fn address(set: SetId, ip: IpAddr) -> (SetId, Element) {
    (set, Element::new(&[ip.into()]))
}

fn hairpin(ip: IpAddr) -> (SetId, Element) {
    (SetId::Hairpins, Element::new(&[ip.into(), ip.into()]))
}

fn reply_source((ip, port): (IpAddr, u16)) -> (SetId, Element) {
    (SetId::ReplySources, Element::new(&[ip.into(), Value::Port(port)]))
}

fn class_element((door, class): (Door, Class)) -> (SetId, Element) {
    let set = match door {
        Door::Address => SetId::Classes,
        Door::NodePort => SetId::NodePortClasses,
    };
    let key = [Value::Priority(class.number())];
    (set, Element::new(&key).verdict(class.verdict(door)))
}

fn network(net: &IpNet) -> (SetId, Element) {
    (SetId::ServiceNetworks, Element::interval(&[Part::Prefix(net.addr(), net.prefix_len())]))
}

fn of_family<'a>(ips: impl Iterator<Item = &'a IpAddr>, family: Family) -> BTreeSet<IpAddr> {
    ips.filter(|ip| Family::of(**ip) == family).copied().collect()
}

fn networks(table: &ForwardingTable, family: Family) -> BTreeSet<IpNet> {
    let of_family = table.service_networks().iter().filter(|net| Family::of_net(net) == family).copied();
    // The kernel refuses ranges that overlap, so they are merged first.
    IpNet::aggregate(&of_family.collect()).into_iter().collect()
}
