//! Clients, a node and pods in three namespaces, and one datagram at a time between them.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::RulePackets;
use kernel::xtables::{Family, Programs, Table, Variant, Xtables};
use kernel_sim::nft::{Path, SimPacket};
use playground::namespace::{Namespace, socket};

use crate::rules::{POD_PORT, address, client, node, pod};

/// Nothing that shall come takes so long.
const LIMIT: Duration = Duration::from_secs(10);

/// The three namespaces, with sockets of all pods.
pub(crate) struct Stage {
    pub(crate) family: Family,
    clients: Namespace,
    pub(crate) node: Namespace,
    pods: Vec<UdpSocket>,
    /// No two datagrams are of one connection.
    next_port: u16,
}

/// Where a datagram ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    /// At this pod; who it is from is not who sent it.
    At { pod: IpAddr, masqueraded: bool },
    /// The sender was told "port unreachable".
    Refused,
    /// Nowhere.
    Nowhere,
}

/// Who sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender {
    Client(u8),
    Node,
}

impl Stage {
    /// Builds it; `None`, with the reason, where that is not allowed.
    pub(crate) fn build(family: Family) -> Option<Self> {
        let made = (0..3).map(|_| Namespace::create()).collect::<io::Result<Vec<_>>>();
        let [clients, node, pods] = match made {
            Ok(made) => <[Namespace; 3]>::try_from(made).unwrap(),
            Err(error) => {
                eprintln!("skipped: network namespaces of its own need root: {error}");
                return None;
            }
        };
        furnish(family, &clients, &node, &pods)?;
        let listen =
            || [1, 2, 3].map(|last| UdpSocket::bind(SocketAddr::new(pod(family, last), POD_PORT)).unwrap());
        let pods = pods.run(listen).unwrap().into();
        Some(Self { family, clients, node, pods, next_port: 2000 })
    }

    /// From now on the node itself serves, too.
    pub(crate) fn serve_at_node(&mut self) {
        let at = SocketAddr::new(node(self.family), POD_PORT);
        self.pods.push(self.node.run(|| UdpSocket::bind(at).unwrap()).unwrap());
    }

    /// Gives the node its rules; false, with the reason, where the program is not there.
    pub(crate) fn restore(&self, variant: Variant, text: &str) -> bool {
        let programs = Programs::find().programs.into_iter();
        let mut doors = programs.filter(|door| door.variant() == variant && door.family() == self.family);
        let Some(mut door) = doors.next() else {
            eprintln!("skipped: {variant} is not installed for {}", self.family);
            return false;
        };
        match self.node.run(|| door.restore(text)).unwrap() {
            Err(error @ kernel::xtables::Error::ModuleMissing { .. }) => {
                eprintln!("skipped: {error}");
                false
            }
            restored => restored.map(|()| true).unwrap(),
        }
    }

    /// What the rules of a chain of the node have counted.
    pub(crate) fn packets(&self, variant: Variant, table: Table, chain: &str) -> Vec<RulePackets> {
        let mut found = Programs::find();
        let door = found.door(variant, self.family).expect("it wrote the rules");
        self.node.run(|| door.packets(table, chain)).unwrap().unwrap().expect("every kernel counts")
    }

    /// The same datagram for the twin.
    pub(crate) fn sim_packet(&self, sender: Sender, destination: IpAddr, port: u16) -> SimPacket {
        SimPacket {
            family: self.family,
            path: match sender {
                Sender::Client(_) => Path::Arrives("uplink".to_owned()),
                Sender::Node => Path::Output,
            },
            source: self.source(sender),
            destination,
            protocol: IpProtocol::UDP,
            port: Some(port),
            mark: 0,
            priority: 0,
            local: BTreeSet::from([node(self.family), address(self.family, 1, 254)]),
        }
    }

    fn source(&self, sender: Sender) -> IpAddr {
        match sender {
            Sender::Client(last) => client(self.family, last),
            Sender::Node => node(self.family),
        }
    }

