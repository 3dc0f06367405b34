//! `portway describe service`: kubectl's lines, in kubectl's order, then what we have to report.
//!
//! Fields that the API server would have filled in are shown with the value that it would have chosen. In a cluster, where only what
//! decides packets is kept of an object, the rest is not guessed: it is `<not kept>`, or its line is left out.

use clap::{Args, ValueEnum};
use model::Report;
use observe::picture::Picture;
use serde_json::Value;
use standalone::objects::{Kind, Object, ObjectKey};

use super::args::Shared;
use super::check::finding;
use super::kube::{self, NOT_KEPT, Port, ReadyEndpoint, Refused, Slices, at, joined, shown, text, texts};
use super::reports::Reports;
use super::said::{Failure, Said};
use super::select::NamespaceScope;
use super::table::printable;
use super::values::{Sentence, Words, name};
use super::view::View;

const EXAMPLES: &str = "\
Examples:
  portway describe service mysql-service --from examples
  portway describe svc kube-dns -n kube-system --from examples";

/// `portway describe`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct DescribeArgs {
    /// What kind of object
    #[arg(value_parser = Words::<Resource>::called("resource"))]
    resource: Resource,

    /// Which ones; all of the namespace when none is named
    #[arg(value_name = "NAME", value_parser = Sentence(name))]
    names: Vec<String>,

    #[command(flatten)]
    scope: NamespaceScope,
}

/// What can be described.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Resource {
    /// Services
    #[value(aliases = ["services", "svc"])]
    Service,
}

/// Runs `portway describe`.
pub(super) fn run(args: &DescribeArgs, shared: &Shared) -> Result<Said, Failure> {
    let view = View::open(shared)?;
    let Resource::Service = args.resource;
    let found = args.scope.select(&view.picture, Kind::Service, &args.names)?;
    let described = describe_all(&view.picture, &found);
    let text = if described.is_empty() { args.scope.nothing(true) } else { described.join("\n\n") };
    Ok(Said::about(&view.picture, text))
}

fn describe_all(picture: &Picture, services: &[&Object]) -> Vec<String> {
    let (slices, refused) = (Slices::of(picture), Refused::of(picture));
    let reports = Reports::of(picture);
    let describe = |service: &&Object| {
        let ready = kube::ready_endpoints(slices.of_service(service), &refused);
        let lines = Lines { is_trimmed: picture.is_trimmed(), ..Lines::default() };
        describe(lines, service, &ready, &reports)
    };
    services.iter().map(describe).collect()
}

fn describe(mut lines: Lines, service: &Object, ready: &[ReadyEndpoint], reports: &Reports<'_>) -> String {
    let ObjectKey { namespace, name, .. } = &service.key;
    let full_name = format!("{namespace}/{name}");
    identity(&mut lines, service);
    addresses(&mut lines, &service.value);
    ports(&mut lines, &service.value, ready);
    policies(&mut lines, &service.value);
    if !lines.is_trimmed {
        lines.add("Events", "<none>");
    }
    lines
        .add_all("Reports", &reports.about(&full_name).iter().copied().map(shown_report).collect::<Vec<_>>());
    if lines.is_trimmed {
        lines.add(
            "Note",
            format!("`kubectl -n {namespace} describe service {name}` shows what is not kept here"),
        );
    }
    lines.show()
}

/// Labels on the left, aligned values on the right.
#[derive(Debug, Default)]
struct Lines {
    lines: Vec<(String, String)>,
    /// Of the object only what decides packets is known.
    is_trimmed: bool,
}

impl Lines {
    fn add(&mut self, label: &str, value: impl Into<String>) {
        self.lines.push((format!("{label}:"), value.into()));
    }

    /// A value that decides no packet, so that it is not kept in a cluster.
    fn add_if_kept(&mut self, label: &str, value: impl Into<String>) {
        let value = if self.is_trimmed { NOT_KEPT.to_owned() } else { value.into() };
        self.add(label, value);
    }

