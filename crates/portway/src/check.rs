//! `portway check`: everything that is wrong with manifests, or with what the running portway was told, by file and by object. Nothing is written
//! anywhere.

use std::collections::BTreeMap;

use clap::Args;
use model::object::{Reader, WEIGHTS_ANNOTATION, weights_of};
use model::{ObjectRef, Report};
use observe::doctor::FindingStatus;
use observe::picture::Picture;
use observe::socket;
use standalone::control_plane::misspelt_fields;
use standalone::objects::{Kind, Object, ObjectKey};

use super::args::Shared;
use super::kube::{Slices, items, service_of_slice, text, texts};
use super::output::Paint;
use super::said::{Failure, Said};
use super::table::printable;
use super::view::View;

const EXAMPLES: &str = "\
Examples:
  portway check --from examples
  portway check                      (what the running portway was told)
  portway check --from manifests/ --service-cidr 10.254.0.0/16

Exit codes: 0 all is in order, 1 something is not, 2 the command line is malformed.";

/// `portway check`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {}

/// Runs `portway check`.
pub(super) fn run(_args: &CheckArgs, shared: &Shared, paint: Paint) -> Result<Said, Failure> {
    let View { picture, .. } = View::open(shared)?;
    let more = [stray_weights(&picture), misspelt(&picture)].concat();
    let findings = Findings { host: on_host(shared), ..Findings::of(&picture, &more) };
    let text = format!("{}{}", findings.show(&picture, paint), findings.summary(&picture, paint));
    let found_wrong = findings.count() > 0 || findings.host.iter().any(FindingStatus::is_error);
    Ok(Said { text, warnings: Vec::new(), found_wrong })
}

/// What the running portway found on this host, where it is the one that is asked. Files may be meant for any host.
fn on_host(shared: &Shared) -> Vec<FindingStatus> {
    let is_asked = shared.named_sources().is_empty();
    let status = is_asked.then(|| socket::status(shared.run_dir()).ok()).flatten();
    status.map(|status| status.findings).unwrap_or_default()
}

/// What is wrong, ordered by where it is.
#[derive(Debug, Default)]
struct Findings<'a> {
    files: BTreeMap<String, Vec<String>>,
    objects: BTreeMap<&'a ObjectRef, Vec<&'a Report>>,
    host: Vec<FindingStatus>,
}

impl<'a> Findings<'a> {
    fn of(picture: &'a Picture, more: &'a [Report]) -> Self {
        let mut findings = Self::default();
        for problem in picture.problems() {
            let line = match problem.origin.line {
                0 => problem.message.clone(),
                line => format!("line {line}: {}", problem.message),
            };
            findings.files.entry(problem.origin.file.display().to_string()).or_default().push(line);
        }
        for report in picture.reports().into_iter().chain(more) {
            findings.objects.entry(&report.object).or_default().push(report);
        }
        for reports in findings.objects.values_mut() {
            in_order(reports);
        }
        findings
    }

    fn count(&self) -> usize {
        self.in_files() + self.in_objects()
    }

