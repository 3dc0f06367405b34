//! What is true of IPVS mode alone: whose virtual servers are whose, what real servers wait for, schedulers, and the pitfalls of upstream's.
//! What every mode must do is in `conformance`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod addresses;
mod drains;
mod leaving;
mod order;
mod owners;
mod real;
mod refused;
mod schedulers;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::ipvs::sim::bare::{Clock, Mode, again, ends, kernel, listing, packet_of, with};
use dataplane::ipvs::sim::{Parts, shown};
use dataplane::ipvs::{Bound, DUMMY, Doors as _, Options, Scheduler, SetId};
use dataplane::registry::known_chains;
use dataplane::sim::End;
use dataplane::sim::cluster::{
    at as node_at, changed, everything, id, of, table, table_of, tcp as packet, web, web_with,
};
use dataplane::{Dataplane, Leaving, Scope};
use kernel::IpProtocol as Number;
use kernel::host::ChangeHost as _;
use kernel::ipset::{Entry, Ipsets as _, Kind, Request as SetRequest, Set, SetName};
use kernel::ipvs::{Ipvs as _, RealServer, Request, VirtualServer, What};
use kernel::xtables::{Table, Xtables as _};
use model::{ForwardingTable, Protocol};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn tcp(text: &str) -> What {
    What::Address(at(text), Number::TCP)
}

/// A kernel whose host has an address.
fn host() -> Parts {
    let mut kernel = kernel();
    kernel.host.add("eth0", ip("192.168.0.1"), 24);
    kernel
}

/// The mode on this kernel.
fn on(kernel: &Parts) -> Mode {
    with(kernel, Options::default(), &Clock::default())
}

fn fresh() -> (Mode, Clock) {
    let clock = Clock::default();
    (with(&kernel(), Options::default(), &clock), clock)
}

/// The Service `a` with these endpoints, on port 80 of 10.96.0.1 and at a node port.
fn a(endpoints: &[&str]) -> ForwardingTable {
    of(&[web("a", "10.96.0.1", "TCP", endpoints)])
}

/// The Service `a` with a scheduler of its own.
fn scheduled(scheduler: &str) -> ForwardingTable {
    let keys = format!("portway.io/ipvs-scheduler={scheduler}");
    of(&[web_with("a", "10.96.0.1", "TCP", &["10.244.0.1"], &keys)])
}

/// With this many Services, each at its own address and node port.
fn many(count: u16, endpoints: &str, keys: &str) -> String {
    let service = |n: u16| {
        let (high, low) = (1 + n / 200, n % 200);
        format!("svc a{n} 10.96.{high}.{low} 80@{} {keys}\nep a{n} 8080 {endpoints}\n", 30_000 + n)
    };
    (0..count).map(service).collect()
}

/// A virtual server of another program, with one real server.
fn add_foreign(kernel: &mut Parts, what: What) {
    add_server(kernel, what, "lc", RealServer::masquerading(at("192.0.2.1:80"), 5));
}

fn add_server(kernel: &mut Parts, what: What, scheduler: &str, real: RealServer) {
    let added = [Request::Add(VirtualServer::new(what, scheduler)), Request::AddServer(what, real)];
    assert!(kernel.servers.run(&added).unwrap().is_empty());
}

fn add_set(kernel: &mut Parts, name: &str, kind: Kind, entry: Entry) {
    let name = SetName::new(name).unwrap();
    let create = [SetRequest::Create(Set::new(name.clone(), kind)), SetRequest::Add(name, entry)];
    assert!(kernel.sets.run(&create).unwrap().is_empty());
}

fn servers(mode: &mut Mode) -> Vec<VirtualServer> {
    mode.doors().servers().virtual_servers().unwrap()
}

/// The only virtual server by mark.
fn by_mark(mode: &mut Mode) -> What {
    servers(mode).iter().map(|one| one.what).find(|what| matches!(what, What::Mark(..))).unwrap()
}

