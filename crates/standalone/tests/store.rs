//! Damage to the store, ranges that overlap the host, and the property that nothing ever has two holders.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::*;
use kernel::host::{Address, AddressFlags, Route, RouteKind, RouteTable, Scope};
use model::facts::Fact;
use model::net::parse_cidr;
use model::object::Read;
use model::time::Timestamp;
use model::{Event, ServiceName};
use serde_json::Value;
use standalone::control_plane::ControlPlane;
use standalone::ipam::{HostNetwork, refuse_overlap};
use standalone::objects::{Change, Kind};

#[test]
fn a_torn_tail_costs_only_the_torn_record_wherever_it_is_torn() {
    let folder = Folder::new();
    // Addresses that the store has to remember: a new search would find others.
    let (a, b) = ("10.96.0.42", "10.96.0.43");
    let mut cluster = folder.with(&[service("a", &format!("clusterIP: {a}"))]);
    let before = folder.log();
    cluster.apply(&[service("b", &format!("clusterIP: {b}"))]);
    drop(cluster);
    let whole = folder.log();
    let ends: BTreeSet<usize> =
        (0..=whole.len()).filter(|end| *end == 0 || whole[end - 1] == b'\n').collect();
    for end in before.len()..whole.len() {
        let torn = Folder::new();
        fs::create_dir(torn.path()).unwrap();
        fs::write(torn.path().join("allocations.log"), &whole[..end]).unwrap();
        let cluster = torn.with(&[service("a", "{}"), service("b", &format!("clusterIP: {b}"))]);
        assert_eq!(cluster.field("a", "/spec/clusterIP"), a, "torn at {end}");
        assert_eq!(cluster.field("b", "/spec/clusterIP"), b, "torn at {end}: nobody else has it");
        let aside = torn.path().join("allocations.log.damaged-1");
        if ends.contains(&end) {
            assert!(cluster.reports().is_empty() && !aside.exists(), "cut between records at {end}");
        } else {
            assert_reported(&cluster, &["allocations.log", "torn or corrupt", "allocations.log.damaged-1"]);
            assert_eq!(fs::read(aside).unwrap(), &whole[..end], "the damaged file is kept as it was");
        }
        drop(cluster);
        assert_eq!(torn.with(&[]).reports(), [""; 0], "it is damaged once, not for ever");
    }
}

#[test]
fn a_corrupt_byte_anywhere_is_found_and_the_other_records_are_kept() {
    let folder = Folder::new();
    let names = ["s0", "s1", "s2", "s3"];
    let wish = |n: usize| format!("clusterIP: 10.96.0.4{n}");
    drop(folder.with(&names.iter().enumerate().map(|(n, s)| service(s, &wish(n))).collect::<Vec<_>>()));
    let services: Vec<Change> = names.iter().map(|name| service(name, "{}")).collect();
    let whole = folder.log();
    let mut kept = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let damaged = Folder::new();
        fs::create_dir(damaged.path()).unwrap();
        fs::write(damaged.path().join("allocations.log"), &bytes).unwrap();
        let cluster = damaged.with(&services);
        assert_reported(&cluster, &["torn or corrupt"]);
        let hurt = lines_around(&whole, at);
        for (n, name) in names.iter().enumerate().filter(|(_, name)| !hurt.contains(&format!("/{name} "))) {
            assert_eq!(cluster.field(name, "/spec/clusterIP"), format!("10.96.0.4{n}"), "byte {at}");
            kept += 1;
        }
    }
    eprintln!("counted: {} corrupt bytes, {kept} addresses kept", whole.len());
}

/// The line of this byte; for a line end, the next one too, since the two become one.
fn lines_around(bytes: &[u8], at: usize) -> String {
    let start = bytes[..at].iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let end = bytes[at + 1..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| at + 1 + end);
    String::from_utf8_lossy(&bytes[start..end]).into_owned()
}

#[test]
fn a_dry_run_over_a_damaged_store_reports_and_leaves_it() {
    let folder = Folder::new();
    drop(folder.with(&[service("a", "{}")]));
    let mut bytes = folder.log();
    bytes.truncate(bytes.len() - 3);
    fs::write(folder.path().join("allocations.log"), &bytes).unwrap();
    assert_reported(&folder.open_dry(), &["torn or corrupt", "next real run"]);
    assert_eq!(folder.log(), bytes);
}

