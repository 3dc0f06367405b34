//! Loads a large cluster's worth of elements into a network namespace of its own, and reports the cost.
//!
//! `cargo run --release -p kernel --example load -- 45000` (services with four endpoints each; needs root)
#![allow(clippy::print_stdout, reason = "it is a report")]

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use kernel::IpProtocol;
use kernel::nft::{
    Chain, ChainKind, Comment, DnatTo, Element, Family, Field, Hook, HookPoint, Kernel, Netlink, Operation,
    Policy, PriorityFrom, Rule, Selector, Set, Statement, Transaction, Value, Verdict,
};

const FAMILY: Family = Family::V4;
const TABLE: &str = "kube-proxy";
const SLOTS: u32 = 4;
const CHANGES: u32 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let services = std::env::args().nth(1).map_or(Ok(45_000), |text| text.parse())?;
    enter_namespace()?;
    let mut kernel = Netlink::open()?;
    let transaction = measured("made the transaction", || cold(services));
    measured("kernel has it all", || kernel.run(&transaction))?;
    drop(transaction);
    println!("memory of this process at its peak: {} MiB", peak_memory_mib());
    let listed = measured("listed everything", || kernel.list(FAMILY, TABLE))?.ok_or("the table is gone")?;
    println!("elements listed: {}", listed.sets.values().map(|set| set.elements.len()).sum::<usize>());
    drop(listed);
    changes(&mut kernel, services)?;
    verify(&mut kernel, services)
}

/// The last replaced endpoint is there, and nothing else changed in number.
fn verify(kernel: &mut Netlink, services: u32) -> Result<(), Box<dyn std::error::Error>> {
    let listed = kernel.list(FAMILY, TABLE)?.ok_or("the table is gone")?;
    let count = |set: &str| u32::try_from(listed.sets[set].elements.len());
    assert_eq!((count("frontends")?, count("endpoints")?), (services, services * SLOTS));
    assert!(listed.sets["endpoints"].elements.contains(&slot(services - 1, 0, CHANGES)));
    println!("verified: the kernel holds the last change");
    Ok(())
}

fn measured<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    result
}

fn frontend(service: u32) -> [Value; 3] {
    let address = Ipv4Addr::from_bits(0x0a60_0000 + service);
    [Value::Ipv4(address), Value::Protocol(IpProtocol::TCP), Value::Port(80)]
}

fn class(service: u32, slots: u32) -> Element {
    let comment = Comment::new(&format!("namespace-{}/service-{service}", service % 100));
    Element::new(&frontend(service)).values(&[Value::Priority(0x7057_0000 + slots)]).comment(&comment)
}

fn slot(service: u32, slot: u32, endpoint: u32) -> Element {
    let [address, protocol, port] = frontend(service);
    let endpoint = Ipv4Addr::from_bits(0x0a80_0000 + endpoint);
    Element::new(&[address, protocol, port, Value::Slot(slot)])
        .values(&[Value::Ipv4(endpoint), Value::Port(8080)])
}

fn cold(services: u32) -> Transaction {
    let mut transaction = Transaction::new(FAMILY, TABLE);
    transaction.replace_table(Some("portway layout 1".into()));
    let key = [Field::Destination, Field::Protocol, Field::Port];
    let slots_key = [key[0], key[1], key[2], Field::Slot];
    transaction.push(Operation::AddSet(Set::map("frontends", &key, &[Field::Priority])));
    transaction.push(Operation::AddSet(Set::verdict_map("classes", &[Field::Priority])));
    transaction.push(Operation::AddSet(Set::map(
        "endpoints",
        &slots_key,
        &[Field::Destination, Field::Port],
    )));
    chains(&mut transaction);
    transaction
        .add_elements(&"frontends".into(), (0..services).map(|service| class(service, SLOTS)).collect());
    let slots =
        (0..services).flat_map(|service| (0..SLOTS).map(move |n| slot(service, n, service * SLOTS + n)));
    transaction.add_elements(&"endpoints".into(), slots.collect());
    transaction
}

