//! `portway describe service`: kubectl's lines, in kubectl's order, then what we have to report.
//!
//! Fields that the API server would have filled in are shown with the value that it would have chosen.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::args::Shared;
use super::check::finding;
use super::kube::{self, Port, ReadyEndpoint, Slices, at, joined, shown, text, texts};
use super::said::{Failure, Said};
use super::select::Scope;
use super::table::printable;
use super::values::{Sentence, Words, name};
use super::view::{Memory, View};
use crate::objects::{Kind, Object};
use crate::picture::Picture;

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
    scope: Scope,
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
    let view = View::open(shared, Memory::Kept)?;
    let Resource::Service = args.resource;
    let found = args.scope.select(&view.picture, Kind::Service, &args.names)?;
    let slices = Slices::of(&view.picture);
    let describe = |service: &&Object| describe(&view.picture, service, slices.of_service(service));
    let described: Vec<String> = found.iter().map(describe).collect();
    let text = if described.is_empty() { args.scope.nothing(true) } else { described.join("\n\n") };
    Ok(Said::about(&view.picture, text))
}

fn describe(picture: &Picture, service: &Object, slices: &[&Object]) -> String {
    let mut lines = Lines::default();
    identity(&mut lines, service);
    addresses(&mut lines, &service.value);
    ports(&mut lines, &service.value, &kube::ready_endpoints(slices));
    policies(&mut lines, &service.value);
    lines.add("Events", "<none>");
    lines.add_all("Reports", &reports(picture, service));
    lines.show()
}

/// Labels on the left, aligned values on the right.
#[derive(Debug, Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn add(&mut self, label: &str, value: impl Into<String>) {
        self.0.push((format!("{label}:"), value.into()));
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
            self.0.push((label, value.clone()));
        }
    }

    fn show(&self) -> String {
        let width = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
        let line = |(label, value): &(String, String)| {
            let line = format!("{label:<width$}  {}", printable(value));
            format!("{}\n", line.trim_end())
        };
        self.0.iter().map(line).collect()
    }
}

fn identity(lines: &mut Lines, service: &Object) {
    let value = &service.value;
    lines.add("Name", &*service.key.name);
    lines.add("Namespace", &*service.key.namespace);
    lines.add_all("Labels", &or_none(kube::pairs(value, "metadata.labels", "=")));
    lines.add_all("Annotations", &or_none(kube::pairs(value, "metadata.annotations", ": ")));
    lines.add("Selector", joined(&kube::pairs(value, "spec.selector", "=")));
    lines.add("Type", kube::service_type(value));
}

fn or_none(values: Vec<String>) -> Vec<String> {
    if values.is_empty() { vec!["<none>".to_owned()] } else { values }
}

fn addresses(lines: &mut Lines, service: &Value) {
    let ips = kube::cluster_ips(service);
    let families = families(service, &ips);
    let policy = if families.len() > 1 { "PreferDualStack" } else { "SingleStack" };
    let some_list = |path: &str| Some(texts(service, path)).filter(|list| !list.is_empty());
    lines.add("IP Family Policy", text(service, "spec.ipFamilyPolicy").unwrap_or(policy));
    lines.add("IP Families", joined(&families));
    lines.add("IP", ips.first().copied().unwrap_or_default());
    lines.add("IPs", joined(&ips));
    lines.add_some("External IPs", some_list("spec.externalIPs").map(|list| joined(&list)));
    lines.add_some("Desired LoadBalancer IP", text(service, "spec.loadBalancerIP"));
    lines.add_some("External Name", text(service, "spec.externalName"));
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
        let its: Vec<&str> = its.map(|endpoint| endpoint.address.as_str()).collect();
        lines.add("Port", format!("{name}  {}/{protocol}", port.number()));
        lines.add("TargetPort", format!("{}/{protocol}", port.target()));
        lines.add_some("NodePort", port.node_port().map(|number| format!("{name}  {number}/{protocol}")));
        lines.add("Endpoints", kube::first_three(&its));
    }
}

fn policies(lines: &mut Lines, service: &Value) {
    let is_external = matches!(kube::service_type(service), "NodePort" | "LoadBalancer")
        || !texts(service, "spec.externalIPs").is_empty();
    let is_name = kube::service_type(service) == "ExternalName";
    let or = |path: &'static str, default: Option<&'static str>| text(service, path).or(default);
    lines.add("Session Affinity", text(service, "spec.sessionAffinity").unwrap_or("None"));
    lines.add_some(
        "External Traffic Policy",
        or("spec.externalTrafficPolicy", is_external.then_some("Cluster")),
    );
    lines.add_some(
        "Internal Traffic Policy",
        or("spec.internalTrafficPolicy", (!is_name).then_some("Cluster")),
    );
    lines.add_some("Traffic Distribution", text(service, "spec.trafficDistribution"));
    lines.add_some("HealthCheck NodePort", at(service, "spec.healthCheckNodePort").map(shown));
    let ranges = Some(texts(service, "spec.loadBalancerSourceRanges")).filter(|list| !list.is_empty());
    lines.add_some("LoadBalancer Source Ranges", ranges.map(|list| joined(&list)));
}

/// What is wrong with the Service, and with its slices.
fn reports(picture: &Picture, service: &Object) -> Vec<String> {
    let name = model::ServiceName::new(&service.key.namespace, &service.key.name);
    reports_about(picture, &name)
        .map(|report| if report.object.kind == "Service" { finding(report) } else { report.to_string() })
        .collect()
}

/// The reports on a Service and on its slices.
pub(super) fn reports_about<'a>(
    picture: &'a Picture,
    service: &'a model::ServiceName,
) -> impl Iterator<Item = &'a model::Report> {
    let is_slice_of = |name: &str| {
        let slices = picture.objects().values().filter(|object| object.key.kind == Kind::EndpointSlice);
        slices.into_iter().any(|slice| {
            name == format!("{}/{}", slice.key.namespace, slice.key.name)
                && &*slice.key.namespace == service.namespace()
                && kube::service_of_slice(&slice.value) == Some(service.name())
        })
    };
    picture.reports().into_iter().filter(move |report| match report.object.kind {
        "Service" => *report.object.name == *service.as_str(),
        "EndpointSlice" => is_slice_of(&report.object.name),
        _ => false,
    })
}
