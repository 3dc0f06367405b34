//! userspace on the simulated twins: rules are written step by step, packets run through them to a port of ours, and from there to
//! the pool of whoever listens at it.
//!
//! After each step, all of this must hold: a full sync finds nothing to write; a process that finds the rules of one that was
//! killed finds nothing to write, for it binds the same ports; one without any rules writes the very same ones; and nobody who
//! dials a port of ours directly gets through.
//!
//! Who was sent where is remembered for a service port, as the relay does it: by the model's own memory.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::Scope;
use dataplane::relay::{self, Listener, ListenerId};
use dataplane::userspace::{Options, Userspace};
use kernel::xtables::{Family, Xtables};
use kernel_sim::nft;
use model::fate::{OneOf, Payload};
use model::{Answer, Delta, Fate, ForwardingTable, Landing, Packet, Promises, Protocol, ServicePortId};
use nft::SimPacket;

use crate::iptables::listed::{Listed, difference, listed};
use crate::iptables::mutation::{Kind, Mutation};
use crate::iptables::proof::Mutable;
use crate::iptables::twin::{settle, sync, writes_nothing};
use crate::iptables::worlds::Worlds;
use crate::nftables::ends::sim_packet;
use crate::nftables::stage::ENTRY_ADDRESSES;
use crate::reference::World;
use crate::subject::{Subject, Visit};

type Twins = Userspace<Worlds, relay::Simulated>;

/// The mode on the twins.
#[derive(Debug)]
pub(crate) struct Twin {
    dataplane: Twins,
    table: ForwardingTable,
    now_seconds: u64,
    worlds: Vec<World>,
    is_checked: bool,
    /// What went wrong where nobody could be told.
    problem: Option<String>,
}

impl Twin {
    /// A twin that is checked after each step.
    pub(crate) fn checked() -> Self {
        Self { is_checked: true, ..Self::with(None) }
    }

    fn with(mutation: Option<&Mutation>) -> Self {
        let doors = Family::ALL.map(|family| Worlds::new(family, mutation.cloned()));
        Self {
            dataplane: twins(doors, relay::Simulated::default()),
            table: ForwardingTable::default(),
            now_seconds: 0,
            worlds: vec![World::default()],
            is_checked: false,
            problem: None,
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let mut settled = self.dataplane.clone();
        settle(&mut settled)?;
        let doors: Vec<Worlds> = settled.doors().map(|door| door.clone()).collect();
        writes_nothing("a fresh process", &mut twins(doors, relay::Simulated::default()), &self.table)?;
        let doors = Family::ALL.map(|family| Worlds::new(family, None));
        // The listeners are those that are open, since others would have other ports.
        let mut fresh = twins(doors, settled.relays().clone());
        sync(&mut fresh, &self.table, Scope::Everything)?;
        let difference = difference(&of_both(&mut settled)?, &of_both(&mut fresh)?);
        if !difference.is_empty() {
            return Err(format!("step by step (here) and from scratch (there) differ: {difference}"));
        }
        writes_nothing("a second sync", &mut settled, &self.table)
    }

    /// Whoever dials a port of ours directly is refused.
    fn check_guards(&mut self) -> Result<(), String> {
        let ports: Vec<(ListenerId, u16)> = self.dataplane.ports().iter().collect();
        for (id, port) in ports {
            let (source, destination) = match id.family {
                model::Family::V4 => ([203, 0, 113, 77].into(), ENTRY_ADDRESSES[0]),
                model::Family::V6 => (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77]), ENTRY_ADDRESSES[1]),
            };
            let payload = Payload::Transport { protocol: id.port.protocol, port };
            let fate = self.send(&Packet { source, destination, payload, interface: None })?;
            if fate != Fate::Rejected {
                return Err(format!("whoever dials port {port} of {id} directly gets to {fate:?}"));
            }
        }
        Ok(())
    }

    fn send(&mut self, packet: &Packet) -> Result<Fate, String> {
        let sent = sent(packet, &self.table);
        let door = self.dataplane.doors().nth(usize::from(packet.destination.is_ipv6()));
        let tables = door.and_then(|door| door.tables.first().cloned()).ok_or("no door")?;
        let ways = tables.ways(&sent, Duration::ZERO);
        let [way] = ways.as_slice() else { return Err("these rules leave nothing to chance".into()) };
        if way.outcome.masqueraded || way.outcome.mark != sent.mark {
            return Err(format!("the packet was changed: {:?}", way.outcome));
        }
        match way.outcome.fate {
            nft::Fate::Untouched => Ok(Fate::Untouched),
            nft::Fate::Rejected(_) => Ok(Fate::Rejected),
            nft::Fate::Dropped => Ok(Fate::Dropped),
            nft::Fate::Dnat(address, port) => {
                let at = SocketAddr::new(address, port.ok_or("the packet lost its port")?);
                let (protocol, _) = packet.payload.transport().ok_or("a ping was led somewhere")?;
                relayed(self.dataplane.relays(), protocol, at)
            }
        }
    }
}

/// Where whoever listens there sends a connection.
pub(crate) fn relayed(relays: &relay::Simulated, protocol: Protocol, at: SocketAddr) -> Result<Fate, String> {
    let (id, listener) =
        relays.listening_at(protocol, at).ok_or_else(|| format!("nobody listens at {at}"))?;
    Ok(Fate::OneOf(pool_of(id, listener)))
}

fn pool_of(id: &ListenerId, listener: &Listener) -> OneOf {
    let landing = |endpoint: &model::Endpoint| Landing {
        address: endpoint.address,
        port: endpoint.port,
        slots: endpoint.slots,
        masqueraded: true,
    };
    OneOf {
        landings: listener.pool.endpoints().iter().map(landing).collect(),
        slots: listener.pool.slots(),
        port: id.port.clone(),
        affinity_seconds: listener.affinity.map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
    }
}

fn sent(packet: &Packet, table: &ForwardingTable) -> SimPacket {
    let mut sent = sim_packet(packet, table.node());
    // The kernel redirects to an address of the interface by which a packet comes in, so there must be one.
    sent.local.extend(ENTRY_ADDRESSES);
    sent
}

fn twins(doors: impl IntoIterator<Item = Worlds>, relays: relay::Simulated) -> Twins {
    Userspace::new(doors, relays, Options::default())
}

fn of_both<X: Xtables>(dataplane: &mut Userspace<X, relay::Simulated>) -> Result<Listed, String> {
    let mut all = Listed::new();
    for door in dataplane.doors() {
        all.append(&mut listed(door)?);
    }
    Ok(all)
}

impl Mutable for Twin {
    fn mutated(mutation: &Mutation) -> Self {
        Self::with(Some(mutation))
    }

    fn seen(&mut self) -> BTreeSet<Kind> {
        let mutations = self.dataplane.doors().filter_map(|door| door.mutation.as_ref());
        mutations.flat_map(|mutation| mutation.seen.iter().cloned()).collect()
    }
}

impl Subject for Twin {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        dataplane::userspace::MODE.semantics().of_rules()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut self.dataplane, table, Scope::Changed(&ids))?;
        self.check_guards()?;
        if self.is_checked { self.check() } else { Ok(()) }
    }

    fn pass(&mut self, seconds: u64) {
        self.now_seconds += seconds;
        self.problem = self.problem.take().or(settle(&mut self.dataplane).err());
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        self.problem.take().map_or(Ok(()), Err)?;
        let answer = Answer { fate: self.send(packet)?, why: Vec::new() };
        Ok(World::visit_all(&mut self.worlds, self.now_seconds, packet, &answer))
    }
}
