//! The mode on simulated iptables programs and a relay that opens nothing, for the conformance suite and the scenarios.
//!
//! Packets run through the rules to a port of ours, and from there to the pool of what listens at it. The relay remembers clients as
//! the model does.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use kernel::xtables::{Programs, Variant, Xtables};
use kernel_sim::nft::{Fate as Seen, Path, SimPacket};
use model::fate::{OneOf, Payload};
use model::table::How;
use model::{Action, Family, Fate, ForwardingTable, Packet, Pool, Promises};

use super::mode::options;
use super::{SHARED, Userspace};
use crate::relay::{self, ListenerId};
use crate::sim::{
    Clients, End, Ends, Listing, Meanwhile, Named, RealMode, SimulatedMode, frontends, relayed, sim_packet,
};
use crate::upstream::KnownChains;
use crate::xtables::sim::{self, Faults, Program, Unmissed};
use crate::{Dataplane, ModeSettings};

/// What no scenario misses.
const UNMISSED: [Unmissed; 4] = [
    ("filter INPUT [] \"kubernetes health check service ports\"", "for hosts that let nothing in by default"),
    ("\"health check node port\" -> -j ACCEPT", "for hosts that let nothing in by default"),
    (
        "filter KUBE-NODEPORT-NON-LOCAL [port, protocol] ",
        "for hosts that let nothing in by default: node ports",
    ),
    (
        "nat KUBE-PORTALS-HOST [destination, port, protocol] \"\" -> REDIRECT",
        "no scenario has a host without an address that sends; random packets do",
    ),
];

/// The addresses of the interface by which packets come in: the kernel redirects to one of them.
pub const INTERFACE_ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(100, 64, 1, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x100, 0x64, 1, 0, 0, 0, 1))];

pub(super) fn simulate(settings: &ModeSettings) -> Vec<Box<dyn SimulatedMode>> {
    let node = |variant| -> Box<dyn SimulatedMode> {
        Box::new(Node::new(sim::programs(variant), relay::Simulated::default(), settings))
    };
    Variant::ALL.map(node).into()
}

#[derive(Clone)]
struct Node {
    dataplane: Userspace<Program, relay::Simulated>,
    settings: ModeSettings,
    clients: Clients,
}

impl Node {
    fn new(programs: Vec<Program>, relays: relay::Simulated, settings: &ModeSettings) -> Self {
        let dataplane = Userspace::new(programs, relays, options(settings));
        Self { dataplane, settings: settings.clone(), clients: Clients::default() }
    }

    fn variant(&self) -> Variant {
        self.clone().dataplane.doors().next().map_or(Variant::Nft, |program| program.variant())
    }

    /// Where the packet is led, whoever has sent it.
    fn fate(&mut self, packet: &Packet, table: &ForwardingTable) -> Result<Fate, String> {
        let mut sent = sim_packet(packet, table.node());
        sent.local.extend(INTERFACE_ADDRESSES);
        let tables = sim::program_for(self.dataplane.doors(), packet.destination)?.tables();
        let ways = tables.ways(&sent, Duration::ZERO);
        let [way] = ways.as_slice() else { return Err("these rules leave nothing to chance".into()) };
        if way.outcome.masqueraded || way.outcome.mark != sent.mark {
            return Err(format!("the packet was changed: {:?}", way.outcome));
        }
        match way.outcome.fate {
            Seen::Untouched => Ok(Fate::Untouched),
            Seen::Rejected(_) => Ok(Fate::Rejected),
            Seen::Dropped => Ok(Fate::Dropped),
            Seen::Dnat(address, port) => {
                let at = SocketAddr::new(address, port.ok_or("the packet lost its port")?);
                self.relayed(packet, &sent, at).map(Fate::OneOf)
            }
        }
    }

