//! `portway get`: tables with kubectl's columns, or the objects themselves.

mod endpoints;
mod nodes;
mod pods;
mod routes;
mod services;
mod slices;

use clap::{Args, ValueEnum};
use standalone::objects::{Kind, Object};

use super::args::Shared;
use super::format::{self, Format};
use super::said::{Failure, Said};
use super::select::NamespaceScope;
use super::table::Table;
use super::values::{Sentence, Words, name};
use super::view::View;

const EXAMPLES: &str = "\
Examples:
  portway get services --from examples
  portway get svc mysql-service --from examples -o yaml
  portway get pods --from examples -A -o wide
  portway get routes --from examples -A              what this node does for each address";

const TRIMMED: &str = "in a cluster portway keeps of an object only what decides packets: these are made of that, and the API server's say \
                       more";

/// `portway get`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct GetArgs {
    /// What to list
    #[arg(value_parser = Words::<Resource>::called("resource"))]
    resource: Resource,

    /// Only those of these names; for routes and endpoints, those of these Services
    #[arg(value_name = "NAME", value_parser = Sentence(name))]
    names: Vec<String>,

    #[command(flatten)]
    scope: NamespaceScope,

    /// A wider table, or the objects themselves
    #[arg(short, long, value_name = "FORMAT", value_parser = Words::<Format>::called("format"))]
    output: Option<Format>,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Resource {
    /// Services, with the addresses that they were given
    #[value(aliases = ["service", "svc"])]
    Services,
    /// The ready endpoints of each Service
    #[value(aliases = ["endpoint", "ep"])]
    Endpoints,
    /// Slices of endpoints, also those made from Pods
    #[value(name = "endpointslices", aliases = ["endpointslice"])]
    EndpointSlices,
    /// Pods
    #[value(aliases = ["pod", "po"])]
    Pods,
    /// Nodes
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// What this node does for each frontend
    #[value(aliases = ["route"])]
    Routes,
}

impl Resource {
    /// The kind of the objects that a row or a route comes from.
    fn kind(self) -> Kind {
        match self {
            Resource::Services | Resource::Endpoints | Resource::Routes => Kind::Service,
            Resource::EndpointSlices => Kind::EndpointSlice,
            Resource::Pods => Kind::Pod,
            Resource::Nodes => Kind::Node,
        }
    }
}

/// Runs `portway get`.
pub(super) fn run(args: &GetArgs, shared: &Shared) -> Result<Said, Failure> {
    let view = View::open(shared)?;
    let found = args.scope.select(&view.picture, args.resource.kind(), &args.names)?;
    let text = match args.output.and_then(Format::structured) {
        Some(format) => structured(args, &view, &found, format)?,
        None => table(args, &view, &found),
    };
    let mut said = Said::about(&view.picture, text);
    let is_whole_object =
        args.output.and_then(Format::structured).is_some() && args.resource != Resource::Routes;
    if is_whole_object && view.picture.is_trimmed() {
        said.warnings.push(TRIMMED.to_owned());
    }
    Ok(said)
}

fn structured(
    args: &GetArgs,
    view: &View,
    found: &[&Object],
    format: format::Structured,
) -> Result<String, Failure> {
    match args.resource {
        Resource::Routes => format::list(&routes::values(&view.picture, found), format),
        Resource::Endpoints => format::objects(&endpoints::slices(&view.picture, found), false, format),
        _ => format::objects(found, args.names.len() == 1, format),
    }
}

fn table(args: &GetArgs, view: &View, found: &[&Object]) -> String {
    let style = Style {
        is_wide: args.output == Some(Format::Wide),
        shows_namespaces: args.scope.shows_namespaces() && args.resource.kind().is_namespaced(),
    };
    let table = match args.resource {
        Resource::Services => services::table(view, found, style),
        Resource::Endpoints => endpoints::table(view, found, style),
        Resource::EndpointSlices => slices::table(view, found, style),
        Resource::Pods => pods::table(view, found, style),
        Resource::Nodes => nodes::table(view, found, style),
        Resource::Routes => routes::table(view, found, style),
    };
    if table.is_empty() {
        args.scope.nothing(args.resource.kind().is_namespaced())
    } else {
        table.to_string()
    }
}

/// What a table shows beside its usual columns.
#[derive(Clone, Copy, Debug)]
struct Style {
    is_wide: bool,
    shows_namespaces: bool,
}

impl Style {
    /// A table with the usual columns, and those that only a wide one has.
    fn table(self, usual: &[&str], wide: &[&str]) -> Table {
        let namespace = self.shows_namespaces.then_some("NAMESPACE");
        let wide = if self.is_wide { wide } else { &[] };
        Table::new(namespace.into_iter().chain(usual.iter().copied()).chain(wide.iter().copied()))
    }

    /// The cells of an object, to match.
    fn row<const U: usize, const W: usize>(
        self,
        object: &Object,
        usual: [String; U],
        wide: [String; W],
    ) -> Vec<String> {
        let namespace = self.shows_namespaces.then(|| object.key.namespace.to_string());
        let wide = wide.into_iter().filter(|_| self.is_wide);
        namespace.into_iter().chain(usual).chain(wide).collect()
    }
}
