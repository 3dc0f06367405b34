//! IPVS on the simulated twins: everything is written step by step, and packets run through rules, sets and virtual servers.
//!
//! After each step, all of this must hold: a full sync finds nothing to write; a fresh process finds nothing to write; a fresh process
//! on an empty kernel writes the very same, but for the numbers of marks. That is asked of a copy from which real servers without
//! connections are gone.
//!
//! Who was sent where is remembered by each virtual server for itself: by the model's own memory, kept for each frontend.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataplane::Scope;
use dataplane::ipvs::{Ipvs, Kernel, Options};
use kernel::ipvs::{Ipvs as _, What};
use kernel::xtables::Variant;
use kernel_sim::xtables::Simulated;
use kernel_sim::{host, ipset, ipvs, sysctl};
use model::fate::OneOf;
use model::table::Masquerade;
use model::{Answer, Delta, Fate, ForwardingTable, Landing, Packet, Promises, ServicePortId};

use super::ends::{self, Ends};
use super::missing::Missing;
use crate::iptables::mutation::{Kind, Mutation};
use crate::iptables::proof::Mutable;
use crate::iptables::twin::{settle, sync, writes_nothing};
use crate::iptables::worlds::Worlds;
use crate::nftables::ends::End;
use crate::reference::World;
use crate::run::route_of;
use crate::subject::{Subject, Visit};

type Doors =
    Kernel<Missing<ipvs::Simulated>, Missing<ipset::Simulated>, Missing<host::Simulated>, sysctl::Simulated>;

