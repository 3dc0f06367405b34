//! Every field of the document, as data: its name, its kind, and what it means here.
//!
//! Reading, `--write-config-to`, live reload and the parity page all walk this table, so a field that is missing here does not exist.

use std::sync::LazyLock;

use dataplane::{Mode, registry};
use serde_json::{Value, json};

use super::kind::Kind;
use super::of_modes::FIELDS_OF_MODES;

/// How a field or a flag compares with upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The same name, the same meaning.
    Same,
    /// The same name, and more than upstream offers.
    Better,
    /// It is read, and has no effect.
    NotOffered,
}

/// When a changed field of a file that is in use counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At once.
    Live,
    /// When the process starts the next time.
    Restart,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its place in the document: `iptables.syncPeriod`.
    pub path: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// When a change of it counts.
    pub change: Change,
    /// How it compares with upstream's.
    pub status: Status,
    /// What it does here, or why it does nothing.
    pub why: &'static str,
}

const fn same(path: &'static str, kind: Kind, why: &'static str) -> Field {
    Field { path, kind, change: Change::Restart, status: Status::Same, why }
}

const fn better(path: &'static str, kind: Kind, why: &'static str) -> Field {
    Field { status: Status::Better, ..same(path, kind, why) }
}

const fn not_offered(path: &'static str, kind: Kind, why: &'static str) -> Field {
    Field { status: Status::NotOffered, ..same(path, kind, why) }
}

const fn live(field: Field) -> Field {
    Field { change: Change::Live, ..field }
}

const NO_LIMIT: &str = "four watches make no requests that need a limit; failures wait ever longer";
const NO_WINDOWS: &str = "Windows only";
const MIN_SYNC: &str =
    "the default is 50ms, upstream's 1s: a change costs so little that waiting for others saves nothing";
const SYNC: &str = "how often everything is compared with the kernel; after a failure, the longest wait";

/// All of them, in the order of the documents: those of a mode's settings stand behind the pace of its section, and those of sections that
/// upstream does not have at the end.
pub static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut of_modes = FIELDS_OF_MODES.clone();
    let mut fields = Vec::new();
    for field in UPSTREAM {
        fields.push(*field);
        if let Some(section) = field.path.strip_suffix(".minSyncPeriod") {
            fields.extend(of_modes.extract_if(.., |field| field.path.starts_with(&format!("{section}."))));
        }
    }
    fields.extend(of_modes);
    fields
});

/// Those of upstream's document that are settings of no mode of ours alone.
const UPSTREAM: &[Field] = &[
    same("apiVersion", Kind::Text, "kubeproxy.config.k8s.io/v1alpha1"),
    same("kind", Kind::Text, "KubeProxyConfiguration"),
    same("featureGates", Kind::Gates, "known by name; docs/config.md says what each does here"),
    same("clientConnection.kubeconfig", Kind::Text, "empty, without --master: the account of the Pod"),
    not_offered("clientConnection.acceptContentTypes", Kind::Text, "JSON is read, which every server sends"),
    not_offered(
        "clientConnection.contentType",
        Kind::Text,
        "nothing with a body is sent but Events, in JSON",
    ),
    not_offered("clientConnection.qps", Kind::Float, NO_LIMIT),
    not_offered("clientConnection.burst", Kind::Int, NO_LIMIT),
    same("logging.format", Kind::Text, "text or json; the lines and the keys in them are our own"),
    better(
        "logging.flushFrequency",
        Kind::Nanoseconds,
        "every line is written at once, so there is nothing to flush",
    ),
    live(same("logging.verbosity", Kind::Int, "up to 3: what is done; from 4: details; from 6: all")),
    not_offered("logging.vmodule", Kind::Vmodule, "it names files of Go; RUST_LOG names modules"),
    not_offered("logging.options.text.splitStream", Kind::Bool, "all lines go to standard error"),
    not_offered("logging.options.text.infoBufferSize", Kind::Quantity, "lines are not buffered"),
    not_offered("logging.options.json.splitStream", Kind::Bool, "all lines go to standard error"),
    not_offered("logging.options.json.infoBufferSize", Kind::Quantity, "lines are not buffered"),
    same("hostnameOverride", Kind::Text, "the name of the Node; empty: the host's name"),
    same(
        "bindAddress",
        Kind::Text,
        "the node's primary address where it is a specific one; nothing is bound to it",
    ),
    same("healthzBindAddress", Kind::Text, "IP:port"),
    same("metricsBindAddress", Kind::Text, "IP:port"),
    same("bindAddressHardFail", Kind::Bool, "a port that cannot be had ends the process"),
    not_offered("enableProfiling", Kind::Bool, "pprof is Go's; perf needs no help from the program"),
    not_offered("showHiddenMetricsForVersion", Kind::Text, "checked as upstream does; no metric is hidden"),
    better(
        "mode",
        Kind::Text,
        "also userspace; empty is iptables as kube-proxy, and nftables in `portway run`",
    ),
    same("iptables.masqueradeBit", Kind::Int, "modes iptables and ipvs"),
    live(same("iptables.masqueradeAll", Kind::Bool, "modes iptables and ipvs")),
    better(
        "iptables.localhostNodePorts",
        Kind::Bool,
        "127.0.0.1 and ::1, served without route_localnet (CVE-2020-8558)",
    ),
    live(same("iptables.syncPeriod", Kind::Duration, SYNC)),
    live(better("iptables.minSyncPeriod", Kind::Duration, MIN_SYNC)),
    live(same("ipvs.syncPeriod", Kind::Duration, SYNC)),
    live(same("ipvs.minSyncPeriod", Kind::Duration, "0: no shortest wait; slow syncs still rest")),
    same("nftables.masqueradeBit", Kind::Int, "mode nftables"),
    live(same("nftables.masqueradeAll", Kind::Bool, "mode nftables")),
    live(same("nftables.syncPeriod", Kind::Duration, SYNC)),
    live(better("nftables.minSyncPeriod", Kind::Duration, MIN_SYNC)),
    not_offered("winkernel.enableDSR", Kind::Bool, NO_WINDOWS),
    not_offered("winkernel.forwardHealthCheckVip", Kind::Bool, NO_WINDOWS),
    not_offered("winkernel.networkName", Kind::Text, NO_WINDOWS),
    not_offered("winkernel.rootHnsEndpointName", Kind::Text, NO_WINDOWS),
    not_offered("winkernel.sourceVip", Kind::Text, NO_WINDOWS),
    same("detectLocalMode", Kind::Text, "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix"),
    same("detectLocal.bridgeInterface", Kind::Text, "for BridgeInterface"),
    same("detectLocal.interfaceNamePrefix", Kind::Text, "for InterfaceNamePrefix"),
    same("clusterCIDR", Kind::Text, "for ClusterCIDR: one network, or one of each family"),
    live(same(
        "nodePortAddresses",
        Kind::Texts,
        "networks, primary, localhost, all; empty: all, and primary in mode nftables",
    )),
    same("oomScoreAdj", Kind::Int, "-1000 to 1000"),
    better(
        "conntrack.maxPerCore",
        Kind::Int,
        "0 leaves the size alone; a larger size stays, where upstream lowers it",
    ),
    same("conntrack.min", Kind::Int, "the least size, however few cores there are"),
    same("conntrack.tcpEstablishedTimeout", Kind::Duration, "0 leaves the kernel's"),
    same("conntrack.tcpCloseWaitTimeout", Kind::Duration, "0 leaves the kernel's"),
    same("conntrack.tcpBeLiberal", Kind::Bool, "only ever set to 1"),
    same("conntrack.udpTimeout", Kind::Duration, "0 leaves the kernel's"),
    same("conntrack.udpStreamTimeout", Kind::Duration, "0 leaves the kernel's"),
    not_offered(
        "configSyncPeriod",
        Kind::Duration,
        "watches tell of changes; what was told is not told again",
    ),
    better("portRange", Kind::Text, "mode userspace, which upstream no longer has; in others nothing"),
    not_offered("windowsRunAsService", Kind::Bool, NO_WINDOWS),
];