    fn in_files(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    fn in_objects(&self) -> usize {
        self.objects.values().map(Vec::len).sum()
    }

    /// One paragraph for each file and each object.
    fn show(&self, picture: &Picture, paint: Paint) -> String {
        let mut text = String::new();
        for (file, lines) in &self.files {
            paragraph(&mut text, &paint.strong(&printable(file)), lines.iter().map(|line| printable(line)));
        }
        for (object, reports) in &self.objects {
            let place = origin(picture, object).map(|place| format!(" ({place})")).unwrap_or_default();
            let title = format!("{}{}", paint.strong(&object.to_string()), printable(&place));
            paragraph(&mut text, &title, reports.iter().map(|report| finding(report)));
        }
        if !self.host.is_empty() {
            let lines = self.host.iter().map(|found| printable(&found.to_string()));
            paragraph(&mut text, &paint.strong("This host"), lines);
        }
        text
    }

    fn summary(&self, picture: &Picture, paint: Paint) -> String {
        let objects = count(picture);
        match self.count() {
            0 if !self.host.is_empty() => {
                let errors = self.host.iter().filter(|found| found.is_error()).count();
                let possible = self.host.len() - errors;
                format!(
                    "On this host {errors} errors, {possible} possible; nothing to report on {objects}.\n"
                )
            }
            0 => format!("{}: {objects}, nothing to report.\n", paint.good("All is in order")),
            all => format!(
                "{}: {} with files, {} with objects. Everything else is in force: {objects}.\n",
                paint.bad(&plural(all, "problem")),
                self.in_files(),
                self.in_objects(),
            ),
        }
    }
}

fn paragraph(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    text.push_str(title);
    text.push('\n');
    for line in lines {
        text.push_str("  ");
        text.push_str(&line);
        text.push('\n');
    }
    text.push('\n');
}

/// A report without the object, which is named above it.
pub(super) fn finding(report: &Report) -> String {
    let value = if report.value.is_empty() { String::new() } else { format!(" `{}`", report.value) };
    format!("{}{value}: {}", report.field, report.problem)
}

/// Orders the reports on an object by field, numbers in it as numbers: `ports[2]` stands before `ports[10]`.
pub(super) fn in_order(reports: &mut [&Report]) {
    reports.sort_by_cached_key(|report| {
        (report.object.clone(), natural(&report.field), report.value.clone(), report.problem.clone())
    });
}

/// A text as words, each with the number that follows it.
fn natural(mut text: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (word, rest) = text.split_at(text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len()));
        let (number, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        parts.push((word.to_owned(), number.parse().unwrap_or_default()));
        text = rest;
    }
    parts
}

/// Fields that are called almost like those that are read.
fn misspelt(picture: &Picture) -> Vec<Report> {
    let written = picture.objects().values().filter(|object| object.origin.is_some());
    written.flat_map(|object| misspelt_fields(&object.key, &object.value)).collect()
}

/// Weights of nobody. Pods come and go, so that this is worth a word only to somebody who looks for mistakes.
fn stray_weights(picture: &Picture) -> Vec<Report> {
    let slices = Slices::of(picture);
    let mut reports = Vec::new();
    for object in picture.objects().values().filter(|object| object.origin.is_some()) {
        match object.key.kind {
            Kind::Service => reports.extend(strays_of(object, slices.of_service(object))),
            Kind::EndpointSlice => reports.extend(strays_of(object, &[object])),
            Kind::Pod | Kind::Node | Kind::ServiceCidr => {}
        }
    }
    reports
}

/// The weights that an object gives to none of the endpoints in these slices.
fn strays_of(object: &Object, slices: &[&Object]) -> Vec<Report> {
    let name = format!("{}/{}", object.key.namespace, object.key.name);
    let reader = Reader::new(ObjectRef { kind: object.key.kind.name(), name: name.as_str().into() });
    let root = reader.root(&object.value);
    let weights = weights_of(&root.at("metadata"));
    let endpoints = || slices.iter().flat_map(|slice| items(&slice.value, "endpoints"));
    let is_stray = |whom: &str| !endpoints().any(|endpoint| is_called(endpoint, whom));
    let strays = weights.iter().filter(|weight| !weight.whom.is_empty() && is_stray(&weight.whom));
    let report = |entry: String| {
        let object = ObjectRef { kind: object.key.kind.name(), name: name.as_str().into() };
        let field = format!("metadata.annotations[{WEIGHTS_ANNOTATION}]");
        Report::new(object, &field, &entry, "no endpoint has this name or address now; it has no effect")
    };
    strays.map(|stray| report(format!("{}={}", stray.whom, stray.weight))).collect()
}