fn links_of(mode: &mut Mode, address: &str) -> BTreeSet<String> {
    let all = mode.doors().host().addresses().unwrap().into_iter();
    all.filter(|one| one.ip == ip(address)).map(|one| one.link_name).collect()
}

fn is_bound(mode: &mut Mode, address: &str) -> bool {
    !links_of(mode, address).is_empty()
}

fn weights(mode: &mut Mode, what: &What) -> Vec<(SocketAddr, u32)> {
    let found = mode.doors().servers().real_servers(what).unwrap();
    found.iter().map(|one| (one.server.address, one.server.weight)).collect()
}

fn server(mode: &mut Mode, what: &What) -> Option<VirtualServer> {
    servers(mode).into_iter().find(|one| one.what == *what)
}

fn send(mode: &mut Mode, table: &ForwardingTable, source: &str, to: &str) -> Vec<End> {
    ends(mode, table, &packet(source, to, Some("eth0"))).unwrap().0.into_keys().collect()
}

#[test]
fn a_change_writes_as_little_in_a_large_cluster_as_in_a_small_one() {
    let mut written = Vec::new();
    for count in [10, 200] {
        let all = |endpoints: &str| {
            table_of(&format!("{}{}", many(count, "10.244.0.1 10.244.0.2", ""), many(1, endpoints, "")))
        };
        let (mut mode, _) = fresh();
        everything(&mut mode, &all("10.244.0.1"));
        assert!(servers(&mut mode).len() > usize::from(count));
        mode.doors().servers.take_requests();
        let restored: usize = mode.programs().map(|program| program.restored.len()).sum();
        let before = (mode.doors().servers.messages(), mode.doors().sets.messages());
        let synced = changed(&mut mode, &all("10.244.0.1 10.244.0.9"), &[id("a0", Protocol::Tcp)]);
        let after = (mode.doors().servers.messages(), mode.doors().sets.messages());
        written.push((synced.operations, after.0 - before.0, after.1 - before.1));
        let now: usize = mode.programs().map(|program| program.restored.len()).sum();
        assert_eq!(now, restored, "no rule changes");
    }
    assert_eq!(written[0], written[1]);
    assert!(written[0].0 <= 4, "{written:?}");
}

#[test]
fn health_checks_and_answers_pass_where_nothing_is_let_in_by_default() {
    let (mut mode, _) = fresh();
    let table = table_of(
        "svc a 10.96.0.1 80@30080 type=LoadBalancer external=Local health=32000
         ep a 8080 10.244.0.1",
    );
    everything(&mut mode, &table);
    let program = mode.programs().next().unwrap();
    program.restore("*filter\n-P INPUT DROP\n-P FORWARD DROP\nCOMMIT\n").unwrap();
    assert_eq!(send(&mut mode, &table, "203.0.113.9", "192.168.0.1:32000"), [End::Untouched]);
    assert_eq!(send(&mut mode, &table, "203.0.113.9", "192.168.0.1:32001"), [End::Dropped]);
    let answer = packet("10.244.0.1", "203.0.113.9:50000", Some("veth1"));
    let sent = dataplane::sim::sim_packet(&answer, table.node());
    let states = BTreeSet::from([kernel::xtables::State::Established]);
    let program = mode.programs().next().unwrap();
    let outcome = program.send_as(&sent, &states, Duration::ZERO, &mut |_| true);
    assert_eq!(outcome.fate, kernel_sim::nft::Fate::Untouched);
}

#[test]
fn a_kernel_without_ipvs_says_which_module_is_missing() {
    let (mut mode, _) = fresh();
    mode.doors().servers.set_fault(Some(kernel::ipvs::Error::Missing));
    let error = mode.sync(&of(&[]), Scope::Everything).unwrap_err();
    assert!(error.to_string().contains("`ip_vs`") && error.retry_helps(), "{error}");
}