impl Field {
    /// The field at this place.
    pub fn at(path: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.path == path)
    }

    /// Does it mean anything in this mode?
    pub fn acts_in(&self, mode: Mode) -> bool {
        let mut has_setting = registry::MODES.iter().filter(|mode| mode.has_field(self.path)).peekable();
        if has_setting.peek().is_some() {
            return has_setting.any(|other| *other == mode);
        }
        match self.path.split_once('.') {
            Some((section, "localhostNodePorts")) => mode.sections().localhost == Some(section),
            Some((section, "syncPeriod" | "minSyncPeriod")) => mode.sections().pace == section,
            Some((section, "masqueradeAll" | "masqueradeBit")) => mode.sections().masquerade == section,
            _ => true,
        }
    }

    /// Whether only modes that are in no program have it.
    pub fn is_test_only(&self) -> bool {
        let mut modes = registry::MODES.iter().filter(|mode| mode.has_field(self.path)).peekable();
        modes.peek().is_some() && modes.all(|mode| mode.is_test_only())
    }

    /// Its value in a document; `null` where there is none.
    pub fn of<'a>(&self, document: &'a Value) -> &'a Value {
        self.path.split('.').try_fold(document, |value, name| value.get(name)).unwrap_or(&Value::Null)
    }

    /// Puts a value there.
    pub(super) fn put(&self, document: &mut Value, value: Value) {
        let place = self.path.split('.').fold(document, |place, name| {
            if !place.is_object() {
                *place = json!({});
            }
            &mut place[name]
        });
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Document;
    use super::*;

    fn leaves(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Object(_) if Field::at(&path).is_none() => leaves(&path, value, found),
                _ => drop(found.insert(path)),
            }
        }
    }

    #[test]
    fn the_table_has_every_field_of_the_document_and_no_other() {
        let mut written = BTreeSet::new();
        leaves("", &serde_json::to_value(Document::default()).expect("it can be written"), &mut written);
        let told: BTreeSet<String> = FIELDS.iter().map(|field| field.path.to_owned()).collect();
        assert_eq!(told, written);
        assert_eq!(told.len(), FIELDS.len(), "no field stands twice");
    }

    #[test]
    fn a_field_is_put_where_it_is_found() {
        let mut document = json!({});
        let field = Field::at("logging.options.text.splitStream").expect("it is one");
        field.put(&mut document, json!(true));
        assert_eq!(document, json!({"logging": {"options": {"text": {"splitStream": true}}}}));
        assert_eq!((field.of(&document), field.of(&json!({}))), (&json!(true), &Value::Null));
    }
}
