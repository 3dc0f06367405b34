//! Failures, with the whole state as tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use model::flows::{StaleFlows, VanishedFlows};
use model::net::show_address_and_port;
use model::table::HealthCheck;
use model::{Action, ForwardingTable, Route};

use crate::step::Scenario;

/// What went wrong at a line, and how everything was at that moment.
pub(crate) fn failure(
    scenario: &Scenario,
    line: usize,
    problem: &str,
    state: &ForwardingTable,
    reports: &BTreeSet<String>,
) -> String {
    let said = scenario.lines.get(line - 1).map_or("", String::as_str);
    let mut text = format!("{}:{line}: {said}\n\n{problem}\n\n{}", scenario.path.display(), table(state));
    if !reports.is_empty() {
        text.push_str("\nREPORTS\n");
        text.extend(reports.iter().map(|report| format!("{report}\n")));
    }
    text
}

/// What was expected, what was found, and the reasons that were given.
pub(crate) fn difference(expected: &[String], got: &[String], why: &[String]) -> String {
    let mut text = String::new();
    for (title, lines) in [("expected", expected), ("got", got), ("why", why)] {
        if title == "why" && lines.is_empty() {
            continue;
        }
        let lines = if lines.is_empty() { "(nothing)".into() } else { lines.join("\n          ") };
        let _ = writeln!(text, "{title:<9} {lines}");
    }
    text
}

/// Stale flows, as a scenario writes them.
pub(crate) fn stale(flows: &StaleFlows) -> String {
    let (ip, port) = flows.destination;
    let mut line = format!("{}/{}", show_address_and_port(ip, port), flows.protocol);
    if !flows.still_served_by.is_empty() {
        line.push_str(" except");
    }
    for (ip, port) in &flows.still_served_by {
        let _ = write!(line, " {}", show_address_and_port(*ip, *port));
    }
    line
}

/// Connections to an endpoint that has vanished, as a scenario writes them.
pub(crate) fn vanished(flows: &VanishedFlows) -> String {
    let mut line = format!("{}:{}", flows.port.service, flows.port.port);
    for (ip, port) in &flows.destinations {
        let _ = write!(line, " {}", show_address_and_port(*ip, *port));
    }
    let _ = write!(line, " -> {}", show_address_and_port(flows.endpoint.0, flows.endpoint.1));
    line
}

/// All routes, then this node.
pub(crate) fn table(table: &ForwardingTable) -> String {
    let mut rows = vec![
        ["SERVICE PORT", "FRONTEND", "KIND", "INSIDE", "OUTSIDE", "MASQUERADE", "SOURCES"].map(str::to_owned),
    ];
    for port in table.ports() {
        rows.extend(port.routes.iter().map(|route| row(&port.id().to_string(), route)));
    }
    let mut text = aligned(&rows);
    let node = table.node();
    let _ = writeln!(
        text,
        "\nnode {} zone {:?}\n  addresses {:?}\n  pods {:?}",
        node.name, node.zone, node.addresses, node.pods
    );
    for (service, check) in table.health_checks() {
        let _ = writeln!(text, "health {service} {} {}", check.port, local_endpoints(check));
    }
    text
}

/// How many endpoints are here, of both families together.
pub(crate) fn local_endpoints(check: &HealthCheck) -> usize {
    check.local_endpoints.iter().filter_map(|(_, count)| *count).sum()
}

fn row(port: &str, route: &Route) -> [String; 7] {
    let sources = route.allowed_sources.as_ref().map_or("all".into(), |allowed| {
        let ranges = allowed.ranges.iter().map(ToString::to_string);
        ranges.chain(allowed.own_ips.iter().map(ToString::to_string)).collect::<Vec<_>>().join(" ")
    });
    [
        port.into(),
        route.frontend.to_string(),
        route.kind.name().into(),
        action(&route.inside),
        action(&route.outside),
        format!("{:?}", route.masquerade),
        sources,
    ]
}

fn action(action: &Action) -> String {
    let Action::Forward(pool) = action else { return format!("{action:?}") };
    let endpoint = |e: &model::Endpoint| format!("{}={}", show_address_and_port(e.address, e.port), e.slots);
    pool.endpoints().iter().map(endpoint).collect::<Vec<_>>().join(" ")
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}