/// The mode on the twins.
#[derive(Debug)]
pub(crate) struct Twin {
    dataplane: Ipvs<Worlds, Doors>,
    mutation: Arc<Mutex<Mutation>>,
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
        Self { is_checked: true, ..Self::with(&Mutation::default(), None) }
    }

    fn with(mutation: &Mutation, of_rules: Option<&Mutation>) -> Self {
        let (twin, mutation) = (ends::kernel(), Arc::new(Mutex::new(mutation.clone())));
        let worlds = |table: Simulated| Worlds { tables: vec![table], mutation: of_rules.cloned() };
        let programs = ends::programs(&twin, Variant::Nft).map(worlds);
        let doors = Kernel {
            servers: Missing::new(twin.servers, &mutation),
            sets: Missing::new(twin.sets, &mutation),
            host: Missing::new(twin.host, &mutation),
            settings: twin.settings,
        };
        Self {
            dataplane: Ipvs::new(programs, doors, Options::default(), || Duration::ZERO),
            mutation,
            table: ForwardingTable::default(),
            now_seconds: 0,
            worlds: vec![World::default()],
            is_checked: false,
            problem: None,
        }
    }

    /// Another process, on a copy of the kernel.
    fn copy(&mut self) -> ends::Mode {
        let doors = self.dataplane.doors();
        let twin = Kernel {
            servers: doors.servers.door.copy(),
            sets: doors.sets.door.copy(),
            host: doors.host.door.clone(),
            settings: doors.settings.clone(),
        };
        let programs = self.dataplane.programs().map(|worlds| {
            let mut program = worlds.tables[0].clone();
            (program.sets, program.ipvs) = (twin.sets.clone(), Some(twin.servers.clone()));
            program
        });
        let programs: Vec<Simulated> = programs.collect();
        Ipvs::new(programs, twin, Options::default(), || Duration::ZERO)
    }

    fn check(&mut self) -> Result<(), String> {
        writes_nothing("a second sync", &mut self.dataplane, &self.table)?;
        let mut settled = self.copy();
        sync(&mut settled, &self.table, Scope::Everything)?;
        settle(&mut settled)?;
        writes_nothing("a fresh process", &mut settled, &self.table)?;
        let mut fresh = ends::mode(Variant::Nft);
        sync(&mut fresh, &self.table, Scope::Everything)?;
        let (here, there) = (ends::canonical(&mut settled), ends::canonical(&mut fresh));
        if here == there {
            return Ok(());
        }
        let difference: Vec<_> = here.symmetric_difference(&there).collect();
        Err(format!("step by step and from scratch differ: {difference:#?}"))
    }

    fn send(&mut self, packet: &Packet) -> Result<Fate, String> {
        let host = self.dataplane.doors().host.door.clone();
        let worlds =
            self.dataplane.programs().nth(usize::from(packet.destination.is_ipv6())).ok_or("no door")?;
        let found = ends::got(&worlds.tables[0], &host, &[&self.table], packet)?;
        match found.keys().collect::<Vec<_>>()[..] {
            [End::Untouched] => Ok(Fate::Untouched),
            [End::Rejected] => Ok(Fate::Rejected),
            [End::Dropped] => Ok(Fate::Dropped),
            _ => self.one_of(packet, &found).map(Fate::OneOf),
        }
    }

    fn one_of(&mut self, packet: &Packet, found: &Ends) -> Result<OneOf, String> {
        let whole = found.values().fold(1, |all, (_, of)| all * (of / common(all, *of)));
        let landing = |(end, (part, of)): (&End, &(u32, u32))| {
            let End::At { endpoint: (address, port), masqueraded } = *end else {
                return Err(format!("the packet ends differently by chance: {found:?}"));
            };
            let slots = u16::try_from(part * (whole / of)).map_err(|e| e.to_string())?;
            Ok(Landing { address, port, slots, masqueraded })
        };
        let (protocol, number) = packet.payload.transport().ok_or("a ping was led somewhere")?;
        let route = route_of(&self.table, packet).ok_or("it is led, but no Service's")?;
        // Each virtual server has a memory of its own.
        let port = format!("{}:{number}", packet.destination);
        let port = ServicePortId { port: port.into(), protocol, ..route.0.id().clone() };
        Ok(OneOf {
            landings: found.iter().map(landing).collect::<Result<_, _>>()?,
            slots: whole,
            port,
            affinity_seconds: self.persistence(packet)?.filter(|_| !is_by_mark(&self.table, packet)),
        })
    }

    fn persistence(&mut self, packet: &Packet) -> Result<Option<u32>, String> {
        let (protocol, number) = packet.payload.transport().ok_or("a ping has no virtual server")?;
        let at = SocketAddr::new(packet.destination, number);
        let servers = self.dataplane.doors().servers.virtual_servers().map_err(|e| e.to_string())?;
        let is_it = |what: &What| matches!(what, What::Address(of, number) if *of == at && number.0 == ends::number(protocol));
        Ok(servers.into_iter().find(|server| is_it(&server.what)).and_then(|server| server.persistence_s))
    }
}

/// Virtual servers by mark remember nobody: see `Promises::affinity`.
pub(crate) fn is_by_mark(table: &ForwardingTable, packet: &Packet) -> bool {
    let node = table.node();
    let is_inside =
        node.is_own(packet.source) || node.pods.is_pod(packet.source, packet.interface.as_deref());
    let is_local = |(_, route): (_, &model::Route)| route.masquerade == Masquerade::ThisHost;
    !is_inside && route_of(table, packet).is_some_and(is_local)
}

fn common(mut one: u32, mut other: u32) -> u32 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

impl Mutable for Twin {
    fn mutated(mutation: &Mutation) -> Self {
        Self::with(mutation, Some(mutation))
    }

    fn seen(&mut self) -> BTreeSet<Kind> {
        let mutations = self.dataplane.programs().filter_map(|door| door.mutation.as_ref());
        let of_rules: BTreeSet<Kind> = mutations.flat_map(|mutation| mutation.seen.iter().cloned()).collect();
        let of_doors = self.mutation.lock().unwrap_or_else(PoisonError::into_inner).seen.clone();
        of_rules.into_iter().chain(of_doors).collect()
    }
}

impl Subject for Twin {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        dataplane::ipvs::MODE.semantics().of_rules()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut self.dataplane, table, Scope::Changed(&ids))?;
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
