//! What the model costs: memory for a whole cluster, time for one change. `cargo xtask bench model` runs it.
//!
//! Heap is read as the growth of the process's anonymous memory: an upper bound of what was asked for, and what a node
//! really pays. Times are medians and 99th percentiles of single changes, from an object in memory to an updated table.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]
#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock and its arguments; the model does not"
)]

use std::fmt::Write as _;
use std::time::Instant;

use model::facts::{EndpointFact, EndpointSlice, Fact, Policy, PortSpec, Service, ServiceType, SlicePort};
use model::{ByFamily, Cluster, Config, Event, ForwardingTable, Protocol, ServiceName};

const SIZES: [u32; 3] = [1_000, 10_000, 45_000];
const ENDPOINTS: u32 = 4;
const CHANGES: u32 = 1_000;

struct Row {
    services: u32,
    heap_mib: f64,
    load_ms: f64,
    endpoint: Quantiles,
    service: Quantiles,
}

struct Quantiles {
    median_us: f64,
    p99_us: f64,
}

fn main() {
    if let Some(services) = argument("--size") {
        let row = measure(services.parse().expect("--size takes a number"));
        println!("{}", row.to_line());
        return;
    }
    let rows: Vec<Row> = SIZES.into_iter().map(measure_in_fresh_process).collect();
    println!(
        "model: n services x {ENDPOINTS} endpoints; goal at 45,000: heap <= 60 MiB, endpoint change <= 50 us median\n"
    );
    println!("services   heap MiB   load ms   endpoint change us   p99      service added+removed us   p99");
    for row in &rows {
        println!(
            "{:>8}   {:>8.1}   {:>7.0}   {:>18.1}   {:>6.1}   {:>24.1}   {:>6.1}",
            row.services,
            row.heap_mib,
            row.load_ms,
            row.endpoint.median_us,
            row.endpoint.p99_us,
            row.service.median_us,
            row.service.p99_us
        );
    }
    if let Some(file) = argument("--json") {
        std::fs::write(&file, json(&rows)).expect("the file given with --json can be written");
    }
}

fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name)?;
    arguments.next()
}

/// Memory that an earlier, smaller cluster has given back would be counted as free, so each size has its own process.
fn measure_in_fresh_process(services: u32) -> Row {
    let program = std::env::current_exe().expect("a program knows its path");
    let output = std::process::Command::new(program).args(["--size", &services.to_string()]).output();
    let output = output.expect("the bench can start itself");
    Row::from_line(&String::from_utf8_lossy(&output.stdout)).expect("the bench prints a row")
}

impl Row {
    fn to_line(&self) -> String {
        let (endpoint, service) = (&self.endpoint, &self.service);
        let times = [self.load_ms, endpoint.median_us, endpoint.p99_us, service.median_us, service.p99_us];
        let times: Vec<String> = times.iter().map(f64::to_string).collect();
        format!("{} {} {}", self.services, self.heap_mib, times.join(" "))
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let services = words.next()?.parse().ok()?;
        let numbers: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        let &[heap_mib, load_ms, endpoint, endpoint_p99, service, service_p99] = numbers.as_slice() else {
            return None;
        };
        Some(Self {
            services,
            heap_mib,
            load_ms,
            endpoint: Quantiles { median_us: endpoint, p99_us: endpoint_p99 },
            service: Quantiles { median_us: service, p99_us: service_p99 },
        })
    }
}

fn json(rows: &[Row]) -> String {
    let mut text = String::from("[\n");
    for (i, row) in rows.iter().enumerate() {
        let _ = writeln!(
            text,
            "  {{\"services\": {}, \"heap_mib\": {:.1}, \"load_ms\": {:.1}, \"endpoint_change_us\": {:.2}, \
             \"endpoint_change_p99_us\": {:.2}, \"service_change_us\": {:.2}, \"service_change_p99_us\": {:.2}}}{}",
            row.services,
            row.heap_mib,
            row.load_ms,
            row.endpoint.median_us,
            row.endpoint.p99_us,
            row.service.median_us,
            row.service.p99_us,
            if i + 1 < rows.len() { "," } else { "" }
        );
    }
    text.push_str("]\n");
    text
}