#[test]
fn a_torn_tail_that_another_process_left_is_found_while_we_run() {
    let folder = Folder::new();
    let mut cluster = folder.with(&[service("a", "clusterIP: 10.96.0.42")]);
    let mut bytes = folder.log();
    bytes.extend_from_slice(b"0badc0de hold default/");
    fs::write(folder.path().join("allocations.log"), &bytes).unwrap();
    cluster.apply(&[service("b", "clusterIP: 10.96.0.43")]);
    assert_reported(&cluster, &["torn or corrupt", "damaged-1"]);
    drop(cluster);
    let cluster = folder.with(&[service("a", "{}"), service("b", "{}")]);
    assert_eq!(
        (cluster.field("a", "/spec/clusterIP"), cluster.field("b", "/spec/clusterIP")),
        ("10.96.0.42".into(), "10.96.0.43".into())
    );
}

#[test]
fn a_store_of_another_format_is_refused_and_left_alone() {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    // The checksum is that of the words after it.
    let text = format!("{:08x} portway-allocations 2\n", crc32(b"portway-allocations 2"));
    fs::write(folder.path().join("allocations.log"), &text).unwrap();
    let error = folder.try_open().unwrap_err().to_string();
    assert!(error.contains("has format 2") && error.contains("--state-dir"), "{error}");
    assert_eq!(folder.log(), text.as_bytes());
}

#[test]
fn a_range_that_overlaps_the_host_is_refused_with_the_way_out() {
    let host = HostNetwork {
        addresses: [address("10.5.0.9", "eth0", 2), address("10.96.0.1", "kube-ipvs0", 7)].into(),
        routes: [
            route("0.0.0.0/0", RouteKind::Unicast, 2),
            route("0.0.0.0/1", RouteKind::Unicast, 3),
            route("10.5.0.0/24", RouteKind::Unicast, 2),
            route("172.17.0.0/16", RouteKind::Unicast, 4),
            route("10.99.0.1/32", RouteKind::Local, 2),
            route("10.98.0.0/16", RouteKind::Unicast, 7),
        ]
        .into(),
    };
    for (service, balancer, refused) in [
        ("10.96.0.0/12", "192.0.2.0/24", None),
        (
            "10.5.0.8/29",
            "192.0.2.0/24",
            Some("`--service-cidr 10.5.0.8/29` overlaps the address 10.5.0.9 on eth0"),
        ),
        ("10.5.0.128/25", "192.0.2.0/24", Some("the route 10.5.0.0/24")),
        ("10.0.0.0/8", "192.0.2.0/24", Some("the address 10.5.0.9")),
        ("172.17.4.0/24", "192.0.2.0/24", Some("the route 172.17.0.0/16")),
        // Load balancers live among the node's neighbours; its own address is given to none of them.
        ("10.96.0.0/12", "10.5.0.240/28", None),
        ("10.96.0.0/12", "10.5.0.0/28", None),
        (
            "10.96.0.0/12",
            "10.5.0.0/23",
            Some("`--load-balancer-cidr 10.5.0.0/23` overlaps the route 10.5.0.0/24"),
        ),
    ] {
        let folder = Folder::with_ranges(&[service], &[balancer]);
        let error = refuse_overlap(&folder.options(), &host).err().map(|error| error.to_string());
        match (refused, error) {
            (None, None) => {}
            (Some(words), Some(error)) => {
                assert!(
                    error.contains(words) && error.contains("such as `--"),
                    "{service} {balancer}: {error}"
                );
            }
            (expected, got) => panic!("{service} {balancer}: expected {expected:?}, got {got:?}"),
        }
    }
}

