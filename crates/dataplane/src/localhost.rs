//! Node ports on 127.0.0.1 and `::1`, for modes whose rules cannot serve them: the relay listens there.
//!
//! In: the forwarding table. Out: a listener for each node port, where `nodePortAddresses` covers localhost.
//!
//! Rules alone could do it for IPv4 and only with `route_localnet`, which opens the loopback addresses of a host to its
//! neighbours (CVE-2020-8558), and for IPv6 not at all. What dials localhost is this host, so its connections go where those of
//! the cluster go. A node port without endpoints has no listener, so the kernel refuses for it.
//!
//! Absent on purpose: other loopback addresses, such as 127.0.0.2.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use model::flows::VanishedFlows;
use model::{
    ByFamily, Family, ForwardingTable, Frontend, NodePortAddress, Protocol, ServicePort, ServicePortId,
};

use crate::relay::{At, Listener, ListenerId, Purpose, Relays};
use crate::{Carried, Counted, Dataplane, Leaving, Scope, ServicePortIds, SyncError, Synced};

/// A mode, and its node ports on localhost.
#[derive(Debug)]
pub struct Localhost<D, R> {
    mode: D,
    relay: R,
    choice: Choice,
    /// The families whose localhost was covered by the last sync.
    covered: Vec<Family>,
    /// How often a listener could not be opened.
    failures: ByFamily<u64>,
}

/// Where there are listeners.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The families whose localhost the rules of the mode leave to us.
    pub families: Vec<Family>,
    /// Where node ports answer when nobody says so.
    pub default_node_port_addresses: NodePortAddress,
}

impl<D, R: Relays> Localhost<D, R> {
    /// This mode, and beside it this relay.
    pub fn new(mode: D, relay: R, choice: Choice) -> Self {
        Self { mode, relay, choice, covered: Vec::new(), failures: ByFamily::default() }
    }

    /// The relay.
    pub fn relay(&self) -> &R {
        &self.relay
    }

    /// Opens and closes listeners; tells what could not be opened.
    fn listen(&mut self, desired: &ForwardingTable, scope: Scope<&ServicePortIds>, synced: &mut Synced) {
        let covered = self.covered(desired);
        let is_same = covered == self.covered;
        self.covered = covered;
        let ids: BTreeSet<ServicePortId> = match scope {
            Scope::Changed(ids) if is_same => ids.clone(),
            _ => desired.ports().map(|port| port.id().clone()).collect(),
        };
        if !is_same || scope.is_full() {
            self.close_others(&ids, scope.keeps_leftovers());
        }
        let wanted: Vec<_> = ids.iter().flat_map(|id| self.wanted_for(desired, id)).collect();
        // A node port may come from another Service: who goes makes room before who comes.
        for (id, _) in wanted.iter().filter(|(_, listener)| listener.is_none()) {
            self.relay.close(id);
        }
        self.open(wanted.iter().filter_map(|(id, listener)| Some((id, listener.as_ref()?))), synced);
    }

    fn covered(&self, desired: &ForwardingTable) -> Vec<Family> {
        let node = desired.node();
        let is_covered = |family: &Family| {
            let entries = node.node_port_addresses(*family, self.choice.default_node_port_addresses);
            node.covers(&entries, address(*family))
        };
        self.choice.families.iter().copied().filter(is_covered).collect()
    }

    fn wanted_for(
        &self,
        desired: &ForwardingTable,
        id: &ServicePortId,
    ) -> Vec<(ListenerId, Option<Listener>)> {
        let listener = |family: &Family| {
            let port = desired.port(id).filter(|_| self.covered.contains(family));
            let listener = ListenerId { port: id.clone(), family: *family, purpose: Purpose::Localhost };
            (listener, port.and_then(|port| wanted(port, *family)))
        };
        self.choice.families.iter().map(listener).collect()
    }

    /// Two Services may have exchanged their node ports: one that finds its port taken gives up the one that it had, and tries again
    /// after all others.
    fn open<'a>(
        &mut self,
        wanted: impl Iterator<Item = (&'a ListenerId, &'a Listener)>,
        synced: &mut Synced,
    ) {
        let taken: Vec<_> = wanted.filter(|(id, listener)| self.relay.open(id, listener).is_err()).collect();
        for (id, _) in &taken {
            self.relay.close(id);
        }
        for (id, listener) in taken {
            if let Err(error) = self.relay.open(id, listener) {
                let told = format!("its node port on localhost: {error}");
                synced.warned.entry(id.port.clone()).or_insert(told);
                *self.failures.get_mut(id.family) += 1;
            }
        }
    }

    /// Listeners of service ports that nobody asks for go, unless not all is known yet.
    fn close_others(&mut self, ids: &BTreeSet<ServicePortId>, keeps_leftovers: bool) {
        let is_ours = |id: &ListenerId| id.purpose == Purpose::Localhost;
        for id in self.relay.ids().into_iter().filter(is_ours) {
            if !ids.contains(&id.port) && !keeps_leftovers {
                self.relay.close(&id);
            }
        }
    }
}

