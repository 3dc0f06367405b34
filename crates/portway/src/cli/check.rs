//! `portway check`: everything that is wrong with manifests, by file and by object. Nothing is written anywhere.

use std::collections::BTreeMap;

use clap::Args;
use model::{ObjectRef, Report};

use super::args::Shared;
use super::output::Paint;
use super::said::{Failure, Said};
use super::table::printable;
use super::view::{Memory, View};
use crate::objects::{Kind, Object, ObjectKey};
use crate::picture::Picture;

const EXAMPLES: &str = "\
Examples:
  portway check --from examples
  portway check --from manifests/ --service-cidr 10.254.0.0/16

Exit codes: 0 all is in order, 1 something is not, 2 the command line is malformed.";

/// `portway check`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {}

/// Runs `portway check`.
pub(super) fn run(_args: &CheckArgs, shared: &Shared, paint: Paint) -> Result<Said, Failure> {
    let View { picture, .. } = View::open(shared, Memory::DryRun)?;
    let findings = Findings::of(&picture);
    let text = format!("{}{}", findings.show(&picture, paint), findings.summary(&picture, paint));
    Ok(Said { text, warnings: Vec::new(), found_wrong: findings.count() > 0 })
}

/// What is wrong, ordered by where it is.
#[derive(Debug, Default)]
struct Findings<'a> {
    files: BTreeMap<String, Vec<String>>,
    objects: BTreeMap<&'a ObjectRef, Vec<&'a Report>>,
}

impl<'a> Findings<'a> {
    fn of(picture: &'a Picture) -> Self {
        let mut findings = Self::default();
        for problem in picture.problems() {
            let line = match problem.origin.line {
                0 => problem.message.clone(),
                line => format!("line {line}: {}", problem.message),
            };
            findings.files.entry(problem.origin.file.display().to_string()).or_default().push(line);
        }
        for report in picture.reports() {
            findings.objects.entry(&report.object).or_default().push(report);
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
        text
    }

    fn summary(&self, picture: &Picture, paint: Paint) -> String {
        let objects = count(picture);
        match self.count() {
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

/// Where the object of a report stands, for one that stands in a file.
fn origin(picture: &Picture, wanted: &ObjectRef) -> Option<String> {
    let kind = Kind::parse(wanted.kind)?;
    let (namespace, name) = wanted.name.split_once('/').unwrap_or(("", &wanted.name));
    let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
    picture.objects().get(&key)?.origin.as_ref().map(ToString::to_string)
}

/// `3 Services, 1 Pod`: those that stand in files.
fn count(picture: &Picture) -> String {
    let of_kind = |kind: Kind| {
        let stands_in_a_file = |object: &&Object| object.key.kind == kind && object.origin.is_some();
        picture.objects().values().filter(stands_in_a_file).count()
    };
    let counted = Kind::ALL.into_iter().map(|kind| (of_kind(kind), kind.name()));
    let shown: Vec<String> =
        counted.filter(|(count, _)| *count > 0).map(|(count, name)| plural(count, name)).collect();
    if shown.is_empty() { "no objects".to_owned() } else { shown.join(", ") }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
