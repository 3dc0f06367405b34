//! The one place that knows the API of `control_plane` and `ipam`: a folder with a store, a cluster opened on it, and objects in short.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use model::Event;
use model::net::{IpNet, parse_cidr};
use model::time::Timestamp;
use serde_json::Value;
use standalone::control_plane::ControlPlane;
use standalone::ipam::{HostNetwork, Options, StoreError};
use standalone::objects::{Change, Kind, Object, ObjectKey};

/// 2026-01-31T12:00:00Z.
pub const NOON: i64 = 1_769_860_800;

/// A folder that is removed when the test ends, and the ranges in force.
pub struct Folder {
    root: PathBuf,
    service_cidrs: Vec<IpNet>,
    load_balancer_cidrs: Vec<IpNet>,
}

impl Folder {
    pub fn new() -> Self {
        Self::with_service_cidr("10.96.0.0/16")
    }

    pub fn dual_stack() -> Self {
        Self::with_ranges(&["10.96.0.0/16", "fd00:96::/112"], &[])
    }

    pub fn with_load_balancer() -> Self {
        Self::with_ranges(&["10.96.0.0/16"], &["192.0.2.0/24"])
    }

    pub fn with_service_cidr(range: &str) -> Self {
        Self::with_ranges(&[range], &[])
    }

    pub fn with_ranges(service: &[&str], balancer: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("portway-embedded-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let nets = |texts: &[&str]| texts.iter().map(|text| parse_cidr(text).unwrap()).collect();
        Self { root, service_cidrs: nets(service), load_balancer_cidrs: nets(balancer) }
    }

    /// The next cluster has this range.
    pub fn set_service_cidr(&mut self, range: &str) {
        self.service_cidrs = vec![parse_cidr(range).unwrap()];
    }

    /// The folder of the store; it does not exist yet.
    pub fn path(&self) -> PathBuf {
        self.root.join("state")
    }

    pub fn log(&self) -> Vec<u8> {
        std::fs::read(self.path().join("allocations.log")).unwrap()
    }

    pub fn options(&self) -> Options {
        options(&self.path(), &self.service_cidrs, &self.load_balancer_cidrs)
    }

    pub fn try_open(&self) -> Result<Cluster, StoreError> {
        ControlPlane::open_on(&HostNetwork::default(), self.options(), Timestamp(NOON)).map(Cluster)
    }

    pub fn open_at(&self, now: i64) -> Cluster {
        Cluster(ControlPlane::open_on(&HostNetwork::default(), self.options(), Timestamp(now)).unwrap())
    }

    pub fn open_dry(&self) -> Cluster {
        let options = Options { dry_run: true, ..self.options() };
        Cluster(ControlPlane::open_on(&HostNetwork::default(), options, Timestamp(NOON)).unwrap())
    }

    /// A cluster with these objects.
    pub fn with(&self, changes: &[Change]) -> Cluster {
        let mut cluster = self.open_at(NOON);
        cluster.apply(changes);
        cluster
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

pub fn options(state_dir: &Path, service_cidrs: &[IpNet], load_balancer_cidrs: &[IpNet]) -> Options {
    Options {
        service_cidrs: service_cidrs.to_vec(),
        load_balancer_cidrs: load_balancer_cidrs.to_vec(),
        node_port_range: 30000..=32767,
        state_dir: state_dir.to_owned(),
        dry_run: false,
    }
}

/// What is under test.
#[derive(Debug)]
pub struct Cluster(pub ControlPlane);

impl Cluster {
    pub fn apply(&mut self, changes: &[Change]) -> Vec<Event> {
        self.0.apply(changes).unwrap()
    }

    pub fn try_apply(&mut self, changes: &[Change]) -> Result<Vec<Event>, StoreError> {
        self.0.apply(changes)
    }

    pub fn set_now(&mut self, now: i64) {
        self.0.set_now(Timestamp(now));
    }

    pub fn object(&self, kind: &str, name: &str) -> &Value {
        let found = self.0.objects().values().find(|o| o.key.kind.name() == kind && *o.key.name == *name);
        found.map_or(&Value::Null, |object| &object.value)
    }

    /// A field of a Service, by its JSON pointer; empty when it is absent.
    pub fn field(&self, service: &str, pointer: &str) -> String {
        match self.object("Service", service).pointer(pointer) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub fn reports(&self) -> Vec<String> {
        self.0.reports().map(ToString::to_string).collect()
    }

    /// The slices that were made, as `name family ports -> endpoints`.
    pub fn slices(&self) -> Vec<&Value> {
        let slices = self.0.objects().values().filter(|o| o.key.kind == Kind::EndpointSlice);
        slices.filter(|o| o.origin.is_none()).map(|o| &*o.value).collect()
    }
}

/// Some report holds all of these words.
#[track_caller]
pub fn assert_reported(cluster: &Cluster, words: &[&str]) {
    let reports = cluster.reports();
    let holds_all = |report: &String| words.iter().all(|word| report.contains(word));
    assert!(reports.iter().any(holds_all), "no report has {words:?} in {reports:#?}");
}

/// A Service of the namespace `default`; `spec` is YAML without its outer braces.
pub fn service(name: &str, spec: &str) -> Change {
    service_with(name, spec, "{}")
}

pub fn service_with(name: &str, spec: &str, metadata: &str) -> Change {
    // A Service without a port is reported; the stories are about other things.
    let spec = match spec {
        "{}" => "ports: [{port: 80}]".to_owned(),
        spec if spec.contains("ports:") || spec.starts_with('{') => spec.to_owned(),
        spec => format!("{spec}, ports: [{{port: 80}}]"),
    };
    object("Service", name, metadata, &format!("spec: {}", braced(&spec)))
}

pub fn service_cidr(name: &str, range: &str) -> Change {
    object("ServiceCIDR", name, "{}", &format!("spec: {{cidrs: [\"{range}\"]}}"))
}

/// An object; `rest` is YAML.
pub fn object(kind: &str, name: &str, metadata: &str, rest: &str) -> Change {
    let text = format!("kind: {kind}\nmetadata: {}\n{rest}\n", braced(metadata));
    let mut value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    value["metadata"]["name"] = name.into();
    apply(value)
}

pub fn apply(value: Value) -> Change {
    let kind = Kind::parse(value["kind"].as_str().unwrap()).unwrap();
    let key = ObjectKey::of(kind, &value).unwrap();
    let origin = standalone::objects::Origin { file: Arc::from(Path::new("test.yaml")), line: 1 };
    Change::Apply(Object { key, origin: Some(origin), value: Arc::new(value) })
}

pub fn gone(service: &str) -> Change {
    gone_of("Service", service)
}

pub fn gone_of(kind: &str, name: &str) -> Change {
    let kind = Kind::parse(kind).unwrap();
    let namespace = if kind.is_namespaced() { "default" } else { "" };
    Change::Delete(ObjectKey { kind, namespace: namespace.into(), name: name.into() })
}

fn braced(yaml: &str) -> String {
    if yaml.starts_with('{') { yaml.to_owned() } else { format!("{{{yaml}}}") }
}

/// A small generator (SplitMix64): the same numbers on every machine.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % limit as u64).unwrap()
    }
}

/// What a Service may ask for, on ranges in which wishes collide.
pub fn random_spec(dice: &mut Dice) -> String {
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