#[test]
fn no_message_advises_to_remove_an_address_of_this_host() {
    let folder = Folder::with_ranges(&["10.10.0.0/16"], &["192.0.2.0/24"]);
    let host =
        HostNetwork { addresses: [address("10.10.0.1", "flannel.1", 5)].into(), routes: BTreeSet::new() };
    let error = refuse_overlap(&folder.options(), &host).unwrap_err().to_string();
    assert!(
        error.contains("the address 10.10.0.1 on flannel.1") && error.contains("Choose a range"),
        "{error}"
    );
    assert!(!error.contains("delete") && !error.contains("take it away"), "{error}");
}

fn open_on(folder: &Folder, host: &HostNetwork) -> Cluster {
    Cluster(ControlPlane::open_on(host, folder.options(), Timestamp(NOON)).unwrap())
}

/// Who bound a virtual IP by hand (keepalived) could not start again.
#[test]
fn an_address_of_a_service_that_is_bound_to_this_host_by_hand_is_fine() {
    let folder = Folder::with_ranges(&["10.96.0.0/16"], &["192.168.77.192/28", "fd00:77::/124"]);
    let web = service("web", "type: LoadBalancer, ipFamilies: [IPv4, IPv6], ipFamilyPolicy: SingleStack");
    let cluster = folder.with(&[web.clone(), service("own", "type: LoadBalancer")]);
    let vip = cluster.field("own", "/status/loadBalancer/ingress/0/ip");
    let cluster_ip = cluster.field("own", "/spec/clusterIP");
    drop(cluster);
    // With a mask of its own, the kernel adds a route to the network of the virtual IP, too.
    let mut bound = address(&vip, "eth0", 2);
    bound.prefix_length = 28;
    let bound_cluster_ip = address(&cluster_ip, "eth0", 2);
    let net = format!("{}/24", cluster_ip.rsplit_once('.').unwrap().0.to_owned() + ".0");
    let host = HostNetwork {
        addresses: [address("192.168.77.10", "eth0", 2), bound, bound_cluster_ip].into(),
        routes: [
            route("192.168.77.0/24", RouteKind::Unicast, 2),
            route("192.168.77.192/28", RouteKind::Unicast, 2),
            route(&net, RouteKind::Unicast, 2),
        ]
        .into(),
    };
    let mut again = open_on(&folder, &host);
    again.apply(&[web, service("own", "type: LoadBalancer")]);
    assert_eq!(again.field("own", "/status/loadBalancer/ingress/0/ip"), vip);
    assert_eq!(again.field("own", "/spec/clusterIP"), cluster_ip);
    assert_eq!(again.reports(), [""; 0]);
}

#[test]
fn an_address_of_this_host_in_the_range_for_load_balancers_is_given_to_no_service_and_reported() {
    let folder =
        Folder::with_ranges(&["10.96.0.0/16", "fd00:96::/112"], &["192.168.77.8/29", "fd00:77::8/125"]);
    let host = HostNetwork {
        addresses: [address("192.168.77.10", "eth0", 2), address("fd00:77::a", "eth0", 2)].into(),
        routes: [
            route("192.168.77.0/24", RouteKind::Unicast, 2),
            route("fd00:77::/64", RouteKind::Unicast, 2),
        ]
        .into(),
    };
    let mut cluster = open_on(&folder, &host);
    let services: Vec<Change> = (0..9)
        .map(|n| service(&format!("s{n}"), "type: LoadBalancer, ipFamilyPolicy: RequireDualStack"))
        .collect();
    cluster.apply(&services);
    for n in 0..9 {
        let ingress = cluster.field(&format!("s{n}"), "/status/loadBalancer/ingress");
        assert!(!ingress.contains("192.168.77.10") && !ingress.contains("fd00:77::a\""), "s{n}: {ingress}");
    }
    assert_reported(
        &cluster,
        &["--load-balancer-cidr 192.168.77.8/29", "192.168.77.10", "is an address of this host"],
    );
    assert_reported(
        &cluster,
        &["--load-balancer-cidr fd00:77::8/125", "fd00:77::a", "is an address of this host"],
    );
    // Whoever names it, means it.
    cluster.apply(&[service("named", "type: LoadBalancer, loadBalancerIP: 192.168.77.10")]);
    assert_eq!(cluster.field("named", "/status/loadBalancer/ingress/0/ip"), "192.168.77.10");
    assert!(
        !cluster
            .reports()
            .iter()
            .any(|report| report.contains("`192.168.77.10`: is an address of this host"))
    );
}