    fn add_some(&mut self, label: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(label, value);
        }
    }

    /// One line for each value, the label on the first; no line where there is none.
    fn add_all(&mut self, label: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            let label = if index == 0 { format!("{label}:") } else { String::new() };
            self.lines.push((label, value.clone()));
        }
    }

    /// Labels or annotations: those that decide packets are kept.
    fn add_pairs(&mut self, label: &str, mut pairs: Vec<String>) {
        match (self.is_trimmed, pairs.is_empty()) {
            (true, true) => pairs.push(NOT_KEPT.to_owned()),
            (true, false) => pairs.push("<others are not kept>".to_owned()),
            (false, true) => pairs.push("<none>".to_owned()),
            (false, false) => {}
        }
        self.add_all(label, &pairs);
    }

    fn show(&self) -> String {
        let width = self.lines.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
        let line = |(label, value): &(String, String)| {
            let line = format!("{label:<width$}  {}", printable(value));
            format!("{}\n", line.trim_end())
        };
        self.lines.iter().map(line).collect()
    }
}

fn identity(lines: &mut Lines, service: &Object) {
    let value = &service.value;
    lines.add("Name", &*service.key.name);
    lines.add("Namespace", &*service.key.namespace);
    lines.add_pairs("Labels", kube::pairs(value, "metadata.labels", "="));
    lines.add_pairs("Annotations", kube::pairs(value, "metadata.annotations", ": "));
    lines.add_if_kept("Selector", kube::selector(value));
    lines.add("Type", kube::service_type(value));
}

fn addresses(lines: &mut Lines, service: &Value) {
    let ips = kube::cluster_ips(service);
    let families = families(service, &ips);
    let policy = if families.len() > 1 { "PreferDualStack" } else { "SingleStack" };
    let external_ips = Some(kube::external_ips(service)).filter(|list| !list.is_empty());
    lines.add_if_kept("IP Family Policy", text(service, "spec.ipFamilyPolicy").unwrap_or(policy));
    lines.add("IP Families", joined(&families));
    // Which of two is the first is not kept.
    if !lines.is_trimmed || ips.len() < 2 {
        lines.add("IP", ips.first().copied().unwrap_or("<none>"));
    }
    lines.add("IPs", joined(&ips));
    lines.add_some("External IPs", external_ips.map(|list| joined(&list)));
    lines.add_some("Desired LoadBalancer IP", text(service, "spec.loadBalancerIP"));
    let is_unknown_name = lines.is_trimmed && kube::service_type(service) == "ExternalName";
    lines.add_some(
        "External Name",
        text(service, "spec.externalName").or(is_unknown_name.then_some(NOT_KEPT)),
    );
    lines.add_some("LoadBalancer Ingress", ingress(service));
}

/// `spec.ipFamilies`, or those of the addresses.
fn families<'a>(service: &'a Value, ips: &[&str]) -> Vec<&'a str> {
    let told = texts(service, "spec.ipFamilies");
    if !told.is_empty() {
        return told;
    }
    let family = |ip: &&str| model::net::parse_ip(ip).map(|ip| if ip.is_ipv4() { "IPv4" } else { "IPv6" });
    ips.iter().filter_map(family).collect()
}

