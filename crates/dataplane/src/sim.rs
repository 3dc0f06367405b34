//! A mode on a simulated node: what the conformance suite and the scenarios ask of every mode. Only with the feature `sim`, which no
//! program has.
//!
//! In: a mode of the registry, on kernels in memory. Out: where packets end, with exact shares; what the kernel holds; copies of the
//! node that fail at each write, or that leave out one kind of what is written.
//!
//! Absent on purpose: any particular mode. Each implements [`SimulatedMode`] in its own folder.

pub mod cluster;
mod pairs;
mod relayed;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::nft;
use kernel_sim::nft::{Fate as KernelFate, Outcome, Path, SimPacket};
use model::affinity::Memory;
use model::fate::{OneOf, Payload, Remembered};
use model::table::NodeView;
use model::{Family, Fate, ForwardingTable, Frontend, Landing, Packet, Promises, ServicePortId};

pub use pairs::{Both, NftPair, OnPairs, Pair, XtablesPair};
pub use relayed::relayed;

use crate::upstream::KnownChains;
use crate::{Dataplane, ModeSettings};

/// A mark of another program, that must come out as it went in.
const FOREIGN_MARK: u32 = 0x2_0001;
/// Where packets come in that do not say.
const INTERFACE: &str = "uplink0";

/// A mode on a simulated node.
pub trait SimulatedMode {
    /// The mode's name, and how this simulation differs from others of the mode: `iptables-legacy`.
    fn name(&self) -> String;

    /// The mode, which writes to the simulated kernel.
    fn dataplane(&mut self) -> &mut dyn Dataplane;

    /// What its rules do where Kubernetes leaves the choice. Nothing listens on loopback addresses here.
    fn semantics(&self) -> Promises;

    /// Another node in the same state, with the same process on it.
    fn copy(&self) -> Box<dyn SimulatedMode>;

    /// Another node in the same state, on which a process has just started that knows nothing.
    fn restart(&self, settings: &ModeSettings) -> Box<dyn SimulatedMode>;

    /// Another node, to which nothing was ever written.
    fn fresh(&self) -> Box<dyn SimulatedMode>;

    /// All that the kernel holds, comparable: without what packets did to it, and without numbers that another process would choose
    /// differently.
    fn listing(&mut self) -> Result<Listing, String>;

    /// Removes everything that the mode has ever written. `known` are the chains of all modes.
    fn clean_up(&mut self, known: &KnownChains) -> Result<(), String>;

    /// The mode with the same program on the kernel of this thread's network namespace, as the so-manyth process there. The error says
    /// why that cannot be.
    fn real(&self, _process: usize) -> Result<Box<dyn RealMode>, String> {
        Err("it has no kernel".to_owned())
    }

    /// What [`RealMode::listing`] lists, of this node.
    fn listing_as_real(&mut self) -> Result<Listing, String> {
        self.listing()
    }

    /// Copies of this node in which another program has changed what is ours, each in another way.
    fn damaged(&mut self) -> Result<Named<'_>, String> {
        Ok(Box::new(std::iter::empty()))
    }

    /// Everywhere that a packet may end. `tables` are those between which the node may be; all have the same node. Nothing is
    /// remembered of the packet.
    fn ends(&mut self, packet: &Packet, tables: &[&ForwardingTable]) -> Result<Ends, String>;

    /// Sends the packet and has chance fall so that it ends there. What the kernel remembers of its client then is
    /// [`SimulatedMode::remembered`].
    fn send(&mut self, _packet: &Packet, _table: &ForwardingTable, _end: End) -> Result<(), String> {
        Ok(())
    }

    /// What is remembered of clients, comparable.
    fn remembered(&mut self) -> Result<String, String> {
        Ok(String::new())
    }

    /// Time passes.
    fn pass(&mut self, _time: Duration) {}

    /// The model's answer, changed by what the node itself does under these settings.
    fn corrected(&self, _packet: &Packet, fate: Fate) -> Fate {
        fate
    }

    /// Whether clients that are sent to this frontend can be known again.
    fn remembers(&self, _packet: &Packet, _table: &ForwardingTable) -> bool {
        true
    }

    /// Whether a client is remembered at its last endpoint alone, as the model has it.
    fn remembers_one_endpoint(&self) -> bool {
        true
    }

    /// Whether the packet may end otherwise than the model says, by a limit that the mode's README names.
    fn is_beyond(&self, _packet: &Packet, _table: &ForwardingTable) -> bool {
        false
    }

    /// What must hold beside the ends of packets, after each sync. Returns how many more packets were sent for it.
    fn check(&mut self, _table: &ForwardingTable) -> Result<u64, String> {
        Ok(0)
    }

    /// A copy of this node for each point at which `work` can fail there, and each way in which it can, that will fail so; with words
    /// for it.
    fn failing<'a>(&'a self, _work: &dyn Fn(&mut dyn Dataplane)) -> Named<'a> {
        Box::new(std::iter::empty())
    }

    /// What became of the fault.
    fn struck(&self) -> Struck {
        Struck::Not
    }

    /// Nothing fails from now on.
    fn heal(&mut self) {}

    /// Whether a packet may meet this while the node is on its way between two tables, though neither says so.
    fn may_meet(&self, _meanwhile: &Meanwhile<'_>, _found: &Result<Ends, String>) -> bool {
        false
    }

    /// From now on the kernel refuses whatever is added for this address; with `None` nothing. False if this kernel never does.
    fn refuse(&mut self, _address: Option<IpAddr>) -> bool {
        false
    }

    /// Another program writes something into the same parts of the kernel.
    fn add_foreign(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// From now on the kinds of what is written are noted, and this one is left out.
    fn leave_out(&mut self, _kind: Option<&str>) {}

    /// The kinds of rules, sets and other things that were noted, those that were left out too.
    fn kinds(&mut self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Why no scenario misses this kind of thing, where that is so.
    fn unmissed(&self, _kind: &str) -> Option<&'static str> {
        None
    }
}

