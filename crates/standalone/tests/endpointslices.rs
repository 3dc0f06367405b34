//! The slices that Services with a selector get, as facts: who is in them, on which port, in which condition.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod common;

use std::fmt::Write as _;

use common::*;
use model::facts::Fact;
use model::{Event, Family};
use serde_json::Value;
use standalone::objects::Change;

const WEB: &str = "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]";

#[test]
fn a_selector_finds_its_pods() {
    check(
        &[
            service("web", WEB),
            pod("a", "labels: {app: web}", "nodeName: n1", "podIP: 10.244.1.5"),
            pod(
                "b",
                "labels: {app: web, tier: x}",
                "nodeName: n2",
                "podIPs: [{ip: 10.244.2.6}, {ip: \"fd00:244::6\"}]",
            ),
            pod("stranger", "labels: {app: db}", "{}", "podIP: 10.244.1.7"),
            pod("pending", "labels: {app: web}", "{}", "phase: Pending"),
            pod("done", "labels: {app: web}", "{}", "podIP: 10.244.1.8, phase: Succeeded"),
            pod("elsewhere", "labels: {app: web}, namespace: other", "{}", "podIP: 10.244.1.9"),
        ],
        &["web IPv4 /TCP/8080: a=10.244.1.5@n1 ready, b=10.244.2.6@n2 ready"],
    );
}

#[test]
fn no_selector_no_slices() {
    check(
        &[service("web", "ports: [{port: 80}]"), pod("a", "labels: {app: web}", "{}", "podIP: 10.244.1.5")],
        &[],
    );
    check(
        &[service("web", "selector: {}, ports: [{port: 80}]"), pod("a", "{}", "{}", "podIP: 10.244.1.5")],
        &[],
    );
}

#[test]
fn a_selector_that_cannot_be_read_in_full_selects_nothing_and_says_so() {
    for (selector, report) in [
        ("web", "spec.selector `web`: must be labels"),
        ("[web]", "spec.selector `[\"web\"]`: must be labels"),
        ("{app: web, level: 5}", "spec.selector.level `5`: must be text"),
        ("{app: web, x.io/y: true}", "spec.selector[x.io/y] `true`: must be text"),
    ] {
        let folder = Folder::new();
        let spec = format!("selector: {selector}, ports: [{{port: 80}}]");
        let cluster =
            folder.with(&[service("web", &spec), pod("a", "labels: {app: web}", "{}", "podIP: 10.244.1.5")]);
        assert!(cluster.slices().is_empty(), "{selector}");
        assert_reported(&cluster, &["Service default/web: ", report, "selects no Pod"]);
        assert_eq!(cluster.reports().len(), 1, "{:#?}", cluster.reports());
    }
}

#[test]
fn a_time_of_deletion_that_is_none_is_reported() {
    let folder = Folder::new();
    let doubtful = pod("a", "labels: {app: web}, deletionTimestamp: 5", "{}", "podIP: 10.244.1.5");
    let cluster = folder.with(&[service("web", WEB), doubtful]);
    assert_reported(&cluster, &["Pod default/a: metadata.deletionTimestamp `5`: "]);
    assert_eq!(cluster.slices()[0]["endpoints"][0]["conditions"]["terminating"], false);
}

#[test]
fn conditions_follow_the_pod() {
    let conditions =
        |ready: &str| format!("podIP: 10.244.1.5, conditions: [{{type: Ready, status: \"{ready}\"}}]");
    let dying = "labels: {app: web}, deletionTimestamp: \"2026-01-31T12:00:00Z\"";
    for (metadata, status, expected) in [
        ("labels: {app: web}", conditions("True"), "ready"),
        ("labels: {app: web}", conditions("False"), "unready"),
        (dying, conditions("True"), "unready serving terminating"),
        (dying, conditions("False"), "unready terminating"),
    ] {
        let expected = format!("web IPv4 /TCP/8080: a=10.244.1.5 {expected}");
        check(&[service("web", WEB), pod("a", metadata, "{}", &status)], &[&expected]);
    }
    let published = format!("{WEB}, publishNotReadyAddresses: true");
    check(
        &[service("web", &published), pod("a", "labels: {app: web}", "{}", &conditions("False"))],
        &["web IPv4 /TCP/8080: a=10.244.1.5 ready unserving"],
    );
}

