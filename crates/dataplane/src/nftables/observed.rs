//! What the kernel holds, compared with what it should hold.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use kernel::nft::{Chain, Data, Element, Family, Listed, ListedSet, Name, Rule, Value};
use model::{ForwardingTable, Frontend};

use super::adopt::{Kept, doors};
use super::chains::Chains;
use super::desired::Desired;
use super::layout::{SetId, sticky, table_comment};
use super::numbers::Numbers;
use super::plan::{Plan, in_order, overlap};

/// The table of somebody else, or of another version of ours.
#[derive(Debug)]
pub(super) struct Stranger {
    /// The comment that it carries.
    pub(super) comment: Option<String>,
    /// The chains by which packets enter it, as far as we know their kind.
    pub(super) doors: Vec<Name>,
}

/// A listed table of our layout.
#[derive(Debug)]
pub(super) struct Observed {
    listed: Listed,
}

impl Observed {
    /// The table, if it is of our layout and nothing in it is foreign; else whose it seems to be. Another one is replaced whole. Sets may be
    /// missing: a previous version had fewer.
    pub(super) fn of_our_layout(listed: Listed) -> Result<Self, Stranger> {
        let is_our_set = |found: &ListedSet| {
            SetId::ALL.into_iter().any(|set| *found.set.name == *set.name() && found.set == set.definition())
        };
        let has_our_sets = listed.sets.values().all(is_our_set);
        let is_ours = listed.table.comment == Some(table_comment()) && !listed.table.is_dormant;
        if is_ours && has_our_sets && listed.unknown.is_empty() {
            return Ok(Self { listed });
        }
        let doors = doors(&listed);
        Err(Stranger { comment: listed.table.comment.map(|comment| comment.as_str().to_owned()), doors })
    }

    /// The chains by which packets enter it.
    pub(super) fn doors(&self) -> Vec<Name> {
        doors(&self.listed)
    }

    /// The sets that are not there.
    pub(super) fn missing_sets(&self) -> impl Iterator<Item = SetId> {
        SetId::ALL.into_iter().filter(|set| !self.listed.sets.contains_key(set.name()))
    }

    /// Are the chains that are there entered where they should be? The kernel changes a hook in no other way than by
    /// another chain.
    pub(super) fn has_hooks_of(&self, desired: &Chains) -> bool {
        let place = |chain: &Chain| chain.base.map(|hook| (hook.kind, hook.point, hook.priority));
        let is_same = |(name, (chain, _)): (&Name, &(Chain, Vec<Rule>))| match self.listed.chains.get(name) {
            Some(found) => place(found) == place(chain),
            None => true,
        };
        desired.iter().all(is_same)
    }

    /// Tells `numbers` who has which number already, so that clients stay with their endpoints across a restart.
    pub(super) fn adopt_ids(&self, desired: &ForwardingTable, kept: &Kept, numbers: &mut Numbers) {
        let mut owners = BTreeMap::new();
        for (frontend, number) in self.sticky_frontends() {
            let route = desired.route(&frontend);
            if kept.of.contains(&frontend) || kept.all && route.is_none() {
                numbers.reserve(number);
                continue;
            }
            let Some((port, _)) = route else { continue };
            if port.affinity_seconds.is_some() && numbers.adopt_service(port.id(), number) {
                owners.insert(number, port.id().clone());
            }
        }
        for (service, number, endpoint) in self.sticky_endpoints() {
            if let Some(id) = owners.get(&service) {
                numbers.adopt_endpoint(id, endpoint, number);
            }
        }
    }

    fn elements(&self, set: SetId) -> &[Element] {
        self.listed.sets.get(set.name()).map_or(&[], |found| &found.elements)
    }

    fn sticky_frontends(&self) -> impl Iterator<Item = (Frontend, u32)> {
        let both = self.elements(SetId::StickyFrontends).iter().chain(self.elements(SetId::StickyNodePorts));
        both.filter_map(|element| {
            let number =
                (priority(element)? & sticky::SERVICE_MASK & !sticky::FLAGS) >> sticky::SERVICE_SHIFT;
            Some((frontend(element, self.listed.table.family)?, number))
        })
    }

    fn sticky_endpoints(&self) -> impl Iterator<Item = (u32, u32, (std::net::IpAddr, u16))> {
        self.elements(SetId::StickyEndpoints).iter().filter_map(|element| {
            let Some(Value::Priority(number)) = element.key.values().nth(1) else { return None };
            let Data::Values(data) = &element.data else { return None };
            let (Some(address), Some(Value::Port(port))) = (data.values().next()?.ip(), data.values().nth(1))
            else {
                return None;
            };
            let service = (number & sticky::SERVICE_MASK & !sticky::FLAGS) >> sticky::SERVICE_SHIFT;
            Some((service, number & (sticky::ENDPOINTS - 1), (address, port)))
        })
    }

    /// What must change so that the table is as desired, but for what is kept.
    pub(super) fn plan_to(&self, desired: &Desired, kept: &Kept) -> Plan {
        let mut plan = Plan::default();
        self.compare_chains(desired.chains(), kept, &mut plan);
        self.compare_elements(&desired.elements(), kept, &mut plan);
        plan
    }