/// The load balancer IPs of some Services.
fn balancer_ips(cluster: &Cluster, names: &[String]) -> Vec<String> {
    names.iter().map(|name| cluster.field(name, "/status/loadBalancer/ingress/0/ip")).collect()
}

/// Two machines with the same files and an empty store each: 4 of 12 load balancer IPs differed.
#[test]
fn the_same_services_get_the_same_load_balancer_ips_on_two_machines() {
    const SETS: usize = 10_000;
    let folder = Folder::with_ranges(&["10.96.0.0/16"], &["192.0.2.0/27"]);
    // Read once: a parser of YAML would take most of the time.
    let Change::Apply(template) = service("s", "type: LoadBalancer, allocateLoadBalancerNodePorts: false")
    else {
        panic!("it is applied")
    };
    let balancer_at = |name: &str, ip: Option<&String>| {
        let mut value = Value::clone(&template.value);
        value["metadata"]["name"] = name.into();
        if let Some(ip) = ip {
            value["spec"]["loadBalancerIP"] = ip.as_str().into();
        }
        apply(value)
    };
    let balancer = |name: &str| balancer_at(name, None);
    let mut dice = Dice(15);
    let (mut displaced, mut services, mut differing) = (0, 0, 0);
    for set in 0..SETS {
        let mut names: Vec<String> =
            (0..=dice.below(12)).map(|n| format!("s{n}-{}", dice.below(1 << 20))).collect();
        names.sort();
        let mut shuffled = names.clone();
        let mut shuffle = |shuffled: &mut Vec<String>| {
            for at in (1..shuffled.len()).rev() {
                shuffled.swap(at, dice.below(at + 1));
            }
        };
        // One that grows, in any order: what was given before never moves.
        shuffle(&mut shuffled);
        let mut grown = folder.open_dry();
        for known in 0..shuffled.len() {
            let before = balancer_ips(&grown, &shuffled[..known]);
            grown.apply(&[balancer(&shuffled[known])]);
            assert_eq!(balancer_ips(&grown, &shuffled[..known]), before, "set {set}: a Service moved");
        }
        // Two that are filled at once, in any order.
        let all = |names: &[String]| names.iter().map(|name| balancer(name)).collect::<Vec<_>>();
        let (mut one, mut other) = (folder.open_dry(), folder.open_dry());
        one.apply(&all(&names));
        shuffle(&mut shuffled);
        other.apply(&all(&shuffled));
        let at_once = balancer_ips(&one, &names);
        assert_eq!(balancer_ips(&other, &names), at_once, "set {set}: filled at once");
        // Where nobody was displaced, growing in any order gives the same, too.
        let apart: BTreeMap<String, String> = grown
            .0
            .displaced()
            .into_iter()
            .map(|(name, ip)| (name.name().to_owned(), ip.to_string()))
            .collect();
        let of_grown = balancer_ips(&grown, &names);
        if apart.is_empty() {
            assert_eq!(of_grown, at_once, "set {set}: no two prefer the same address");
        }
        // And where the addresses of the displaced are written down, every order gives the same.
        let pinned = |name: &String| balancer_at(name, apart.get(name));
        shuffle(&mut shuffled);
        let mut second = folder.open_dry();
        for name in &shuffled {
            second.apply(&[pinned(name)]);
        }
        assert_eq!(balancer_ips(&second, &names), of_grown, "set {set}: with what is told written down");
        (displaced, services) = (displaced + apart.len(), services + names.len());
        differing += of_grown.iter().zip(&at_once).filter(|(a, b)| a != b).count();
    }
    eprintln!(
        "counted: {SETS} sets of {services} Services; {displaced} displaced, {differing} differ between grown and filled at once"
    );
}