    /// Sends one datagram, and waits until it has ended where it may end. If that may be nowhere, another is sent behind it to
    /// `marker`, which leads to a pod for sure: when that is there, this one will not come any more.
    pub(crate) fn send(
        &mut self,
        sender: Sender,
        destination: SocketAddr,
        possible: &BTreeSet<Seen>,
        marker: SocketAddr,
    ) -> Option<Seen> {
        let socket = self.socket(sender);
        let token = self.next_port;
        socket.connect(destination).unwrap();
        match socket.send(&token.to_be_bytes()) {
            Ok(_) => {}
            // What is dropped or refused on the way out is told at once.
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}"),
        }
        let may_vanish = possible.contains(&Seen::Nowhere);
        if may_vanish {
            let later = self.socket(sender);
            later.send_to(&self.next_port.to_be_bytes(), marker).unwrap();
        }
        let seen = self.wait(&socket, token, self.source(sender))?;
        if may_vanish && seen != Seen::Nowhere {
            // It did not, so the marker is still to come.
            assert_eq!(self.wait(&socket, token, self.source(sender)), Some(Seen::Nowhere));
        }
        Some(seen)
    }

    /// Where the datagram with this token ended; `None` if nothing at all happened.
    fn wait(&self, socket: &UdpSocket, token: u16, source: IpAddr) -> Option<Seen> {
        let mut sources: Vec<_> = self.pods.iter().map(AsFd::as_fd).collect();
        sources.push(socket.as_fd());
        let ready = socket::wait_readable(&sources, Some(LIMIT)).unwrap();
        if ready[self.pods.len()] {
            let error = socket.recv(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
            return Some(Seen::Refused);
        }
        let pod = self.pods.iter().zip(ready).find_map(|(pod, ready)| ready.then_some(pod))?;
        let mut bytes = [0; 2];
        let (_, from) = pod.recv_from(&mut bytes).unwrap();
        let came = u16::from_be_bytes(bytes);
        // The marker has the next number. A lower one was given up, and came after all.
        assert!(came == token || came == token + 1, "datagram {came} came while {token} was on its way");
        let at = Seen::At { pod: pod.local_addr().unwrap().ip(), masqueraded: from.ip() != source };
        Some(if came == token { at } else { Seen::Nowhere })
    }

    /// A socket with a port that nobody has had.
    fn socket(&mut self, sender: Sender) -> UdpSocket {
        self.next_port += 1;
        let local = SocketAddr::new(self.source(sender), self.next_port);
        let namespace = match sender {
            Sender::Client(_) => &self.clients,
            Sender::Node => &self.node,
        };
        namespace.run(|| UdpSocket::bind(local).unwrap()).unwrap()
    }
}

/// Links, addresses and routes. Every client address is the clients' own by a local route.
fn furnish(family: Family, clients: &Namespace, node_space: &Namespace, pods: &Namespace) -> Option<()> {
    let at = |net, last| address(family, net, last);
    let (length, all) = if family == Family::V4 { (24, "0.0.0.0/0") } else { (64, "::/0") };
    let v = if family == Family::V4 { "-4" } else { "-6" };
    let (path, client_path) = (pods.path(), clients.path());
    ip(
        node_space,
        &[
            "link set lo up".to_owned(),
            format!("link add uplink type veth peer name eth0 netns {}", client_path.display()),
            format!("link add pods type veth peer name eth0 netns {}", path.display()),
        ],
    )?;
    let both = |name: &str, net: u8, last: u8| {
        let nodad = if family == Family::V6 { " nodad" } else { "" };
        [format!("link set {name} up"), format!("{v} addr add {}/{length} dev {name}{nodad}", at(net, last))]
    };
    let pod_addresses = [1, 2, 3].into_iter().flat_map(|last| both("eth0", 1, last));
    ip(pods, &pod_addresses.chain([format!("{v} route add {all} via {}", at(1, 254))]).collect::<Vec<_>>())?;
    let local = format!("{v} route add local {}/{length} dev lo", at(2, 0));
    let client = ["link set lo up".to_owned(), local].into_iter().chain(both("eth0", 3, 2));
    ip(clients, &client.chain([format!("{v} route add {all} via {}", at(3, 1))]).collect::<Vec<_>>())?;
    let back = format!("{v} route add {}/{length} via {}", at(2, 0), at(3, 2));
    // Services have no route of their own: what the node sends there must find one before it is translated.
    let services = format!("{v} route add {}/{length} dev pods", at(96, 0));
    let lines = both("uplink", 3, 1).into_iter().chain(both("pods", 1, 254)).chain([back, services]);
    ip(node_space, &lines.collect::<Vec<_>>())?;
    node_space.run(forward).unwrap();
    // A local route alone does not let a socket have an IPv6 address.
    clients.run(|| set("ipv6/ip_nonlocal_bind", "1")).unwrap();
    Some(())
}

/// The node forwards, and answers every refused datagram, not a few per second.
fn forward() {
    let settings = [
        ("ipv4/ip_forward", "1"),
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv6/icmp/ratelimit", "0"),
    ];
    for (name, value) in settings {
        set(name, value);
    }
}

fn set(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
}

fn ip(namespace: &Namespace, lines: &[String]) -> Option<()> {
    for line in lines {
        let run = || Command::new("ip").args(line.split(' ')).output();
        match namespace.run(run).unwrap() {
            Ok(output) => {
                assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Err(error) => {
                eprintln!("skipped: the program `ip` is needed: {error}");
                return None;
            }
        }
    }
    Some(())
}
