//! One service port of the table → its elements, in one family.
//!
//! Its own elements (frontends, endpoints, source ranges) belong to it alone. Beside them stands what several service ports
//! may need together: classes, cluster IPs, hairpins, sources of replies. Those are counted.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::nft::{Comment, Element, Part, Value};
use model::Place;
use model::table::{AllowedSources, How};
use model::{Action, Family, Frontend, FrontendKind, Pool, Protocol, Route, ServicePort};

use super::class::{Class, Door, Forward, MOST_STICKY_SLOTS};
use super::layout::{LOCAL_SLOTS, SetId, sticky};
use super::numbers::{Numbers, Sticky};

/// What a service port needs in one family.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Elements that are its own.
    pub(super) own: Vec<(SetId, Element)>,
    /// Classes of its frontends.
    pub(super) classes: BTreeSet<(Door, Class)>,
    /// Its cluster IP.
    pub(super) cluster_addresses: BTreeSet<IpAddr>,
    /// Its endpoints that may be on this node.
    pub(super) hairpins: BTreeSet<IpAddr>,
    /// Its endpoints, if it is a TCP port.
    pub(super) reply_sources: BTreeSet<(IpAddr, u16)>,
}

/// The endpoints of a sticky service port in `family`: all that a client may be remembered for. Empty when it is not
/// sticky.
pub(super) fn sticky_endpoints(port: &ServicePort, family: Family) -> BTreeSet<(IpAddr, u16)> {
    if port.affinity_seconds.is_none() {
        return BTreeSet::new();
    }
    let routes = port.routes.iter().filter(|route| route.frontend.family() == family);
    let pools = routes.flat_map(|route| [&route.inside, &route.outside]).filter_map(Action::pool);
    pools.flat_map(|pool| pool.endpoints().iter().map(|e| (e.address, e.port))).collect()
}

/// What `port` needs in `family`.
pub(super) fn of(port: &ServicePort, family: Family, numbers: &Numbers) -> Needs {
    let comment = Comment::new(&port.id().to_string());
    let sticky = port.affinity_seconds.zip(numbers.get(port.id()));
    let mut writer = Writer { needs: Needs::default(), comment, sticky };
    let routes = || port.routes.iter().filter(|route| route.frontend.family() == family);
    for route in routes() {
        writer.route(route);
    }
    if let Some((_, sticky)) = sticky {
        let pools: Vec<&Pool> = pools(routes());
        writer.sticky_pools(&pools, sticky, port.id().protocol);
    }
    writer.needs
}

/// The pools of some routes, each once.
fn pools<'a>(routes: impl Iterator<Item = &'a Route>) -> Vec<&'a Pool> {
    let mut found: Vec<&Pool> = Vec::new();
    for action in routes.flat_map(|route| [&route.inside, &route.outside]) {
        if let Some(pool) = action.pool()
            && !found.iter().any(|known| is_local(known) == is_local(pool))
        {
            found.push(pool);
        }
    }
    found
}

fn is_local(pool: &Pool) -> bool {
    matches!(pool.how(), How::LocalReady | How::LocalTerminating)
}

struct Writer<'a> {
    needs: Needs,
    comment: Comment,
    sticky: Option<(u32, &'a Sticky)>,
}

/// The three sets that frontends of one kind use.
struct Sets {
    inside: SetId,
    outside: SetId,
    endpoints: SetId,
    sticky: SetId,
}

