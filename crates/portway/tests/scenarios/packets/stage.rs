//! Network namespaces in which packets run through the real kernel: `source` → `node` → `sink`.
//!
//! A packet comes in through a link of the name that it says, each of which has a source of its own at its other end, or is
//! sent by the node itself. Whatever leaves the node, also answers, goes to the sink, which hears all and says nothing. What
//! is delivered to the node itself is overheard there, after its translation.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use kernel_sim::nft::Path;
use model::fate::Payload;
use model::{Packet, Protocol};
use playground::namespace::Namespace;
use playground::namespace::socket::{HeaderSocket, LinkSocket, RawSocket, wait_readable};

use super::heard::{Heard, Refusal};
use super::links::{self, inside, text};
use super::probe::{ICMP, ICMPV6, Probe, SCTP, TCP, UDP};

/// The link that is there from the start; most packets come in through it.
const ENTRY: &str = "uplink0";
/// What the node's end of the link to the sink is called, and its addresses: those that masquerading uses.
const EXIT: &str = "sink0";
const EXIT_ADDRESSES: [&str; 2] = ["100.64.0.1/32", "fd00:100:64::1/128"];
/// Those of every source: no packet bears them, but without any the kernel sends none.
const SOURCE_ADDRESSES: [&str; 2] = ["100.64.0.2/32", "fd00:100:64::2/128"];
/// Those of the node's end of every link into it, where it has any.
pub(crate) const ENTRY_ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(100, 64, 1, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x100, 0x64, 1, 0, 0, 0, 1))];
/// The kernel raises the carrier of a new link at its own pace.
const LINK_LIMIT: Duration = Duration::from_secs(10);
const LINK_POLL: Duration = Duration::from_millis(2);
/// From and to where packets are sent to find out whether a link is ready, in each family.
const TRIAL: [(&str, &str); 2] = [("203.0.113.250", "203.0.113.251"), ("2001:db8:f::1", "2001:db8:f::2")];

/// The namespaces.
#[derive(Debug)]
pub(crate) struct Stage {
    node: Namespace,
    /// Held so that it lives.
    _sink: Namespace,
    exit: LinkSocket,
    own: Mouth,
    wires: BTreeMap<String, Wire>,
    /// Who overhears what is delivered to an address of the node, by protocol.
    ears: BTreeMap<IpAddr, Vec<(u8, RawSocket)>>,
    addresses: BTreeSet<IpAddr>,
    /// The node's ends of links into it have addresses.
    has_entry_addresses: bool,
    sent: u32,
    refusal: Refusal,
}

/// A link into the node, and the namespace at its other end.
#[derive(Debug)]
struct Wire {
    _source: Namespace,
    mouth: Mouth,
}

/// Sends packets of both families.
#[derive(Debug)]
struct Mouth {
    v4: HeaderSocket,
    v6: HeaderSocket,
}

/// Where a probe was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// On its way out, or delivered to the node.
    At { source: (IpAddr, u16), destination: (IpAddr, u16) },
    /// The client was told that it is refused.
    Refused,
    /// Nowhere.
    Nowhere,
}

impl Stage {
    /// Makes it. Packets pass when this returns.
    pub(crate) fn new(refusal: Refusal) -> Result<Self, String> {
        let (node, sink) = (Namespace::create().map_err(text)?, Namespace::create().map_err(text)?);
        links::set_up_node(&node)?;
        let mut lines = links::link(EXIT, &sink);
        lines.push("link set lo up".into());
        lines.extend(EXIT_ADDRESSES.map(|address| links::address_line("add", address, EXIT)));
        lines.extend(links::default_routes(EXIT));
        links::ip(&node, &lines)?;
        links::ip(&sink, &["link set eth0 arp off up".into()])?;
        let exit = inside(&sink, LinkSocket::open)?;
        let own = Mouth::new(&node)?;
        let mut stage = Self {
            node,
            _sink: sink,
            exit,
            own,
            wires: BTreeMap::new(),
            ears: BTreeMap::new(),
            addresses: BTreeSet::new(),
            has_entry_addresses: false,
            sent: 0,
            refusal,
        };
        stage.add_wire(ENTRY)?;
        Ok(stage)
    }

