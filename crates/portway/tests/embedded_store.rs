//! Damage to the store, ranges that overlap the host, and the property that nothing ever has two holders.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod embedded_common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use embedded_common::*;
use kernel::host::{Address, Route, RouteKind, RouteTable, Scope};
use model::facts::Fact;
use model::net::parse_cidr;
use model::object::Read;
use model::{Event, ServiceName};
use portway::embedded::{HostNetwork, refuse_overlap};
use portway::objects::{Change, Kind};

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
        // Load balancers live among the node's neighbours; its own address stays its own.
        ("10.96.0.0/12", "10.5.0.240/28", None),
        (
            "10.96.0.0/12",
            "10.5.0.0/28",
            Some("`--load-balancer-cidr 10.5.0.0/28` overlaps the address 10.5.0.9"),
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
fn an_address_that_a_guide_put_on_a_link_by_hand_is_refused_with_the_command_that_removes_it() {
    let folder = Folder::with_ranges(&["10.10.0.0/16"], &["192.0.2.0/24"]);
    let by_hand = address("10.10.0.1", "flannel.1", 5);
    let command = format!("`ip address delete 10.10.0.1/{} dev flannel.1`", by_hand.prefix_length);
    let host = HostNetwork { addresses: [by_hand].into(), routes: BTreeSet::new() };
    let error = refuse_overlap(&folder.options(), &host).unwrap_err().to_string();
    assert!(
        error.contains(&command) && error.contains("portway binds addresses of Services itself"),
        "{error}"
    );
    let routes = [route("10.10.0.0/24", RouteKind::Unicast, 5)].into();
    let error =
        refuse_overlap(&folder.options(), &HostNetwork { addresses: BTreeSet::new(), routes }).unwrap_err();
    assert!(!error.to_string().contains("ip address delete"), "{error}");
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
            let error = refuse_overlap(&folder.options(), host).unwrap_err().to_string();
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
    assert!(error.ends_with("choose a range that this host does not use"), "{error}");
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

fn random_spec(dice: &mut Dice) -> String {
    let kind = ["ClusterIP", "NodePort", "LoadBalancer"][dice.below(3)];
    let policy = ["SingleStack", "PreferDualStack", "RequireDualStack"][dice.below(3)];
    let traffic = ["Cluster", "Local"][dice.below(2)];
    let wish = match dice.below(4) {
        0 => format!(", clusterIP: 10.96.0.{}", dice.below(20)),
        1 => format!(", loadBalancerIP: 192.0.2.{}", dice.below(10)),
        _ => String::new(),
    };
    let node_port = match dice.below(3) {
        0 => format!(", nodePort: {}", 30000 + dice.below(4)),
        _ => String::new(),
    };
    let port = if kind == "ClusterIP" { String::new() } else { node_port };
    format!(
        "type: {kind}, ipFamilyPolicy: {policy}, externalTrafficPolicy: {traffic}{wish}, \
         ports: [{{name: a, port: 80{port}}}, {{name: b, port: 53, protocol: UDP}}]"
    )
}

fn address(ip: &str, link_name: &str, link_index: u32) -> Address {
    let ip = ip.parse().unwrap();
    Address { ip, prefix_length: 24, scope: Scope::Global, link_index, link_name: link_name.to_owned() }
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
