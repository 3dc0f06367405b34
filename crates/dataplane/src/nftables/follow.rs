//! Follows the forwarding table: what of it changed becomes a plan, then a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kernel::nft::{Element, Part, Transaction, Value};
use model::net::IpNet;
use model::{Family, ForwardingTable, ServicePortId};

use super::adopt::Leftovers;
use super::chains::{self, Ground};
use super::class::{Class, Door};
use super::elements;
use super::family::{FamilyState, all_ids};
use super::layout::SetId;
use super::plan::{Doomed, Plan, in_order};

impl FamilyState {
    /// Follows `desired` in these service ports and in what it says of the node. Returns what must be written.
    pub(super) fn follow(
        &mut self,
        desired: &ForwardingTable,
        ids: impl Iterator<Item = ServicePortId>,
    ) -> Transaction {
        let mut plan = Plan::default();
        self.make_plan(desired, ids, &mut plan);
        let mut transaction = self.transaction();
        plan.write(&mut transaction, &mut self.doomed);
        transaction
    }

    fn make_plan(
        &mut self,
        desired: &ForwardingTable,
        ids: impl Iterator<Item = ServicePortId>,
        plan: &mut Plan,
    ) {
        for id in ids {
            self.follow_port(desired, id, plan);
        }
        self.follow_bare_addresses(desired);
        self.follow_shared(plan);
        self.follow_networks(desired, plan);
        self.follow_chains(desired, plan);
    }

    /// Takes `desired` for what the kernel holds; what differs is found by comparing.
    pub(super) fn believe(&mut self, desired: &ForwardingTable) {
        self.make_plan(desired, all_ids(desired), &mut Plan::unread());
        self.doomed = Doomed::default();
    }

    /// Every element that the kernel should hold, by set, each set in order.
    pub(super) fn all_elements(&self) -> BTreeMap<SetId, Vec<Element>> {
        let mut all: Vec<(SetId, Element)> = Vec::new();
        for port in self.ports.values() {
            all.extend(elements::of(port, self.family, &self.numbers).own);
        }
        let counts = &self.counts;
        all.extend(counts.cluster_addresses.needed().map(|ip| address(SetId::ClusterAddresses, *ip)));
        all.extend(counts.hairpins.needed().map(|ip| hairpin(*ip)));
        all.extend(counts.reply_sources.needed().map(|endpoint| reply_source(*endpoint)));
        all.extend(counts.classes.needed().map(|class| class_element(*class)));
        all.extend(self.service_networks.iter().map(network));
        all.extend(self.left_alone.iter().map(|ip| address(SetId::LeftAlone, *ip)));
        let node_addresses = self.ground.iter().flat_map(|ground| &ground.node_addresses);
        all.extend(node_addresses.map(|ip| address(SetId::NodeAddresses, *ip)));
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

    fn follow_port(&mut self, desired: &ForwardingTable, id: ServicePortId, plan: &mut Plan) {
        let before = self.ports.remove(&id);
        if let Some(before) = &before {
            let needs = elements::of(before, self.family, &self.numbers);
            self.counts.remove(&needs);
            needs.own.into_iter().for_each(|(set, element)| plan.is_there(set, element));
        }
        self.before.entry(id.clone()).or_insert(before);
        let after = self.quarantine.wanted(desired, &id);
        let sticky = after.as_ref().map(|port| elements::sticky_endpoints(port, self.family));
        self.numbers.assign(&id, &sticky.unwrap_or_default());
        let Some(after) = after else { return };
        let needs = elements::of(&after, self.family, &self.numbers);
        self.counts.add(&needs);
        // A service port without an element in this family is not worth remembering.
        if !needs.own.is_empty() {
            self.ports.insert(id, Arc::clone(&after));
        }
        needs.own.into_iter().for_each(|(set, element)| plan.must_be_there(set, element));
    }

    /// Cluster IPs without a route are refused like the undefined ports of others.
    fn follow_bare_addresses(&mut self, desired: &ForwardingTable) {
        let bare: BTreeSet<IpAddr> = of_family(desired.bare_cluster_ips().values().flatten(), self.family);
        self.counts.cluster_addresses.remove(&self.bare.difference(&bare).copied().collect());
        self.counts.cluster_addresses.add(&bare.difference(&self.bare).copied().collect());
        self.bare = bare;
    }

    fn follow_shared(&mut self, plan: &mut Plan) {
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

    fn follow_networks(&mut self, desired: &ForwardingTable, plan: &mut Plan) {
        let left_alone = of_family(desired.left_alone().values().flatten(), self.family);
        exchange(plan, &self.left_alone, &left_alone, |ip| address(SetId::LeftAlone, *ip));
        let networks =
            if self.asked == Leftovers::Keep { BTreeSet::new() } else { networks(desired, self.family) };
        exchange(plan, &self.service_networks, &networks, network);
        (self.left_alone, self.service_networks) = (left_alone, networks);
    }

    fn follow_chains(&mut self, desired: &ForwardingTable, plan: &mut Plan) {
        let ground = Ground::of(desired.node(), self.family, &self.options);
        let none = BTreeSet::new();
        let before = self.ground.as_ref().map_or(&none, |ground| &ground.node_addresses);
        exchange(plan, before, &ground.node_addresses, |ip| address(SetId::NodeAddresses, *ip));
        let chains = chains::render(&ground, self.counts.classes.needed());
        plan.chains(&self.chains, &chains);
        (self.ground, self.chains) = (Some(ground), chains);
    }
}

/// Puts into `plan` in what two lists differ.
fn exchange<T: Ord>(
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

fn networks(desired: &ForwardingTable, family: Family) -> BTreeSet<IpNet> {
    let of_family = desired.service_networks().iter().filter(|net| Family::of_net(net) == family).copied();
    // The kernel refuses ranges that overlap, so they are merged first.
    IpNet::aggregate(&of_family.collect()).into_iter().collect()
}