impl Writer<'_> {
    fn route(&mut self, route: &Route) {
        let (door, key) = frontend_key(&route.frontend);
        let sets = sets(door);
        self.action(door, sets.inside, &key, route, &route.inside, false);
        if route.outside != route.inside {
            self.action(door, sets.outside, &key, route, &route.outside, true);
        }
        if let Some((_, sticky)) = self.sticky {
            let number = Value::Priority(sticky.service());
            self.needs.own.push((sets.sticky, Element::new(&key).values(&[number])));
        }
        if let Frontend::Address { ip, .. } = route.frontend
            && route.kind == FrontendKind::ClusterIp
        {
            self.needs.cluster_addresses.insert(ip);
        }
        if let Some(allowed) = &route.allowed_sources {
            self.guard(&key, allowed);
        }
    }

    fn action(
        &mut self,
        door: Door,
        set: SetId,
        key: &[Value],
        route: &Route,
        action: &Action,
        is_outside: bool,
    ) {
        let class = match action {
            Action::Reject => Class::Reject,
            Action::Drop => Class::Drop,
            Action::Forward(pool) => Class::Forward(self.forward(route, pool, is_outside)),
        };
        let element = Element::new(key).values(&[Value::Priority(class.number())]).comment(&self.comment);
        self.needs.own.push((set, element));
        self.needs.classes.insert((door, class));
        if let (Action::Forward(pool), Class::Forward(forward)) = (action, class) {
            let here = pool.endpoints().iter().filter(|e| e.place != Place::Elsewhere);
            self.needs.hairpins.extend(here.map(|e| e.address));
            if route.frontend.protocol() == Protocol::Tcp {
                self.needs.reply_sources.extend(pool.endpoints().iter().map(|e| (e.address, e.port)));
            }
            if forward.sticky_seconds.is_none() {
                self.slots(sets(door).endpoints, key, pool, if is_outside { LOCAL_SLOTS } else { 0 });
            }
        }
    }

    fn forward(&self, route: &Route, pool: &Pool, is_outside: bool) -> Forward {
        // Traffic from outside that must stay on this node keeps its source: that is what the policy is for.
        let masquerade = if is_outside { model::table::Masquerade::Nobody } else { route.masquerade };
        let sticky = self.sticky.filter(|_| pool.slots() <= MOST_STICKY_SLOTS);
        match sticky {
            // Sticky pools belong to the service port, so which of its two it is must be told.
            Some((seconds, _)) => {
                let is_local = is_local(pool);
                Forward { masquerade, is_local, slots: pool.slots(), sticky_seconds: Some(seconds) }
            }
            None => Forward { masquerade, is_local: is_outside, slots: pool.slots(), sticky_seconds: None },
        }
    }

    fn slots(&mut self, set: SetId, key: &[Value], pool: &Pool, first: u32) {
        for (slot, (address, port)) in (first..).zip(slot_owners(pool)) {
            let key = [key, &[Value::Slot(slot)]].concat();
            self.needs.own.push((set, Element::new(&key).values(&[address.into(), Value::Port(port)])));
        }
    }

    fn sticky_pools(&mut self, pools: &[&Pool], sticky: &Sticky, protocol: Protocol) {
        for pool in pools {
            let (first, local_bit) = if is_local(pool) { (LOCAL_SLOTS, sticky::LOCAL) } else { (0, 0) };
            for (slot, (address, port)) in (first..).zip(slot_owners(pool)) {
                let Some(number) = sticky.endpoint(address, port) else { continue };
                let key = [Value::Priority(sticky.service()), Value::Slot(slot)];
                self.needs
                    .own
                    .push((SetId::StickySlots, Element::new(&key).values(&[Value::Priority(number)])));
            }
            for endpoint in pool.endpoints() {
                let Some(number) = sticky.endpoint(endpoint.address, endpoint.port) else { continue };
                let key = [Value::Protocol(protocol.into()), Value::Priority(number | local_bit)];
                let target = [endpoint.address.into(), Value::Port(endpoint.port)];
                let element = Element::new(&key).values(&target).comment(&self.comment);
                self.needs.own.push((SetId::StickyEndpoints, element));
            }
        }
    }

    fn guard(&mut self, key: &[Value], allowed: &AllowedSources) {
        self.needs.own.push((SetId::Guarded, Element::new(key).comment(&self.comment)));
        let own = allowed.own_ips.iter().map(|ip| model::net::IpNet::from(*ip));
        let ranges: Vec<_> = allowed.ranges.iter().copied().chain(own).collect();
        // The kernel refuses ranges that overlap, so they are merged first.
        for range in model::net::IpNet::aggregate(&ranges) {
            let mut parts: Vec<Part> = key.iter().copied().map(Part::Exact).collect();
            parts.push(Part::Prefix(range.addr(), range.prefix_len()));
            self.needs.own.push((SetId::AllowedSources, Element::interval(&parts).comment(&self.comment)));
        }
    }
}

/// The endpoint of each slot, in order.
fn slot_owners(pool: &Pool) -> impl Iterator<Item = (IpAddr, u16)> {
    let owners = |e: &model::Endpoint| std::iter::repeat_n((e.address, e.port), usize::from(e.slots));
    pool.endpoints().iter().flat_map(owners)
}

fn frontend_key(frontend: &Frontend) -> (Door, Vec<Value>) {
    let (protocol, port) = (Value::Protocol(frontend.protocol().into()), Value::Port(frontend.port()));
    match frontend {
        Frontend::Address { ip, .. } => (Door::Address, vec![(*ip).into(), protocol, port]),
        Frontend::NodePort { .. } => (Door::NodePort, vec![protocol, port]),
    }
}

fn sets(door: Door) -> Sets {
    match door {
        Door::Address => Sets {
            inside: SetId::Frontends,
            outside: SetId::OutsideFrontends,
            endpoints: SetId::Endpoints,
            sticky: SetId::StickyFrontends,
        },
        Door::NodePort => Sets {
            inside: SetId::NodePorts,
            outside: SetId::OutsideNodePorts,
            endpoints: SetId::NodePortEndpoints,
            sticky: SetId::StickyNodePorts,
        },
    }
}