/// `192.0.2.20 (VIP)`.
fn ingress(service: &Value) -> Option<String> {
    let show = |item: &Value| {
        let address = text(item, "ip").or_else(|| text(item, "hostname"))?;
        let mode = text(item, "ipMode").map(|mode| format!(" ({mode})")).unwrap_or_default();
        Some(format!("{address}{mode}"))
    };
    let all: Vec<String> =
        kube::items(service, "status.loadBalancer.ingress").iter().filter_map(show).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn ports(lines: &mut Lines, service: &Value, ready: &[ReadyEndpoint]) {
    for port in Port::all(service) {
        let name = if port.name().is_empty() { "<unset>" } else { port.name() };
        let protocol = port.protocol();
        let its = ready.iter().filter(|endpoint| endpoint.port_name == port.name());
        let its: Vec<String> = its.map(ReadyEndpoint::address).collect();
        lines.add("Port", format!("{name}  {}/{protocol}", port.number()));
        lines.add_if_kept("TargetPort", format!("{}/{protocol}", port.target()));
        lines.add_some("NodePort", port.node_port().map(|number| format!("{name}  {number}/{protocol}")));
        lines.add("Endpoints", kube::first_three(&its));
    }
}

fn policies(lines: &mut Lines, service: &Value) {
    let is_external = matches!(kube::service_type(service), "NodePort" | "LoadBalancer")
        || !texts(service, "spec.externalIPs").is_empty();
    let is_name = kube::service_type(service) == "ExternalName";
    let or = |path: &'static str, default: Option<&'static str>| text(service, path).or(default);
    // Facts have a policy for every Service, also for those that it means nothing to.
    let (has_external_policy, has_internal_policy) =
        (is_external || !lines.is_trimmed, !is_name || !lines.is_trimmed);
    lines.add("Session Affinity", text(service, "spec.sessionAffinity").unwrap_or("None"));
    lines.add_some(
        "External Traffic Policy",
        or("spec.externalTrafficPolicy", is_external.then_some("Cluster")).filter(|_| has_external_policy),
    );
    lines.add_some(
        "Internal Traffic Policy",
        or("spec.internalTrafficPolicy", (!is_name).then_some("Cluster")).filter(|_| has_internal_policy),
    );
    lines.add_some("Traffic Distribution", text(service, "spec.trafficDistribution"));
    lines.add_some("HealthCheck NodePort", at(service, "spec.healthCheckNodePort").map(shown));
    let ranges = Some(texts(service, "spec.loadBalancerSourceRanges")).filter(|list| !list.is_empty());
    lines.add_some("LoadBalancer Source Ranges", ranges.map(|list| joined(&list)));
}

/// In one line; a report on the Service itself need not name it.
fn shown_report(report: &Report) -> String {
    if report.object.kind == Kind::Service.name() { finding(report) } else { report.to_string() }
}

#[cfg(test)]
mod tests {
    use model::Config;
    use serde_json::json;

    use super::*;

    fn of_server(service: &Value) -> Picture {
        let model::object::Read::Fact(fact) = model::object::read(service) else { panic!("it is a Service") };
        let mut picture = Picture::of_server(Config::default());
        picture.take([model::Event::Apply(fact)]);
        Picture::of(picture.snapshot())
    }

    fn described(service: &Value) -> String {
        let picture = of_server(service);
        describe_all(&picture, &picture.objects().values().collect::<Vec<_>>()).concat()
    }

    #[test]
    fn of_a_service_of_a_cluster_only_what_is_kept_is_shown() {
        let text = described(&json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": "default", "name": "web", "labels": {"app": "web"}, "annotations": {"portway.io/weights": "a=2"}},
            "spec": {
                "selector": {"app": "web"}, "clusterIPs": ["fd00::7", "10.96.0.7"], "ipFamilyPolicy": "RequireDualStack",
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        }));
        let expected = "\
Name:                     web
Namespace:                default
Labels:                   <not kept>
Annotations:              portway.io/weights: a=2
                          <others are not kept>
Selector:                 <not kept>
Type:                     ClusterIP
IP Family Policy:         <not kept>
IP Families:              IPv4,IPv6
IPs:                      10.96.0.7,fd00::7
Port:                     http  80/TCP
TargetPort:               <not kept>
Endpoints:                <none>
Session Affinity:         None
Internal Traffic Policy:  Cluster
Note:                     `kubectl -n default describe service web` shows what is not kept here
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_elsewhere_of_a_cluster_has_no_address_and_its_name_is_not_kept() {
        let text = described(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "far"},
            "spec": {"type": "ExternalName", "externalName": "example.com"},
        }));
        for line in ["IP:                <none>\n", "External Name:     <not kept>\n"] {
            assert!(text.contains(line), "{text}");
        }
    }
}
