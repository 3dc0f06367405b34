//! Single changes of a loaded proxy, and what it weighs.
//!
//! Each change is timed from the event to the kernel's acknowledgement, both transactions apart: the one that puts the
//! change in force, and the later one that deletes what nothing leads to any more.

use std::net::IpAddr;

use anyhow::{Context, Result};
use model::Event;
use model::facts::Fact;
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::facts;
use crate::process::{memory_mib, thread_cpu_us};
use crate::proxy::{Proxy, Times};
use crate::samples::Quantiles;

/// How often each kind of change is measured.
pub(crate) const CHANGES: u32 = 200;
/// Changes that nobody counts, before each kind: they bring this code into the processor's caches.
const WARM_UP: u32 = 5;

/// What a loaded proxy weighs, and what its changes cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// Resident memory after the cold sync.
    pub(crate) rss_mib: f64,
    /// The most until then.
    pub(crate) rss_peak_mib: f64,
    /// Each kind of change.
    pub(crate) changes: Vec<Change>,
}

/// One kind of change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    /// Such as `endpoint replaced`.
    pub(crate) name: String,
    /// Event → acknowledgement.
    pub(crate) whole: Quantiles,
    /// Of it, event → table.
    pub(crate) model: Quantiles,
    /// The transaction that settles.
    pub(crate) settle: Quantiles,
    /// CPU time, settling included.
    pub(crate) cpu_us: f64,
}

/// Loads `services` and measures.
pub(crate) fn measure(services: u32) -> Result<Loaded> {
    let namespace = Namespace::create()?;
    // Facts are made one at a time, as a source would hand them over: they are no part of the proxy's weight.
    let (mut proxy, ..) = Proxy::start(&namespace, facts::cluster(services))?;
    let memory = |field| memory_mib("self", field).context("the kernel tells no memory figures");
    let (rss_mib, rss_peak_mib) = (memory("VmRSS")?, memory("VmHWM")?);
    let mut changes = Vec::new();
    for (name, events) in KINDS {
        changes.push(kind(&mut proxy, name, services, events)?);
    }
    proxy.verify(services * facts::ENDPOINTS)?;
    Ok(Loaded { rss_mib, rss_peak_mib, changes })
}

/// The events of the i-th change of a kind, in a cluster of so many services.
type Events = fn(i: u32, services: u32) -> Vec<Event>;

/// In an order in which each undoes the one before, or starts from what that one left.
const KINDS: [(&str, Events); 5] = [
    ("endpoint replaced", |i, services| {
        let n = scattered(i, services);
        let first = |addresses: &mut Vec<IpAddr>| addresses[0] = facts::later_pod(i);
        vec![with_endpoints(n, first)]
    }),
    ("endpoint added", |i, services| {
        let n = scattered(i, services);
        vec![with_endpoints(n, |addresses| {
            addresses[0] = facts::later_pod(i);
            addresses.push(facts::later_pod(CHANGES + WARM_UP + i));
        })]
    }),
    ("endpoint removed", |i, services| {
        let n = scattered(i, services);
        vec![with_endpoints(n, |addresses| addresses[0] = facts::later_pod(i))]
    }),
    ("service added", |i, services| {
        let n = services + i;
        let service = Event::Apply(Fact::Service(facts::service(n)));
        vec![service, with_endpoints(n, |_| ())]
    }),
    ("service removed", |i, services| {
        let n = services + i;
        let slice = facts::slice(n, &[]).name;
        vec![Event::DeleteSlice(slice), Event::DeleteService(facts::service(n).name)]
    }),
];

fn kind(proxy: &mut Proxy, name: &str, services: u32, events: Events) -> Result<Change> {
    for i in 0..WARM_UP {
        proxy.change(events(CHANGES + i, services))?;
    }
    let (mut times, mut cpu_us) = (Vec::new(), 0.0);
    for i in 0..CHANGES {
        let events = events(i, services);
        let before = thread_cpu_us()?;
        times.push(proxy.change(events)?);
        cpu_us += thread_cpu_us()? - before;
    }
    let of = |part: fn(&Times) -> std::time::Duration| Quantiles::of(times.iter().map(part));
    Ok(Change {
        name: name.into(),
        whole: of(|times| times.whole),
        model: of(|times| times.model),
        settle: of(|times| times.settle),
        cpu_us: cpu_us / f64::from(CHANGES),
    })
}

fn with_endpoints(n: u32, change: impl FnOnce(&mut Vec<IpAddr>)) -> Event {
    let mut addresses = facts::endpoints(n);
    change(&mut addresses);
    Event::Apply(Fact::EndpointSlice(facts::slice(n, &addresses)))
}

/// Some service or other, never the same pattern of neighbours, and no one twice.
fn scattered(i: u32, services: u32) -> u32 {
    // A prime that divides no size.
    i.wrapping_mul(7_919) % services
}