    /// The node.
    pub(crate) fn node(&self) -> &Namespace {
        &self.node
    }

    /// From now on the node has addresses where links end: what is redirected goes to one of these.
    pub(crate) fn give_entries_addresses(&mut self) -> Result<(), String> {
        self.has_entry_addresses = true;
        let entries: Vec<String> = self.wires.keys().cloned().collect();
        entries.iter().try_for_each(|interface| self.give_addresses(interface))
    }

    fn give_addresses(&mut self, interface: &str) -> Result<(), String> {
        let lines = ENTRY_ADDRESSES.map(|ip| links::address_line("add", &links::with_length(ip), interface));
        links::ip(&self.node, &lines)?;
        ENTRY_ADDRESSES.into_iter().try_for_each(|address| self.hear(address))
    }

    /// Gives the node these addresses, and no others.
    pub(crate) fn set_addresses(&mut self, addresses: &BTreeSet<IpAddr>) -> Result<(), String> {
        let lines = |verb: &str, these: &BTreeSet<IpAddr>, those: &BTreeSet<IpAddr>| -> Vec<String> {
            these
                .difference(those)
                .map(|address| links::address_line(verb, &links::with_length(*address), "lo"))
                .collect()
        };
        let lines = [lines("del", &self.addresses, addresses), lines("add", addresses, &self.addresses)];
        let lines = lines.concat();
        if !lines.is_empty() {
            links::ip(&self.node, &lines)?;
        }
        self.ears.retain(|address, _| addresses.contains(address) || ENTRY_ADDRESSES.contains(address));
        addresses.iter().try_for_each(|address| self.hear(*address))?;
        self.addresses.clone_from(addresses);
        Ok(())
    }

    /// Sends a packet and says where it was met within `limit`.
    pub(crate) fn send(
        &mut self,
        packet: &Packet,
        path: &Path,
        limit: Duration,
    ) -> Result<(Probe, Met), String> {
        if let Path::Arrives(interface) = path
            && !self.wires.contains_key(interface)
        {
            self.add_wire(interface)?;
        }
        if packet.destination.is_loopback() {
            self.hear(packet.destination)?;
        }
        let probe = self.launch(packet, path)?;
        self.meet(&probe, limit).map(|met| (probe, met))
    }

    fn launch(&mut self, packet: &Packet, path: &Path) -> Result<Probe, String> {
        let mouth = match path {
            Path::Arrives(interface) => &self.wires.get(interface).ok_or("no such link")?.mouth,
            Path::Output => &self.own,
        };
        self.sent += 1;
        let probe = Probe::new(packet, self.sent);
        mouth.say(&probe).map_err(text)?;
        Ok(probe)
    }

    /// Listens until the probe is met. A refusal counts only where the probe was not delivered: then the answer is that of
    /// the host behind, not of the rules.
    fn meet(&self, probe: &Probe, limit: Duration) -> Result<Met, String> {
        let deadline = Instant::now() + limit;
        let fds: Vec<_> = self.all_ears().map(|(_, ear)| ear.as_fd()).chain([self.exit.as_fd()]).collect();
        loop {
            let mut is_refused = false;
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = wait_readable(&fds, Some(left)).map_err(text)?;
            // The sink first: what the host answered was delivered before, and is found below.
            let heard: Vec<Heard> = self.at_exit()?.into_iter().chain(self.delivered()?).collect();
            for heard in heard {
                if heard.is(probe) {
                    return Ok(Met::At { source: heard.source, destination: heard.destination });
                }
                is_refused |= heard.refuses(probe, self.refusal);
            }
            if is_refused {
                return Ok(Met::Refused);
            }
            if !ready.contains(&true) && left.is_zero() {
                return Ok(Met::Nowhere);
            }
        }
    }