/// A mode on the kernel of this thread's network namespace.
pub trait RealMode {
    fn dataplane(&mut self) -> &mut dyn Dataplane;

    fn listing(&mut self) -> Result<Listing, String>;

    fn clean_up(&mut self, known: &KnownChains) -> Result<(), String>;
}

/// Nodes, each with words for what becomes or became of it.
pub type Named<'a> = Box<dyn Iterator<Item = (String, Box<dyn SimulatedMode>)> + 'a>;

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck {
    /// It was not met yet.
    Not,
    /// The mode was told of it.
    Told,
    /// The process is dead.
    Died,
}

/// A node on its way from one table to another.
#[derive(Clone, Copy, Debug)]
pub struct Meanwhile<'a> {
    pub packet: &'a Packet,
    pub before: &'a ForwardingTable,
    pub after: &'a ForwardingTable,
    /// Where the packet ends by either table.
    pub allowed: &'a [Ends; 2],
    /// Another process wrote what was there before.
    pub is_restarted: bool,
}

/// What a kernel holds, part by part.
pub type Listing = BTreeMap<String, Vec<String>>;

/// In what two listings differ, in words; empty if in nothing.
pub fn difference(here: &Listing, there: &Listing) -> String {
    let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let only = |these: Option<&Vec<String>>, those: Option<&Vec<String>>| -> Vec<String> {
        let those = those.map(Vec::as_slice).unwrap_or_default();
        these.into_iter().flatten().filter(|line| !those.contains(line)).cloned().collect()
    };
    let differs = keys.into_iter().filter(|key| here.get(*key) != there.get(*key));
    let lines = differs.map(|key| {
        let (here, there) = (here.get(key), there.get(key));
        let (left, right) = (only(here, there), only(there, here));
        let is_order = left.is_empty() && right.is_empty() && here.is_some() && there.is_some();
        let order = if is_order { " in another order" } else { "" };
        format!("{key}{order}:\n  only here {left:#?}\n  only there {right:#?}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Untouched,
    Rejected,
    Dropped,
    At { endpoint: (IpAddr, u16), masqueraded: bool },
}

/// A share of a whole, in lowest terms.
pub type Share = (u64, u64);

/// Everywhere that a packet may end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends(pub BTreeMap<End, Share>);

impl Ends {
    pub fn one(end: End) -> Self {
        Self(BTreeMap::from([(end, (1, 1))]))
    }

    /// Adds up equal ends.
    pub fn of(ways: impl IntoIterator<Item = (End, Share)>) -> Result<Self, String> {
        let mut sum: BTreeMap<End, Share> = BTreeMap::new();
        for (end, (part, whole)) in ways {
            let (so_far, of) = sum.get(&end).copied().unwrap_or((0, 1));
            let added = so_far.checked_mul(whole).zip(part.checked_mul(of)).zip(of.checked_mul(whole));
            let ((one, other), whole) = added.ok_or("shares are too small to count")?;
            sum.insert(end, lowest(one + other, whole));
        }
        Ok(Self(sum))
    }

    /// Everywhere that a packet of this fate may end.
    pub fn of_fate(fate: &Fate) -> Self {
        match fate {
            Fate::Untouched => Self::one(End::Untouched),
            Fate::Rejected => Self::one(End::Rejected),
            Fate::Dropped => Self::one(End::Dropped),
            Fate::OneOf(one_of) => Self::of_landings(&one_of.landings),
        }
    }

    /// One of these, by their slots.
    pub fn of_landings(landings: &[Landing]) -> Self {
        let whole = landings.iter().map(|landing| u64::from(landing.slots)).sum();
        Self(landings.iter().map(|landing| (End::at(landing), lowest(landing.slots.into(), whole))).collect())
    }

    /// Whether an endpoint gets it.
    pub fn is_served(&self) -> bool {
        self.0.keys().any(|end| matches!(end, End::At { .. }))
    }

    /// Whether it is refused, aloud or not.
    pub fn is_refused(&self) -> bool {
        self.0.keys().all(|end| matches!(end, End::Rejected | End::Dropped))
    }
}

impl End {
    pub fn at(landing: &Landing) -> Self {
        Self::At { endpoint: (landing.address, landing.port), masqueraded: landing.masqueraded }
    }

    pub fn endpoint(self) -> Option<(IpAddr, u16)> {
        if let Self::At { endpoint, .. } = self { Some(endpoint) } else { None }
    }
}

/// A fraction in lowest terms.
pub fn lowest(part: u64, whole: u64) -> Share {
    let (mut a, mut b) = (part, whole);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (part / a.max(1), whole / a.max(1))
}

/// What a clock and the model remember of clients, for kernels that do not and for what a kernel is compared with.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    memory: Memory,
    now: Duration,
}

impl Clients {
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Where a packet of this client may land.
    pub fn narrow(&self, client: IpAddr, one_of: &OneOf) -> Vec<Landing> {
        self.memory.narrow(self.now.as_secs(), client, one_of)
    }

    /// It landed here.
    pub fn remember(&mut self, client: IpAddr, one_of: &OneOf, end: End) {
        let landed = one_of.landings.iter().find(|one| Some((one.address, one.port)) == end.endpoint());
        if let Some(landing) = landed {
            self.memory.remember(self.now.as_secs(), client, one_of, landing);
        }
    }

    pub fn remembered(&self) -> String {
        format!("{:?}", self.memory)
    }
}

/// The choice, called as what it is remembered for: a service port, or a single frontend of it.
pub fn remembered_for(packet: &Packet, one_of: OneOf, semantics: &Promises) -> OneOf {
    let Some((protocol, number)) = packet.payload.transport() else { return one_of };
    if semantics.affinity == Remembered::ForServicePort {
        return one_of;
    }
    let port = format!("{}:{number}", packet.destination);
    OneOf { port: ServicePortId { port: port.into(), protocol, ..one_of.port.clone() }, ..one_of }
}

/// What a packet may have been sent to, in the order in which that is asked.
pub fn frontends(packet: &Packet) -> Vec<Frontend> {
    let Payload::Transport { protocol, port } = packet.payload else { return Vec::new() };
    let (ip, family) = (packet.destination, Family::of(packet.destination));
    vec![Frontend::Address { ip, protocol, port }, Frontend::NodePort { family, protocol, port }]
}

/// The packet as the kernel of this node sees it.
pub fn sim_packet(packet: &Packet, node: &NodeView) -> SimPacket {
    let is_own = node.is_own(packet.source);
    let (protocol, port) = match packet.payload {
        Payload::Ping => (IpProtocol::ICMP, None),
        Payload::Transport { protocol, port } => (protocol.into(), Some(port)),
    };
    let interface = packet.interface.clone().unwrap_or_else(|| INTERFACE.into());
    SimPacket {
        family: if packet.destination.is_ipv4() { nft::Family::V4 } else { nft::Family::V6 },
        path: if is_own { Path::Output } else { Path::Arrives(interface) },
        source: packet.source,
        destination: packet.destination,
        protocol,
        port,
        mark: FOREIGN_MARK,
        priority: 0,
        local: node.addresses.clone(),
    }
}

/// Does a packet that arrives end at this host itself?
pub fn is_delivered_here(packet: &SimPacket, address: IpAddr) -> bool {
    packet.path != Path::Output && (address.is_loopback() || packet.local.contains(&address))
}

/// What the outcome means. Mark and priority must be what they were, unless nobody sees them any more; some packets may lose their mark.
pub fn end_of(packet: &SimPacket, outcome: &Outcome, may_lose_mark: bool) -> Result<End, String> {
    let end = match outcome.fate {
        KernelFate::Untouched => End::Untouched,
        KernelFate::Rejected(_) => return Ok(End::Rejected),
        KernelFate::Dropped => return Ok(End::Dropped),
        KernelFate::Dnat(address, port) => {
            let endpoint = (address, port.ok_or("the packet lost its port")?);
            // What is delivered to this host itself passes no postrouting, where both would be taken off.
            if is_delivered_here(packet, address) {
                return Ok(End::At { endpoint, masqueraded: false });
            }
            End::At { endpoint, masqueraded: outcome.masqueraded }
        }
    };
    let is_mark_kept = outcome.mark == packet.mark || may_lose_mark && outcome.mark == 0;
    let is_hidden = end == End::Untouched && outcome.masqueraded;
    if !is_mark_kept || outcome.priority != packet.priority || is_hidden {
        return Err(format!("the packet left otherwise than it came: {packet:?} {outcome:?}"));
    }
    Ok(end)
}