/// The listener for a node port of this family; `None` where it has none, or nowhere to go.
fn wanted(port: &ServicePort, family: Family) -> Option<Listener> {
    let is_ours = |frontend| matches!(frontend, Frontend::NodePort { family: of, .. } if of == family);
    let route = port.routes.iter().find(|route| is_ours(route.frontend))?;
    let protocol = route.frontend.protocol();
    Some(Listener {
        protocol: (protocol != Protocol::Sctp).then_some(protocol)?,
        at: At::Exactly(SocketAddr::new(address(family), route.frontend.port())),
        pool: route.inside.pool()?.clone(),
        affinity: port.affinity_seconds.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

fn address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

impl<D: Dataplane, R: Relays> Dataplane for Localhost<D, R> {
    /// The rules first: what goes wrong with a listener concerns one node port on one address.
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let result = self.mode.sync(desired, scope);
        let mut synced = result.as_ref().cloned().unwrap_or_default();
        self.listen(desired, scope, &mut synced);
        result.map(|_| synced)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.mode.settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        self.mode.differences(desired)
    }

    fn end_connections(&mut self, vanished: &BTreeSet<VanishedFlows>) -> Result<(), SyncError> {
        self.mode.end_connections(vanished)
    }

    fn leaving(&mut self) -> Option<Leaving> {
        self.mode.leaving()
    }

    fn carried(&mut self) -> Option<Vec<Carried>> {
        self.mode.carried()
    }

    fn counted(&mut self) -> Counted {
        Counted { listener_failures: self.failures, ..self.mode.counted() }
    }

    fn try_to_write(&mut self) -> Result<(), String> {
        self.mode.try_to_write()
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        self.mode.is_flushed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Simulated;

    /// A mode that only notes what it is asked to end.
    #[derive(Default)]
    struct Noting {
        vanished: BTreeSet<VanishedFlows>,
    }

    impl Dataplane for Noting {
        fn sync(&mut self, _: &ForwardingTable, _: Scope<&ServicePortIds>) -> Result<Synced, SyncError> {
            Ok(Synced::default())
        }

        fn settle(&mut self) -> Result<Synced, SyncError> {
            Ok(Synced::default())
        }

        fn differences(&mut self, _: &ForwardingTable) -> Result<Vec<String>, SyncError> {
            Ok(Vec::new())
        }

        fn end_connections(&mut self, vanished: &BTreeSet<VanishedFlows>) -> Result<(), SyncError> {
            self.vanished.extend(vanished.iter().cloned());
            Ok(())
        }
    }

    #[test]
    fn each_listener_that_cannot_be_opened_is_counted_by_family() {
        let table = node_port_table();
        let choice =
            Choice { families: Family::ALL.to_vec(), default_node_port_addresses: NodePortAddress::All };
        let mut relay = Simulated::default();
        relay.take(Protocol::Tcp, 30080);
        let mut both = Localhost::new(Noting::default(), relay, choice);
        assert_eq!(both.counted().listener_failures, ByFamily::default());
        for failed in 1..=2 {
            let synced = both.sync(&table, Scope::Everything).expect("only a listener fails");
            assert_eq!(synced.warned.len(), 1, "{synced:?}");
            assert_eq!(both.counted().listener_failures, ByFamily { v4: failed, v6: 0 });
        }
        both.relay.give_back(Protocol::Tcp, 30080);
        both.sync(&table, Scope::Everything).expect("nothing fails");
        assert_eq!(both.counted().listener_failures, ByFamily { v4: 2, v6: 0 }, "what was counted stays");
    }

    /// A node port of IPv4 with an endpoint.
    fn node_port_table() -> ForwardingTable {
        let service = serde_json::json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "web"},
            "spec": {"type": "NodePort", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80, "nodePort": 30080}]},
        });
        let slice = serde_json::json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"port": 8080}], "endpoints": [{"addresses": ["10.244.0.1"]}],
        });
        let mut cluster = model::Cluster::new(model::Config::default());
        for object in [service, slice] {
            let model::object::Read::Fact(fact) = model::object::read(&object) else { panic!("{object}") };
            cluster.apply(model::Event::Apply(fact));
        }
        ForwardingTable::of(&cluster)
    }

    #[test]
    fn the_mode_is_told_of_vanished_endpoints() {
        let choice = Choice { families: Vec::new(), default_node_port_addresses: NodePortAddress::All };
        let mut both = Localhost::new(Noting::default(), Simulated::default(), choice);
        let service = model::ServiceName::new("default", "web");
        let vanished = BTreeSet::from([VanishedFlows {
            port: ServicePortId { service, port: "".into(), protocol: Protocol::Tcp },
            endpoint: (IpAddr::from([10, 244, 0, 2]), 8080),
            destinations: BTreeSet::new(),
        }]);
        both.end_connections(&vanished).expect("nothing fails here");
        assert_eq!(both.mode.vanished, vanished);
    }
}