/// Manifests that say when a Service was created carry the order in which the first machine saw them.
#[test]
fn services_with_a_creation_time_get_the_addresses_of_the_machine_that_saw_them_come() {
    let folder = Folder::with_ranges(&["10.96.0.0/16"], &["192.0.2.0/28"]);
    let mut dice = Dice(8);
    for set in 0..200 {
        let names: Vec<String> = (0..12).map(|n| format!("s{}-{n}", dice.below(1 << 20))).collect();
        let created = |n: usize| {
            let metadata = format!("creationTimestamp: \"2026-01-01T00:00:{n:02}Z\"");
            service_with(&names[n], "type: LoadBalancer", &metadata)
        };
        let mut grown = folder.open_dry();
        for n in 0..names.len() {
            grown.apply(&[created(n)]);
        }
        let mut at_once = folder.open_dry();
        at_once.apply(&(0..names.len()).rev().map(created).collect::<Vec<_>>());
        assert_eq!(balancer_ips(&at_once, &names), balancer_ips(&grown, &names), "set {set}");
    }
}

#[test]
fn a_suggested_range_is_free() {
    let usual = [
        "10.96.0.0/12",
        "10.200.0.0/16",
        "172.30.0.0/16",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "198.18.0.0/15",
    ];
    let some = usual.iter().take(3);
    let hosts = [
        HostNetwork { addresses: [address("192.0.2.9", "eth0", 2)].into(), routes: BTreeSet::new() },
        HostNetwork {
            addresses: [address("192.0.2.9", "eth0", 2)].into(),
            routes: some.map(|net| route(net, RouteKind::Unicast, 2)).collect(),
        },
        HostNetwork {
            addresses: [address("192.0.2.9", "eth0", 2), address("10.250.240.1", "eth1", 3)].into(),
            routes: usual.iter().map(|net| route(net, RouteKind::Unicast, 2)).collect(),
        },
    ];
    for host in &hosts {
        for (service, balancer) in [("192.0.0.0/8", "10.111.0.0/24"), ("10.64.0.0/16", "192.0.2.0/24")] {
            let folder = Folder::with_ranges(&[service], &[balancer]);
            let Err(error) = refuse_overlap(&folder.options(), host).map_err(|error| error.to_string())
            else {
                assert_eq!(balancer, "192.0.2.0/24", "an address of this host is no reason to refuse it");
                continue;
            };
            let (_, way_out) = error.split_once("such as `--").unwrap();
            let (flag, range) = way_out.trim_end_matches('`').split_once(' ').unwrap();
            let (service, balancer) =
                if flag == "service-cidr" { (range, balancer) } else { (service, range) };
            let mended = Folder::with_ranges(&[service], &[balancer]);
            assert!(refuse_overlap(&mended.options(), host).is_ok(), "{error}");
            mended.try_open().unwrap_or_else(|still| panic!("{error}: {still}"));
        }
    }
    let everything = HostNetwork {
        addresses: [address("fd00::9", "eth0", 2)].into(),
        routes: [route("fd00::/8", RouteKind::Unicast, 2)].into(),
    };
    let folder = Folder::with_ranges(&["fd00::/112"], &[]);
    let error = refuse_overlap(&folder.options(), &everything).unwrap_err().to_string();
    assert!(error.ends_with("Choose a range that this host does not use"), "{error}");
}

/// Two processes' worth of manifests, changed and reopened at random on one small range.
#[test]
fn nothing_ever_has_two_holders() {
    const ROUNDS: u64 = 60;
    const STEPS: u64 = 30;
    let mut answers = 0;
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed * 7919 + 1);
        let folder = Folder::with_ranges(&["10.96.0.0/28", "fd00:96::/124"], &["192.0.2.0/29"]);
        let mut sides = [Side::new(&folder, 0), Side::new(&folder, 1)];
        for step in 0..STEPS {
            let side = &mut sides[dice.below(2)];
            match dice.below(10) {
                0 => side.reopen(&folder),
                1..=3 => side.delete(&mut dice),
                _ => side.change(&mut dice),
            }
            answers += check_holders(&sides, seed, step);
        }
        for side in &sides {
            side.check_events();
        }
    }
    eprintln!("counted: {answers} holders in {} states of {ROUNDS} stores", ROUNDS * STEPS);
}

