//! A connection tracker with many flows of others and some stale ones.
//!
//! Every second flow of the others is TCP, the rest UDP, all to virtual addresses that are not stale.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use kernel::IpProtocol;
use kernel::conntrack::{Conntrack as _, Entry, Family, Filter, Netlink, Tuple, Zone};
use serde::{Deserialize, Serialize};

pub(crate) const STALE: u32 = 100;
const TCP: IpProtocol = IpProtocol::TCP;
const UDP: IpProtocol = IpProtocol::UDP;
/// Flows outlive the benchmark; then the namespace takes them along.
const TIMEOUT_SECONDS: u32 = 3_600;
/// Room for what is stale, and for whoever else counts.
const SPARE: u32 = 1_000;

/// The table that was measured on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Tracker {
    /// Flows of others.
    pub(crate) foreign: u32,
    /// How many flows a namespace may hold.
    pub(crate) limit: u32,
    /// Buckets of the hash table, which all namespaces share.
    pub(crate) buckets: u32,
}

/// Fills the table of this thread's namespace. The limit is the machine's and cannot be raised inside: where it is lower,
/// so are the flows.
pub(crate) fn fill(foreign: u32) -> Result<Tracker> {
    let (limit, buckets) = (setting("nf_conntrack_max")?, setting("nf_conntrack_buckets")?);
    let foreign = foreign.min(limit.saturating_sub(SPARE));
    let flows: Vec<Entry> = (0..foreign).map(foreign_flow).collect();
    Netlink::open()?.create(&flows, TIMEOUT_SECONDS).context("cannot make the flows of others")?;
    Ok(Tracker { foreign, limit, buckets })
}

/// A stale destination; one of others' flows never has it.
pub(crate) fn destination(n: u32) -> (IpAddr, u16) {
    (Ipv4Addr::from(0x0a60_0000 + n).into(), 53)
}

/// Makes the stale flows, evenly over so many destinations.
pub(crate) fn make_stale(conntrack: &mut Netlink, destinations: u32) -> Result<()> {
    let gone = (Ipv4Addr::new(10, 244, 9, 9).into(), 53);
    let of = |n| flow(UDP, client(n), destination(n % destinations), gone);
    let flows: Vec<Entry> = (0..STALE).map(of).collect();
    conntrack.create(&flows, TIMEOUT_SECONDS).context("cannot make the stale flows")
}

/// The flows of others must be there, all of them, and nothing else.
pub(crate) fn check(conntrack: &mut Netlink, tracker: Tracker) -> Result<()> {
    let mut count = 0;
    for protocol in [TCP, UDP] {
        conntrack.visit(&Filter::Protocol(Family::V4, protocol), &mut |_| count += 1)?;
    }
    ensure!(count == tracker.foreign, "{count} flows are left, not the {} of others", tracker.foreign);
    Ok(())
}

fn foreign_flow(n: u32) -> Entry {
    let protocol = if n.is_multiple_of(2) { TCP } else { UDP };
    let to = Ipv4Addr::from(0x0a70_0000 + n % 5_000);
    let endpoint = Ipv4Addr::from(0x0af4_0000 + n % 20_000);
    flow(protocol, client(n), (to.into(), 53), (endpoint.into(), 5353))
}

fn client(n: u32) -> (IpAddr, u16) {
    let port = u16::try_from(1_024 + n % 50_000).unwrap_or(u16::MAX);
    (Ipv4Addr::from(0x0a01_0000 + n / 50_000).into(), port)
}

fn flow(protocol: IpProtocol, from: (IpAddr, u16), to: (IpAddr, u16), answers: (IpAddr, u16)) -> Entry {
    let original = Tuple { source: from, destination: to };
    let reply = Tuple { source: answers, destination: from };
    Entry { protocol, original, reply, zone: Zone::default(), id: None }
}

fn setting(name: &str) -> Result<u32> {
    let path = format!("/proc/sys/net/netfilter/{name}");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.trim().parse().with_context(|| format!("{path} is no number"))
}