    fn at_exit(&self) -> Result<Vec<Heard>, String> {
        let mut all = Vec::new();
        while let Some(packet) = self.exit.receive(Duration::ZERO).map_err(text)? {
            all.extend(Heard::of_packet(&packet));
        }
        Ok(all)
    }

    fn delivered(&self) -> Result<Vec<Heard>, String> {
        let mut all = Vec::new();
        for (protocol, ear) in self.all_ears() {
            while let Some(packet) = ear.receive(Duration::ZERO).map_err(text)? {
                all.extend(Heard::of_body(*protocol, packet.source, ear.local(), &packet.payload));
            }
        }
        Ok(all)
    }

    fn all_ears(&self) -> impl Iterator<Item = &(u8, RawSocket)> {
        self.ears.values().flatten()
    }

    /// From now on hears what is delivered to this address of the node.
    fn hear(&mut self, address: IpAddr) -> Result<(), String> {
        if self.ears.contains_key(&address) {
            return Ok(());
        }
        let protocols = [TCP, UDP, SCTP, if address.is_ipv4() { ICMP } else { ICMPV6 }];
        let open = |protocol| RawSocket::overhear(protocol, address).map(|ear| (protocol, ear));
        let ears: Vec<_> = inside(&self.node, || protocols.into_iter().map(open).collect())?;
        self.ears.insert(address, ears);
        Ok(())
    }

    /// Adds a link into the node, and waits until packets pass.
    fn add_wire(&mut self, interface: &str) -> Result<(), String> {
        let source = Namespace::create().map_err(text)?;
        links::ip(&self.node, &links::link(interface, &source))?;
        let mut lines = vec!["link set lo up".into(), "link set eth0 arp off up".into()];
        lines.extend(SOURCE_ADDRESSES.map(|address| links::address_line("add", address, "lo")));
        lines.extend(links::default_routes("eth0"));
        links::ip(&source, &lines)?;
        let mouth = Mouth::new(&source)?;
        self.wires.insert(interface.into(), Wire { _source: source, mouth });
        if self.has_entry_addresses {
            self.give_addresses(interface)?;
        }
        TRIAL.iter().try_for_each(|(from, to)| self.wait_for(interface, from, to))
    }

    fn wait_for(&mut self, interface: &str, from: &str, to: &str) -> Result<(), String> {
        let path = Path::Arrives(interface.into());
        let packet = Packet {
            source: from.parse().map_err(text)?,
            destination: to.parse().map_err(text)?,
            payload: Payload::Transport { protocol: Protocol::Udp, port: 9 },
            interface: None,
        };
        let deadline = Instant::now() + LINK_LIMIT;
        let mut problem = "packets do not arrive".to_owned();
        while Instant::now() < deadline {
            // Until it is up, sending may fail too: there is no route yet, or no address to send from.
            match self.launch(&packet, &path) {
                Ok(probe) if self.meet(&probe, LINK_POLL)? != Met::Nowhere => return Ok(()),
                Ok(_) => {}
                Err(reason) => {
                    problem = reason;
                    std::thread::sleep(LINK_POLL);
                }
            }
        }
        Err(format!("the link {interface} does not come up: {problem}"))
    }
}

impl Mouth {
    fn new(namespace: &Namespace) -> Result<Self, String> {
        inside(namespace, || Ok(Self { v4: HeaderSocket::open(true)?, v6: HeaderSocket::open(false)? }))
    }

    /// What the rules stop while it is sent is refused to the sender at once; that is no error here.
    fn say(&self, probe: &Probe) -> io::Result<()> {
        let mouth = if probe.source.is_ipv4() { &self.v4 } else { &self.v6 };
        match mouth.send(&probe.encode(), probe.destination) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    }
}