#[test]
fn target_ports_are_numbers_names_or_the_port_itself() {
    let spec = "selector: {app: web}, ports: [{name: plain, port: 80}, {name: http, port: 81, targetPort: http}, \
                {name: dns, port: 53, protocol: UDP, targetPort: dns}]";
    let containers = |http: u16| {
        format!(
            "containers: [{{ports: [{{name: http, containerPort: {http}}}, {{name: dns, containerPort: 5353}}]}}], \
             initContainers: [{{restartPolicy: Always, ports: [{{name: dns, containerPort: 5454, protocol: UDP}}]}}, \
             {{ports: [{{name: http, containerPort: 1}}]}}]"
        )
    };
    check(
        &[
            service("web", spec),
            pod("a", "labels: {app: web}", &containers(8080), "podIP: 10.244.1.1"),
            pod("b", "labels: {app: web}", &containers(9090), "podIP: 10.244.1.2"),
            pod("c", "labels: {app: web}", &containers(8080), "podIP: 10.244.1.3"),
            pod("d", "labels: {app: web}", "{}", "podIP: 10.244.1.4"),
        ],
        &[
            "web IPv4 plain/TCP/80: d=10.244.1.4 ready",
            "web IPv4 plain/TCP/80 http/TCP/8080 dns/UDP/5454: a=10.244.1.1 ready, c=10.244.1.3 ready",
            "web IPv4 plain/TCP/80 http/TCP/9090 dns/UDP/5454: b=10.244.1.2 ready",
        ],
    );
}

#[test]
fn each_family_of_the_service_has_its_slice() {
    let dual = format!("{WEB}, ipFamilyPolicy: PreferDualStack");
    check(
        &[
            service("web", &dual),
            pod("a", "labels: {app: web}", "{}", "podIPs: [{ip: 10.244.1.5}, {ip: \"fd00:244::5\"}]"),
            pod("b", "labels: {app: web}", "{}", "podIP: \"fd00:244::6\""),
        ],
        &[
            "web IPv4 /TCP/8080: a=10.244.1.5 ready",
            "web IPv6 /TCP/8080: a=fd00:244::5 ready, b=fd00:244::6 ready",
        ],
    );
}