    fn relayed(&mut self, packet: &Packet, sent: &SimPacket, at: SocketAddr) -> Result<OneOf, String> {
        let is_loopback = at.ip().is_loopback() && sent.path == Path::Output;
        if !is_loopback && !sent.local.contains(&at.ip()) {
            return Err(format!("{at} is not of this host"));
        }
        let (protocol, _) = packet.payload.transport().ok_or("a ping was led somewhere")?;
        relayed(self.dataplane.relays(), protocol, at)
    }
}

/// With names in the place of ports: another process may get others.
fn listing<X: Xtables>(
    mode: &mut Userspace<X, relay::Simulated>,
    tables: impl Fn(&mut X) -> &mut dyn Xtables,
) -> Result<Listing, String> {
    let name = |(id, port): (ListenerId, u16)| {
        let protocol = format!("-p {}", id.port.protocol.to_string().to_lowercase());
        (id.family.to_string(), protocol, port, id.to_string())
    };
    let ports: Vec<(String, String, u16, String)> = mode.ports().iter().map(name).collect();
    let named = |chain: &str, rule: String| {
        let of_rule = ports
            .iter()
            .filter(|(family, protocol, ..)| chain.starts_with(family) && rule.contains(protocol.as_str()));
        of_rule.fold(rule.clone(), |rule, (.., port, name)| {
            let rule = rule.replace(&format!(":{port}"), &format!(":{name}"));
            rule.replace(&format!(" {port} "), &format!(" {name} ")).replace(&format!("ports {port}"), name)
        })
    };
    let mut all = Listing::new();
    for program in mode.doors() {
        for (chain, rules) in sim::listing(tables(program), &SHARED)? {
            let is_shared = SHARED.iter().any(|shared| chain.ends_with(&format!(" {}", shared.name)));
            let mut rules: Vec<String> = rules.into_iter().map(|rule| named(&chain, rule)).collect();
            if is_shared {
                rules.sort();
            }
            all.insert(chain, rules);
        }
    }
    Ok(all)
}

impl RealMode for Userspace<Programs, relay::Simulated> {
    fn dataplane(&mut self) -> &mut dyn Dataplane {
        self
    }

    fn listing(&mut self) -> Result<Listing, String> {
        listing(self, |program| program)
    }

    fn clean_up(&mut self, known: &KnownChains) -> Result<(), String> {
        sim::clean_up(self.doors(), known)
    }
}

impl SimulatedMode for Node {
    sim::by_programs!(UNMISSED);

    fn name(&self) -> String {
        format!("{}-by-{}", self.settings.mode, self.variant())
    }

    fn semantics(&self) -> Promises {
        self.settings.mode.semantics().of_rules()
    }

    /// What listened died with its process.
    fn restart(&self, settings: &ModeSettings) -> Box<dyn SimulatedMode> {
        let mut node = self.clone();
        let programs = node.dataplane.doors().map(Program::restarted).collect();
        let fresh = Self::new(programs, relay::Simulated::default(), settings);
        Box::new(Self { clients: self.clients.clone(), ..fresh })
    }

    /// What listens stays, since others would have other ports.
    fn fresh(&self) -> Box<dyn SimulatedMode> {
        let relays = self.clone().dataplane.relays().clone();
        Box::new(Self::new(sim::programs(self.variant()), relays, &self.settings))
    }

    fn listing(&mut self) -> Result<Listing, String> {
        listing(&mut self.dataplane, |program| program.tables())
    }

    /// Nothing listens there, either. Somebody else has the first ports by the time of another process.
    fn real(&self, process: usize) -> Result<Box<dyn RealMode>, String> {
        let programs = sim::real_programs(self.variant())?;
        let range = if process == 0 { 32_768..=60_999 } else { 50_000..=60_999 };
        let relays = relay::Simulated::with_range(range);
        Ok(Box::new(Userspace::new(programs, relays, options(&self.settings))))
    }

    fn ends(&mut self, packet: &Packet, tables: &[&ForwardingTable]) -> Result<Ends, String> {
        Ok(match self.fate(packet, tables[0])? {
            Fate::OneOf(one_of) => Ends::of_landings(&self.clients.narrow(packet.source, &one_of)),
            other => Ends::of_fate(&other),
        })
    }

