//! What is true of the iptables mode alone, and of what upstream leaves in the tables of the iptables programs. What every mode must do is in `conformance`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod counted;
mod foreign;
mod later;
mod minimal;
mod recent;
mod render;
mod settings;
mod switch;
#[path = "../tool/mod.rs"]
mod tool;
mod upstream;
#[path = "../world/mod.rs"]
mod world;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::iptables::sim::Iptables;
use dataplane::iptables::{self, Options};
use dataplane::registry::known_chains;
use dataplane::sim::cluster::{Small, everything, table_of};
use dataplane::{Dataplane, Scope};
use kernel::nft;
use kernel::xtables::{Error, Family, Programs, Saved, State, Table, Variant, Xtables};
use kernel_sim::nft::{Fate, Outcome, Path, SimPacket};
use kernel_sim::xtables::Simulated;
use playground::namespace::Namespace;
use world::World;

const NODE: &str = "192.168.0.1";
const NODE_PORT: u16 = 30080;

/// The mode on simulated programs.
fn mode(variant: Variant, options: Options) -> Iptables<Simulated> {
    Iptables::new(Family::ALL.map(|family| Simulated::new(variant, family)), options)
}

/// A packet on a host of both families that also has loopback addresses.
fn tcp(path: Path, source: &str, destination: &str, port: u16) -> SimPacket {
    let (source, destination): (IpAddr, IpAddr) = (source.parse().unwrap(), destination.parse().unwrap());
    SimPacket {
        family: if source.is_ipv4() { nft::Family::V4 } else { nft::Family::V6 },
        path,
        source,
        destination,
        protocol: kernel::IpProtocol::TCP,
        port: Some(port),
        mark: 0,
        priority: 0,
        local: [NODE, "fd00:1::1", "127.0.0.1"].map(|ip| ip.parse().unwrap()).into(),
    }
}

fn arriving(source: &str, destination: &str, port: u16) -> SimPacket {
    tcp(Path::Arrives("eth0".into()), source, destination, port)
}

fn send(tables: &mut Simulated, packet: &SimPacket, state: State) -> Outcome {
    tables.send_as(packet, &BTreeSet::from([state]), Duration::ZERO, &mut |_| true)
}

/// Runs a test with the door to one program, where it can be.
fn with_door(test: &str, variant: Variant, work: impl FnOnce(Programs) + Send) {
    let Some(namespace) = Namespace::create_or_skip() else { return };
    let Some(door) = Programs::find().door(variant, Family::V4).cloned() else {
        return eprintln!("skipped: {test} needs {variant}, of the package iptables");
    };
    namespace.run(|| work(door)).unwrap();
}