#[test]
fn headless_services_have_labelled_slices() {
    let folder = Folder::new();
    let cluster = folder.with(&[
        service("db", "clusterIP: None, selector: {app: web}"),
        pod("a", "labels: {app: web}", "{}", "podIP: 10.244.1.5"),
    ]);
    let slices = cluster.slices();
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(
        slices[0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "portway.io/embedded"
    );
}

#[test]
fn the_weight_of_a_pod_reaches_the_model() {
    let folder = Folder::new();
    let weighted =
        |weight: &str| format!("labels: {{app: web}}, annotations: {{portway.io/weight: \"{weight}\"}}");
    let mut cluster = folder.open_at(NOON);
    let events = cluster.apply(&[
        service("web", WEB),
        pod("a", &weighted("3"), "{}", "podIP: 10.244.1.5"),
        pod("b", &weighted("many"), "{}", "podIP: 10.244.1.6"),
    ]);
    let weights: Vec<_> = endpoints(&events).map(|endpoint| endpoint.weight).collect();
    assert_eq!(weights, [Some(3), None]);
    assert_reported(&cluster, &["Pod default/b", "portway.io/weight", "`many`", "counts as 1"]);
}

#[test]
fn traffic_distribution_becomes_hints() {
    let pods = [
        pod("a", "labels: {app: web}", "nodeName: n1", "podIP: 10.244.1.5"),
        pod("b", "labels: {app: web}", "nodeName: n2", "podIP: 10.244.2.6"),
    ];
    let hints = |distribution: &str, nodes: &[Change]| {
        let spec = format!("{WEB}, trafficDistribution: {distribution}");
        let changes = [&[service("web", &spec)][..], &pods, nodes].concat();
        let folder = Folder::new();
        let cluster = folder.with(&changes);
        let slices = cluster.slices();
        let items = slices[0]["endpoints"].as_array().unwrap();
        let shown = |item: &Value| item.get("hints").map_or(String::new(), ToString::to_string);
        items.iter().map(shown).collect::<Vec<_>>()
    };
    let both = [node("n1", "east"), node("n2", "west")];
    let zones = [r#"{"forZones":[{"name":"east"}]}"#, r#"{"forZones":[{"name":"west"}]}"#];
    assert_eq!(hints("PreferClose", &both), zones);
    assert_eq!(hints("PreferSameZone", &both), zones);
    assert_eq!(hints("PreferSameZone", &both[..1]), ["", ""], "all or nothing");
    assert_eq!(
        hints("PreferSameNode", &both)[0],
        r#"{"forNodes":[{"name":"n1"}],"forZones":[{"name":"east"}]}"#
    );
    assert_eq!(hints("PreferSameNode", &[])[0], r#"{"forNodes":[{"name":"n1"}]}"#);
    assert_eq!(hints("Nearby", &both), ["", ""]);
}

#[test]
fn a_change_tells_only_of_what_it_changed() {
    let folder = Folder::new();
    let mut cluster = folder.open_at(NOON);
    let close = format!("{WEB}, trafficDistribution: PreferClose");
    cluster.apply(&[
        service("web", WEB),
        service("close", &close),
        service("db", "selector: {app: db}, ports: [{port: 1}]"),
        pod("a", "labels: {app: web}", "nodeName: n1", "podIP: 10.244.1.5"),
        pod("d", "labels: {app: db}", "nodeName: n1", "podIP: 10.244.1.6"),
    ]);
    assert_eq!(told(&cluster.apply(&[])), [""; 0]);
    let same = pod("a", "labels: {app: web}", "nodeName: n1", "podIP: 10.244.1.5");
    assert_eq!(told(&cluster.apply(&[same, service("web", WEB)])), [""; 0]);
    let moved = pod("a", "labels: {app: db}", "nodeName: n1", "podIP: 10.244.1.5");
    assert_eq!(told(&cluster.apply(&[moved])), ["slice close gone", "slice db", "slice web gone"]);
    let back = pod("a", "labels: {app: web}", "nodeName: n1", "podIP: 10.244.1.5");
    assert_eq!(told(&cluster.apply(&[back])), ["slice close", "slice db", "slice web"]);
    assert_eq!(told(&cluster.apply(&[node("n1", "east")])), ["node n1", "slice close"]);
    assert_eq!(told(&cluster.apply(&[gone_of("Pod", "d")])), ["slice db gone"]);
    assert_eq!(told(&cluster.apply(&[gone("web")])), ["service web gone", "slice web gone"]);
}

#[test]
fn a_hand_written_slice_of_the_same_name_wins() {
    let folder = Folder::new();
    let pods = pod("a", "labels: {app: web}", "{}", "podIP: 10.244.1.5");
    let mut cluster = folder.with(&[service("web", WEB), pods]);
    let name = cluster.slices()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    let theirs = object(
        "EndpointSlice",
        &name,
        "labels: {kubernetes.io/service-name: web}",
        "addressType: IPv4\nports: [{port: 1}]\nendpoints: [{addresses: [10.9.9.9]}]",
    );
    cluster.apply(&[theirs]);
    assert!(cluster.slices().is_empty());
    assert_reported(&cluster, &[&format!("EndpointSlice default/{name}"), "the one in the manifests counts"]);
    cluster.apply(&[gone_of("EndpointSlice", &name)]);
    assert_eq!(cluster.slices().len(), 1, "ours is back when theirs is gone");
    assert_eq!(cluster.reports(), [""; 0]);
}

#[test]
fn a_slice_holds_a_thousand_endpoints_at_most() {
    let folder = Folder::new();
    let mut changes = vec![service("web", WEB)];
    for n in 0..2001 {
        let ip = format!("podIP: 10.244.{}.{}", n / 250, n % 250 + 1);
        changes.push(pod(&format!("p{n}"), "labels: {app: web}", "{}", &ip));
    }
    let cluster = folder.with(&changes);
    let sizes: Vec<_> = cluster.slices().iter().map(|s| s["endpoints"].as_array().unwrap().len()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>(), sizes.iter().max()), (3, 2001, Some(&1000)));
}

#[test]
fn malformed_pods_are_reported_and_their_good_part_counts() {
    let folder = Folder::new();
    let cluster = folder.with(&[
        service("web", WEB),
        pod(
            "a",
            "labels: {app: web, broken: 7}",
            "nodeName: 5",
            "podIPs: [{ip: nonsense}, {ip: 10.244.1.5}]",
        ),
    ]);
    assert_eq!(cluster.slices()[0]["endpoints"][0]["addresses"][0], "10.244.1.5");
    assert_reported(&cluster, &["Pod default/a", "status.podIPs[0].ip `nonsense`"]);
    assert_reported(&cluster, &["spec.nodeName `5`"]);
    assert_reported(&cluster, &["metadata.labels.broken `7`"]);
}

/// The slices made of these objects, in words.
#[track_caller]
fn check(changes: &[Change], expected: &[&str]) {
    let folder = Folder::dual_stack();
    let cluster = folder.with(changes);
    let mut shown: Vec<String> = cluster.slices().into_iter().map(show).collect();
    shown.sort_by_key(|line| (line.contains("IPv6"), line.clone()));
    let mut expected = expected.to_vec();
    expected.sort_by_key(|line| (line.contains("IPv6"), *line));
    assert_eq!(shown, expected);
    assert_eq!(cluster.reports(), [""; 0]);
}

fn show(slice: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut line = text(&slice["metadata"]["labels"]["kubernetes.io/service-name"]);
    let _ = write!(line, " {}", text(&slice["addressType"]));
    for port in list(&slice["ports"]) {
        let _ = write!(line, " {}/{}/{}", text(&port["name"]), text(&port["protocol"]), port["port"]);
    }
    let endpoints: Vec<String> = list(&slice["endpoints"]).iter().map(show_endpoint).collect();
    format!("{line}: {}", endpoints.join(", "))
}

fn show_endpoint(endpoint: &Value) -> String {
    let is = |condition: &str| endpoint["conditions"][condition] == Value::Bool(true);
    let mut line = format!(
        "{}={}",
        endpoint["targetRef"]["name"].as_str().unwrap(),
        endpoint["addresses"][0].as_str().unwrap()
    );
    if let Some(node) = endpoint["nodeName"].as_str() {
        let _ = write!(line, "@{node}");
    }
    line.push_str(if is("ready") { " ready" } else { " unready" });
    if is("serving") != is("ready") {
        line.push_str(if is("serving") { " serving" } else { " unserving" });
    }
    if is("terminating") {
        line.push_str(" terminating");
    }
    line
}

/// What events tell of, in words.
fn told(events: &[Event]) -> Vec<String> {
    let base = |name: &str| name.rsplit_once('-').map_or(name, |(base, _)| base).to_owned();
    let mut words: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::Apply(Fact::Service(service)) => format!("service {}", service.name.name()),
            Event::Apply(Fact::EndpointSlice(slice)) => format!("slice {}", base(slice.name.name())),
            Event::Apply(Fact::Node(node)) => format!("node {}", node.name),
            Event::DeleteService(name) => format!("service {} gone", name.name()),
            Event::DeleteSlice(name) => format!("slice {} gone", base(name.name())),
            other => format!("{other:?}"),
        })
        .collect();
    words.sort();
    words
}

fn endpoints(events: &[Event]) -> impl Iterator<Item = &model::facts::EndpointFact> {
    events.iter().flat_map(|event| match event {
        Event::Apply(Fact::EndpointSlice(slice)) => {
            assert!(slice.endpoints.iter().all(|e| Family::of(e.address) == Family::V4));
            slice.endpoints.as_slice()
        }
        _ => &[],
    })
}

/// A Pod; each part is YAML without its outer braces.
fn pod(name: &str, metadata: &str, spec: &str, status: &str) -> Change {
    let braced = |yaml: &str| if yaml.starts_with('{') { yaml.to_owned() } else { format!("{{{yaml}}}") };
    object("Pod", name, metadata, &format!("spec: {}\nstatus: {}", braced(spec), braced(status)))
}

fn node(name: &str, zone: &str) -> Change {
    object("Node", name, &format!("labels: {{topology.kubernetes.io/zone: {zone}}}"), "")
}