    /// Puts into `plan` what must change so that the chains are `desired`.
    fn compare_chains(&self, desired: &Chains, kept: &Kept, plan: &mut Plan) {
        let family = self.listed.table.family;
        for (name, (chain, rules)) in desired {
            match self.listed.chains.get(name) {
                None => plan.new_chain(chain, rules),
                Some(found) if found == chain && self.has_rules(name, rules, family) => {}
                Some(_) => plan.rewrite_chain(chain, rules),
            }
        }
        for name in self.listed.chains.keys().filter(|name| !desired.contains_key(*name)) {
            if !kept.is_any() {
                plan.gone_chain(name);
            }
        }
    }

    fn has_rules(&self, chain: &str, rules: &[Rule], family: Family) -> bool {
        let found = self.listed.rules.get(chain).map_or(&[][..], |found| found);
        found.len() == rules.len() && found.iter().zip(rules).all(|(found, rule)| found.does(rule, family))
    }

    /// Puts into `plan` what must change so that the elements are `desired`. Both sides are in order, so one walk finds it.
    fn compare_elements(&self, desired: &BTreeMap<SetId, Vec<Element>>, kept: &Kept, plan: &mut Plan) {
        for set in SetId::ALL.into_iter().filter(|set| !set.is_filled_by_packets()) {
            let wanted = desired.get(&set).map_or(&[][..], Vec::as_slice);
            let (mut found, mut left) = (self.elements(set).iter().peekable(), wanted.iter().peekable());
            loop {
                let order = match (found.peek(), left.peek()) {
                    (Some(there), Some(new)) => in_order(there, new),
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (None, None) => break,
                };
                let there = if order.is_le() { found.next() } else { None };
                let new = if order.is_ge() { left.next() } else { None };
                // The plan must know of every guard: a source range of a frontend that stays guarded goes at once.
                if there == new && set != SetId::Guarded {
                    continue;
                }
                if let Some(there) =
                    there.filter(|there| new.is_some() || self.must_go(set, there, wanted, kept))
                {
                    plan.is_there(set, there.clone());
                }
                if let Some(new) = new {
                    plan.must_be_there(set, new.clone());
                }
            }
        }
    }

    /// The frontends that are there and that nobody asks for.
    pub(super) fn left_behind(&self, desired: &ForwardingTable) -> impl Iterator<Item = Frontend> {
        let sets = [SetId::Frontends, SetId::NodePorts].into_iter().flat_map(|set| self.elements(set));
        let found = sets.filter_map(|element| frontend(element, self.listed.table.family));
        found.filter(|frontend| desired.route(frontend).is_none())
    }

    /// Must an element go that nobody asks for? The kernel takes no two ranges that overlap, so one that is in the way goes
    /// in any case. What nothing leads to but what stays, stays too.
    fn must_go(&self, set: SetId, element: &Element, wanted: &[Element], kept: &Kept) -> bool {
        let is_in_the_way = || element.end.is_some() && wanted.iter().any(|new| overlap(element, new));
        if !kept.is_any() || set.is_of_the_node() || is_in_the_way() {
            return true;
        }
        let family = self.listed.table.family;
        let values: Vec<Value> = element.key.values().collect();
        let of_frontend = |length: usize| {
            let found = values.get(..length).and_then(|values| frontend_of(values, family));
            found.is_some_and(|frontend| kept.has(&frontend))
        };
        let is_kept = match set {
            SetId::Guarded
            | SetId::AllowedSources
            | SetId::Endpoints
            | SetId::StickyFrontends
            | SetId::OutsideFrontends
            | SetId::Frontends => of_frontend(3),
            SetId::NodePortEndpoints
            | SetId::StickyNodePorts
            | SetId::OutsideNodePorts
            | SetId::NodePorts => of_frontend(2),
            SetId::ClusterAddresses => {
                let is_of = |kept: &Frontend| matches!(kept, Frontend::Address { ip, .. } if values[0].ip() == Some(*ip));
                kept.all || kept.of.iter().any(is_of)
            }
            SetId::LeftAlone => kept.all,
            _ => true,
        };
        !is_kept
    }
}

fn priority(element: &Element) -> Option<u32> {
    match &element.data {
        Data::Values(values) => match values.values().next() {
            Some(Value::Priority(number)) => Some(number),
            _ => None,
        },
        Data::None | Data::Verdict(_) => None,
    }
}

fn frontend(element: &Element, family: Family) -> Option<Frontend> {
    frontend_of(&element.key.values().collect::<Vec<_>>(), family)
}

fn frontend_of(values: &[Value], family: Family) -> Option<Frontend> {
    match values[..] {
        [address, Value::Protocol(number), Value::Port(port)] => {
            Some(Frontend::Address { ip: address.ip()?, protocol: number.transport()?, port })
        }
        [Value::Protocol(number), Value::Port(port)] => {
            Some(Frontend::NodePort { family, protocol: number.transport()?, port })
        }
        _ => None,
    }
}