fn chains(transaction: &mut Transaction) {
    let hook =
        Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority: -100, policy: Policy::Accept };
    transaction.push(Operation::AddChain(Chain::base("nat-prerouting", hook)));
    let key = vec![Selector::Destination, Selector::Protocol, Selector::Port];
    for modulus in [SLOTS - 1, SLOTS] {
        let name = format!("pick-{modulus}");
        transaction.push(Operation::AddChain(Chain::new(&name)));
        let key = [key.clone(), vec![Selector::Slot { modulus, offset: 0 }]].concat();
        let dnat = Statement::Dnat(DnatTo::Map { key, map: "endpoints".into() });
        transaction.push(Operation::AddRule(Rule::new(&name, [dnat])));
        let class = Element::new(&[Value::Priority(0x7057_0000 + modulus)]);
        transaction.add_elements(&"classes".into(), vec![class.verdict(Verdict::Goto(name.into()))]);
    }
    let classify = Statement::SetPriority(PriorityFrom::Map { key, map: "frontends".into() });
    transaction.push(Operation::AddRule(Rule::new("nat-prerouting", [classify])));
    let decide = Statement::VerdictMap { key: vec![Selector::Priority], map: "classes".into() };
    transaction.push(Operation::AddRule(Rule::new("nat-prerouting", [decide])));
}

fn changes(kernel: &mut Netlink, services: u32) -> Result<(), Box<dyn std::error::Error>> {
    let last = services - 1;
    report("one endpoint replaced", kernel, |round| {
        let mut transaction = Transaction::new(FAMILY, TABLE);
        let before = if round == 0 { last * SLOTS } else { round };
        transaction.delete_elements(&"endpoints".into(), vec![slot(last, 0, before)]);
        transaction.add_elements(&"endpoints".into(), vec![slot(last, 0, round + 1)]);
        transaction
    })?;
    report("endpoint count changed", kernel, |round| {
        let mut transaction = Transaction::new(FAMILY, TABLE);
        let slots = SLOTS - round % 2;
        transaction.delete_elements(&"frontends".into(), vec![class(last, slots)]);
        transaction.add_elements(&"frontends".into(), vec![class(last, SLOTS - (round + 1) % 2)]);
        transaction
    })?;
    report("service added", kernel, |round| {
        let mut transaction = Transaction::new(FAMILY, TABLE);
        transaction.add_elements(&"frontends".into(), vec![class(services + round, SLOTS)]);
        let slots = (0..SLOTS).map(|number| slot(services + round, number, number)).collect();
        transaction.add_elements(&"endpoints".into(), slots);
        transaction
    })?;
    report("service removed", kernel, |round| {
        let mut transaction = Transaction::new(FAMILY, TABLE);
        transaction.delete_elements(&"frontends".into(), vec![class(services + round, SLOTS)]);
        let slots = (0..SLOTS).map(|number| slot(services + round, number, number)).collect();
        transaction.delete_elements(&"endpoints".into(), slots);
        transaction
    })
}

fn report(
    what: &str,
    kernel: &mut Netlink,
    change: impl Fn(u32) -> Transaction,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::new();
    for round in 0..CHANGES {
        let start = Instant::now();
        kernel.run(&change(round))?;
        times.push(start.elapsed());
    }
    times.sort();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{what}: p50 {:.0} us, p99 {:.0} us", micros(half), micros(most));
    Ok(())
}

/// The most memory that this process has had.
fn peak_memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).map_or(0, |kib: u64| kib / 1024)
}

#[expect(unsafe_code, reason = "unshare(2) is a system call")]
fn enter_namespace() -> std::io::Result<()> {
    // SAFETY: unshare(2) takes a number; with CLONE_NEWNET it changes nothing but this thread's namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