/// One process: its manifests, and what its events add up to.
struct Side {
    number: usize,
    manifests: BTreeMap<String, Change>,
    cluster: Cluster,
    facts: BTreeMap<String, Fact>,
}

impl Side {
    fn new(folder: &Folder, number: usize) -> Self {
        let cluster = folder.open_at(NOON);
        let mut side = Self { number, manifests: BTreeMap::new(), cluster, facts: BTreeMap::new() };
        side.apply(&[]);
        side
    }

    fn reopen(&mut self, folder: &Folder) {
        let manifests = std::mem::take(&mut self.manifests);
        *self =
            Self { manifests, cluster: folder.open_at(NOON), facts: BTreeMap::new(), number: self.number };
        let all: Vec<Change> = self.manifests.values().cloned().collect();
        self.apply(&all);
    }

    fn change(&mut self, dice: &mut Dice) {
        // Each process has names of its own, since one Service in two versions is nobody's wish.
        let name = format!("s{}-{}", self.number, dice.below(6));
        let change = service(&name, &random_spec(dice));
        self.manifests.insert(name, change.clone());
        self.apply(&[change]);
    }

    fn delete(&mut self, dice: &mut Dice) {
        let count = self.manifests.len();
        let Some(name) = self.manifests.keys().nth(dice.below(count.max(1))).cloned() else { return };
        self.manifests.remove(&name);
        self.apply(&[gone(&name)]);
    }

    fn apply(&mut self, changes: &[Change]) {
        for event in self.cluster.apply(changes) {
            match event {
                Event::Apply(Fact::Service(service)) => {
                    self.facts.insert(service.name.to_string(), Fact::Service(service));
                }
                Event::DeleteService(name) => {
                    drop(self.facts.remove(&name.to_string()).expect("it was told before"));
                }
                _ => {}
            }
        }
    }

    /// What was told, added up, is what the objects say.
    fn check_events(&self) {
        let services = self.cluster.0.objects().values().filter(|object| object.key.kind == Kind::Service);
        let facts = services.filter_map(|object| match model::object::read(&object.value) {
            Read::Fact(fact) => {
                Some((ServiceName::new(&object.key.namespace, &object.key.name).to_string(), fact))
            }
            _ => None,
        });
        assert_eq!(facts.collect::<BTreeMap<_, _>>(), self.facts);
    }

    fn holdings(&self) -> Vec<(String, String)> {
        let mut holdings = Vec::new();
        for fact in self.facts.values() {
            let Fact::Service(service) = fact else { continue };
            let mut hold = |what: String| holdings.push((what, service.name.to_string()));
            service.cluster_ips.iter().filter_map(|(_, ip)| *ip).for_each(|ip| hold(ip.to_string()));
            for port in &service.ports {
                port.node_port.into_iter().for_each(|number| hold(format!("{number}/{}", port.protocol)));
            }
            if let Some(external) = &service.external {
                external.load_balancer_ips.iter().for_each(|lb| hold(lb.ip.to_string()));
                external.health_check_node_port.into_iter().for_each(|number| hold(format!("{number}/tcp")));
            }
        }
        holdings
    }
}

fn check_holders(sides: &[Side], seed: u64, step: u64) -> usize {
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for (what, service) in sides.iter().flat_map(Side::holdings) {
        if let Some(other) = holders.insert(what.clone(), service.clone()) {
            panic!("seed {seed} step {step}: {what} is held by {service} and {other}");
        }
    }
    holders.len()
}

fn address(ip: &str, link_name: &str, link_index: u32) -> Address {
    let ip = ip.parse().unwrap();
    let (scope, link_name, flags) = (Scope::Global, link_name.to_owned(), AddressFlags::default());
    Address { ip, prefix_length: 24, scope, link_index, link_name, flags }
}

fn route(net: &str, kind: RouteKind, link: u32) -> Route {
    let net = parse_cidr(net).unwrap();
    Route {
        table: if kind == RouteKind::Local { RouteTable::Local } else { RouteTable::Main },
        kind,
        destination: net.addr(),
        prefix_length: net.prefix_len(),
        link_index: Some(link),
        gateway: None,
        preferred_source: None,
        metric: 0,
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
