//! `portway describe service`: kubectl's lines, in kubectl's order, then what we have to report.
//!
//! Fields that the API server would have filled in are shown with the value that it would have chosen.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use model::Report;
use serde_json::Value;

use super::args::Shared;
use super::check::{finding, in_order};
use super::kube::{self, Port, ReadyEndpoint, Refused, Slices, at, joined, shown, text, texts};
use super::said::{Failure, Said};
use super::select::Scope;
use super::table::printable;
use super::values::{Sentence, Words, name};
use super::view::{Memory, View};
use crate::objects::{Kind, Object, ObjectKey};
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
    let (slices, refused) = (Slices::of(&view.picture), Refused::of(&view.picture));
    let reports = Reports::of(&view.picture);
    let describe = |service: &&Object| {
        let ready = kube::ready_endpoints(slices.of_service(service), &refused);
        describe(service, &ready, &reports)
    };
    let described: Vec<String> = found.iter().map(describe).collect();
    let text = if described.is_empty() { args.scope.nothing(true) } else { described.join("\n\n") };
    Ok(Said::about(&view.picture, text))
}

fn describe(service: &Object, ready: &[ReadyEndpoint], reports: &Reports<'_>) -> String {
    let mut lines = Lines::default();
    let name = format!("{}/{}", service.key.namespace, service.key.name);
    identity(&mut lines, service);
    addresses(&mut lines, &service.value);
    ports(&mut lines, &service.value, ready);
    policies(&mut lines, &service.value);
    lines.add("Events", "<none>");
    lines.add_all("Reports", &reports.about(&name).iter().copied().map(shown_report).collect::<Vec<_>>());
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
    lines.add("Selector", kube::selector(value));
    lines.add("Type", kube::service_type(value));
}

fn or_none(values: Vec<String>) -> Vec<String> {
    if values.is_empty() { vec!["<none>".to_owned()] } else { values }
}

fn addresses(lines: &mut Lines, service: &Value) {
    let ips = kube::cluster_ips(service);
    let families = families(service, &ips);
    let policy = if families.len() > 1 { "PreferDualStack" } else { "SingleStack" };
    let external_ips = Some(kube::external_ips(service)).filter(|list| !list.is_empty());
    lines.add("IP Family Policy", text(service, "spec.ipFamilyPolicy").unwrap_or(policy));
    lines.add("IP Families", joined(&families));
    lines.add("IP", ips.first().copied().unwrap_or("<none>"));
    lines.add("IPs", joined(&ips));
    lines.add_some("External IPs", external_ips.map(|list| joined(&list)));
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
        let its: Vec<String> = its.map(ReadyEndpoint::address).collect();
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

/// What is wrong with each Service and with its slices. Made once: each look at a picture's reports is one at all of them.
#[derive(Debug)]
pub(super) struct Reports<'a>(BTreeMap<String, Vec<&'a Report>>);

impl<'a> Reports<'a> {
    /// Those of a picture.
    pub(super) fn of(picture: &'a Picture) -> Self {
        let mut by_service: BTreeMap<String, Vec<&Report>> = BTreeMap::new();
        for report in picture.reports() {
            if let Some(service) = service_of(picture, report) {
                by_service.entry(service).or_default().push(report);
            }
        }
        for reports in by_service.values_mut() {
            in_order(reports);
        }
        Self(by_service)
    }

    /// Those on the Service of this name, `namespace/name`, in the order of fields.
    pub(super) fn about(&self, service: &str) -> &[&'a Report] {
        self.0.get(service).map_or(&[], Vec::as_slice)
    }
}

/// The Service that a report speaks of, itself or by one of its slices.
fn service_of(picture: &Picture, report: &Report) -> Option<String> {
    let (namespace, name) = report.object.name.split_once('/')?;
    match Kind::parse(report.object.kind)? {
        Kind::Service => Some(report.object.name.to_string()),
        kind @ Kind::EndpointSlice => {
            let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
            let service = kube::service_of_slice(&picture.objects().get(&key)?.value)?;
            Some(format!("{namespace}/{service}"))
        }
        Kind::Pod | Kind::Node | Kind::ServiceCidr => None,
    }
}

/// In one line; a report on the Service itself need not name it.
fn shown_report(report: &Report) -> String {
    if report.object.kind == Kind::Service.name() { finding(report) } else { report.to_string() }
}