/// Is an endpoint a Pod of this name, or at this address?
fn is_called(endpoint: &serde_json::Value, whom: &str) -> bool {
    let is_pod =
        text(endpoint, "targetRef.kind") == Some("Pod") && text(endpoint, "targetRef.name") == Some(whom);
    let address = texts(endpoint, "addresses").first().and_then(|text| model::net::parse_ip(text));
    is_pod || (address.is_some() && model::net::parse_ip(whom) == address)
}

/// Where the object of a report stands, for one that stands in a file.
fn origin(picture: &Picture, wanted: &ObjectRef) -> Option<String> {
    let kind = Kind::parse(wanted.kind)?;
    let (namespace, name) = wanted.name.split_once('/').unwrap_or(("", &wanted.name));
    let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
    picture.objects().get(&key)?.origin.as_ref().map(ToString::to_string)
}

/// `3 Services, 1 Pod (without effect: 1 EndpointSlice)`: those that somebody wrote, not what we made of them. Objects of an API
/// server stand in no file, and none of them is ours.
fn count(picture: &Picture) -> String {
    let (mut in_force, mut without) = (BTreeMap::new(), BTreeMap::new());
    let is_written = |object: &&Object| object.origin.is_some() || picture.is_trimmed();
    for object in picture.objects().values().filter(is_written) {
        let counts = if has_effect(picture, object) { &mut in_force } else { &mut without };
        *counts.entry(object.key.kind).or_default() += 1;
    }
    let idle =
        if without.is_empty() { String::new() } else { format!(" (without effect: {})", listed(&without)) };
    format!("{}{idle}", listed(&in_force))
}

fn listed(counts: &BTreeMap<Kind, usize>) -> String {
    let shown: Vec<String> = counts.iter().map(|(kind, count)| plural(*count, kind.name())).collect();
    if shown.is_empty() { "no objects".to_owned() } else { shown.join(", ") }
}

/// A slice is nothing without its Service, nor without a family.
fn has_effect(picture: &Picture, object: &Object) -> bool {
    if object.key.kind != Kind::EndpointSlice {
        return true;
    }
    let service = service_of_slice(&object.value).map(|name| ObjectKey {
        kind: Kind::Service,
        namespace: object.key.namespace.clone(),
        name: name.into(),
    });
    let is_dialled = matches!(text(&object.value, "addressType"), Some("IPv4" | "IPv6"));
    is_dialled && service.is_some_and(|service| picture.objects().contains_key(&service))
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use mockapi::objects::{service, slice};
    use model::object::Read;
    use model::{Config, Event};

    use super::*;

    /// As `portway check` gets it from a portway that runs in a cluster.
    #[test]
    fn objects_of_an_api_server_are_counted_as_in_force() {
        let objects = [
            service("web", "10.96.0.1"),
            service("shop", "10.96.0.2"),
            slice("web", &["10.244.2.7"]),
            slice("gone", &["10.244.2.8"]),
        ];
        let fact = |object| match model::object::read(object) {
            Read::Fact(fact) => Event::Apply(fact),
            other => panic!("{other:?}"),
        };
        let mut running = Picture::of_server(Config::default());
        running.take(objects.iter().map(fact));
        let counted = count(&Picture::of(running.snapshot()));
        assert_eq!(counted, "2 Services, 1 EndpointSlice (without effect: 1 EndpointSlice)");
    }

    #[test]
    fn numbers_in_fields_are_ordered_as_numbers() {
        let object = ObjectRef { kind: "Service", name: "default/web".into() };
        let report = |field: &str| Report::new(object.clone(), field, "", "is wrong");
        let fields = ["spec.ports[10].port", "spec.ports[2].port", "spec.ports[2].name", "spec", "a"];
        let reports: Vec<Report> = fields.iter().map(|field| report(field)).collect();
        let mut ordered: Vec<&Report> = reports.iter().collect();
        in_order(&mut ordered);
        let fields: Vec<&str> = ordered.iter().map(|report| &*report.field).collect();
        assert_eq!(fields, ["a", "spec", "spec.ports[2].name", "spec.ports[2].port", "spec.ports[10].port"]);
    }
}