fn measure(services: u32) -> Row {
    let before = anonymous_kib();
    let mut cluster = Cluster::new(Config { node_name: "node-17".into(), ..Config::default() });
    let mut table = ForwardingTable::of(&cluster);
    let start = Instant::now();
    for n in 0..services {
        apply(&mut cluster, &mut table, Event::Apply(Fact::Service(service(n))));
        apply(&mut cluster, &mut table, Event::Apply(Fact::EndpointSlice(slice(n, 0))));
    }
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let heap_mib = (anonymous_kib() - before) / 1024.0;
    let endpoint = quantiles((0..CHANGES).map(|i| {
        let event = Event::Apply(Fact::EndpointSlice(slice(scattered(i, services), 1 + i)));
        timed(|| apply(&mut cluster, &mut table, event))
    }));
    let service = quantiles((0..CHANGES).map(|i| {
        let (service, slice) = (service(services + i), slice(services + i, 0));
        let (name, slice_name) = (service.name.clone(), slice.name.clone());
        timed(|| {
            apply(&mut cluster, &mut table, Event::Apply(Fact::Service(service)));
            apply(&mut cluster, &mut table, Event::Apply(Fact::EndpointSlice(slice)));
            apply(&mut cluster, &mut table, Event::DeleteSlice(slice_name));
            apply(&mut cluster, &mut table, Event::DeleteService(name));
        })
    }));
    Row { services, heap_mib, load_ms, endpoint, service }
}

fn apply(cluster: &mut Cluster, table: &mut ForwardingTable, event: Event) {
    let changed = cluster.apply(event);
    let delta = table.update(cluster, &changed);
    std::hint::black_box(delta);
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

fn quantiles(times: impl Iterator<Item = f64>) -> Quantiles {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    Quantiles { median_us: times[times.len() / 2], p99_us: times[times.len() * 99 / 100] }
}

/// Some service or other, never the same pattern of neighbours.
fn scattered(i: u32, services: u32) -> u32 {
    i.wrapping_mul(2_654_435_761) % services
}

fn anonymous_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel tells RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

fn service(n: u32) -> Service {
    let [_, b, c, d] = n.to_be_bytes();
    Service {
        name: ServiceName::new(&format!("team-{}", n % 200), &format!("orders-backend-{n}")),
        created: None,
        kind: ServiceType::ClusterIp,
        cluster_ips: ByFamily { v4: Some([10, 0x60 | b, c, d].into()), v6: None },
        ports: [PortSpec { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }].into(),
        internal_policy: Policy::Cluster,
        external_policy: Policy::Cluster,
        affinity_seconds: None,
        external: None,
        reports: Box::default(),
    }
}

/// The slice of a service in which one endpoint depends on `generation`, so that each is another one.
fn slice(n: u32, generation: u32) -> EndpointSlice {
    let service = service(n).name;
    let endpoint = |i: u32| {
        let address =
            if i == 0 && generation > 0 { 0x0b00_0000 + generation } else { 0x0a80_0000 + n * ENDPOINTS + i };
        EndpointFact {
            address: std::net::Ipv4Addr::from(address).into(),
            node: Some(format!("node-{}", (n + i) % 500).into()),
            pod: Some(format!("orders-backend-{n}-7d4b9c6f5-x{i}k2p").into()),
            ready: true,
            serving: true,
            terminating: false,
            hints: None,
            weight: None,
        }
    };
    EndpointSlice {
        name: ServiceName::new(service.namespace(), &format!("{}-x7k2p", service.name())),
        service: Some(service),
        follows_pods: true,
        ports: vec![SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: (0..ENDPOINTS).map(endpoint).collect(),
        reports: Vec::new(),
    }
}