    fn send(&mut self, packet: &Packet, table: &ForwardingTable, end: End) -> Result<(), String> {
        if let Fate::OneOf(one_of) = self.fate(packet, table)? {
            self.clients.remember(packet.source, &one_of, end);
        }
        Ok(())
    }

    fn remembered(&mut self) -> Result<String, String> {
        Ok(self.clients.remembered())
    }

    fn pass(&mut self, time: Duration) {
        self.clients.pass(time);
    }

    /// A client that dials a port of ours directly would go around source ranges: it is refused.
    fn check(&mut self, table: &ForwardingTable) -> Result<u64, String> {
        let mut sent = 0;
        let ports: Vec<(ListenerId, u16)> = self.dataplane.ports().iter().collect();
        for (id, port) in ports {
            let own = table.node().addresses.iter().copied().find(|ip| Family::of(*ip) == id.family);
            let (source, at_interface) = match id.family {
                Family::V4 => ([203, 0, 113, 77].into(), INTERFACE_ADDRESSES[0]),
                Family::V6 => (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77]), INTERFACE_ADDRESSES[1]),
            };
            for destination in own.into_iter().chain([at_interface]) {
                let payload = Payload::Transport { protocol: id.port.protocol, port };
                let packet = Packet { source, destination, payload, interface: None };
                sent += 1;
                let fate = self.fate(&packet, table)?;
                if fate != Fate::Rejected {
                    return Err(format!("a client that dials port {port} of {id} directly gets to {fate:?}"));
                }
            }
        }
        Ok(sent)
    }

    /// A process that cannot look after a restart does not know which ports rules lead to: what listened there is dead.
    fn failing<'a>(&'a self, work: &dyn Fn(&mut dyn Dataplane)) -> Named<'a> {
        sim::failing(self, |node: &mut Self| node.dataplane.doors().collect(), Faults::Restores, work)
    }

    /// A packet that only one of the two tables serves may be refused in another way than the other table says. Pools follow at once,
    /// before rules do, so a packet may meet the new pool by the old way. After a restart rules may lead to a listener that died and
    /// that the frontend does not need any more.
    fn may_meet(&self, meanwhile: &Meanwhile<'_>, found: &Result<Ends, String>) -> bool {
        let Ok(found) = found else { return meanwhile.is_restarted && is_moved(meanwhile) };
        let pools = pools(meanwhile);
        let is_early_pool = found.0.keys().all(|end| pools.contains(end));
        found.is_refused() && meanwhile.allowed.iter().any(|ends| !ends.is_served()) || is_early_pool
    }
}

/// Does the packet's frontend lead to another listener than before?
fn is_moved(meanwhile: &Meanwhile<'_>) -> bool {
    let is_local = |action: &Action| {
        let how = action.pool().map(Pool::how);
        how.map(|how| matches!(how, How::LocalReady | How::LocalTerminating))
    };
    let led = |table: &ForwardingTable| {
        let found = frontends(meanwhile.packet).into_iter().find_map(|frontend| table.route(&frontend));
        found.map(|(port, route)| (port.id().clone(), is_local(&route.inside), is_local(&route.outside)))
    };
    led(meanwhile.before) != led(meanwhile.after)
}

/// All endpoints that the packet's frontend has in either table, by whichever policy.
fn pools(meanwhile: &Meanwhile<'_>) -> BTreeSet<End> {
    let mut all = BTreeSet::new();
    for table in [meanwhile.before, meanwhile.after] {
        let found = frontends(meanwhile.packet).into_iter().filter_map(|frontend| table.route(&frontend));
        let routes = found.flat_map(|(port, _)| port.routes.iter());
        let pools = routes.flat_map(|route| [&route.inside, &route.outside]).filter_map(Action::pool);
        let endpoints = pools.flat_map(|pool| pool.endpoints().iter());
        all.extend(endpoints.map(|one| End::At { endpoint: (one.address, one.port), masqueraded: true }));
    }
    all
}
