//! `portway status`: how the running portway is doing.

use std::fmt::Write as _;

use apiserver::Watched;
use clap::Args;
use config::ConfigStatus;
use observe::doctor::FindingStatus;
use observe::health::Readiness;
use observe::socket;
use observe::status::{DriftStatus, NodeStanding, RelayStatus, ServerStatus, ServerTrouble, Status};

use super::args::Shared;
use super::format::{self, Structured};
use super::said::{Failure, Said};
use super::table::printable;
use super::values::Words;

const EXAMPLES: &str = "\
Examples:
  portway status
  portway status -o json
  portway status --ready                           as a readiness probe, in the container of a portway

Needs root. Exit codes: 0 the kernel holds what it should, 1 it does not, or the API server does not tell what that is, or no
portway runs here. With `--ready`: 0 the rules of this container's portway are in force, 1 they are not.";

/// `portway status`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArgs {
    /// The answer for a program
    #[arg(short, long, value_name = "FORMAT", value_parser = Words::<Structured>::called("format"))]
    output: Option<Structured>,

    /// Only tell whether the rules of the portway in this container are in force: its first sync is done, and it is not failing for
    /// longer than two sync periods. One that stands by or waits to take over is not ready. Outside of a container: whichever runs here
    #[arg(long, conflicts_with = "output")]
    ready: bool,

    /// With `--ready`: the process that is asked about [default: any of this PID namespace]
    #[arg(long, value_name = "PID", requires = "ready")]
    pid: Option<u32>,
}

/// Runs `portway status`.
pub(super) fn run(args: &StatusArgs, shared: &Shared) -> Result<Said, Failure> {
    if args.ready {
        return ready(args, shared);
    }
    let status = socket::status(shared.run_dir()).map_err(|error| {
        Failure::refused(format!("{error}; `portway run` starts one, `--run-dir` names another"))
    })?;
    let text = match args.output {
        Some(format) => format::value(&serde_json::json!(status), format)?,
        None => show(&status),
    };
    let is_fought_over = !status.drift.fighting.is_empty();
    let found_wrong = status.failures.in_a_row > 0
        || status.server.as_ref().is_some_and(|server| !server.troubles.is_empty())
        || !status.refused.is_empty()
        || !status.waiting_for_addresses.is_empty()
        || !status.is_in_sync && (is_fought_over || !status.beside.stays.is_empty());
    Ok(Said { text, warnings: Vec::new(), found_wrong })
}

/// One sentence either way: the kubelet puts it into the Event of a probe that fails.
fn ready(args: &StatusArgs, shared: &Shared) -> Result<Said, Failure> {
    let not_ready = |reason: &str| Failure::refused(format!("not ready: {}", printable(reason)));
    match socket::readiness(shared.run_dir(), args.pid) {
        Ok(Readiness { is_ready: true, .. }) => {
            Ok(Said { text: "portway is ready: its rules are in force\n".to_owned(), ..Said::default() })
        }
        Ok(Readiness { reason, .. }) => Err(not_ready(&reason.unwrap_or_default())),
        Err(error) => Err(not_ready(&error.to_string())),
    }
}

/// Without a Node on the server, `/healthz` says that this node takes no clients.
fn node(status: &Status) -> String {
    let is_missing = matches!(status.node_standing, NodeStanding::Unknown | NodeStanding::OfHost);
    let Some(server) = status.server.as_ref().filter(|_| is_missing) else { return status.node.clone() };
    let is_told = !server.incomplete.iter().any(|kind| kind == Watched::Node.plural());
    let what = if is_told { "knows no Node of this name" } else { "has not told of it yet" };
    format!("{}: the API server {what}, so /healthz is red", status.node)
}

/// Where node ports answer by default, and where that is known from.
fn node_ip(status: &Status) -> String {
    let ips: Vec<String> = status.primary_addresses.iter().map(ToString::to_string).collect();
    match (ips.is_empty(), status.node_standing) {
        (true, _) => "unknown".to_owned(),
        (false, NodeStanding::OfHost) => {
            format!("{} (chosen from the addresses of this host)", ips.join(", "))
        }
        (false, _) => ips.join(", "),
    }
}

fn show(status: &Status) -> String {
    let mut lines = vec![
        ("Mode", mode(status)),
        ("Node", node(status)),
        ("Node IP", node_ip(status)),
        ("Process", format!("{} (portway {})", status.pid, status.version)),
        ("Since", format!("{} ({})", status.since, ago(status.uptime_seconds))),
        ("In sync", in_sync(status)),
        ("Picture", picture(status)),
        ("Last sync", last_sync(status)),
        ("Syncs", format!("{}, {} of them full", status.syncs, status.full_syncs)),
        ("Operations", status.operations.to_string()),
        ("Failures", failures(status)),
        ("Drift", drift(&status.drift)),
        ("Flows", format!("{} forgotten that led nowhere", status.beside.flows_forgotten)),
        ("Services", format!("{}, with {} service ports", status.services, status.service_ports)),
        ("Reports", reports(status)),
    ];
    if let Some(server) = &status.server {
        lines.push(("API server", heard(server)));
        lines.extend(server.troubles.iter().map(|(of, trouble)| ("Trouble", troubled(of, trouble))));
    }
    if status.node_standing == NodeStanding::Leaving {
        lines.push(("Leaving", "this node is being removed from the cluster".to_owned()));
    }
    lines.extend(status.relay.as_ref().map(|relay| ("Relay", carried(relay))));
    if let Some((mode, section)) = status.known_mode().zip(status.section()) {
        lines.extend(mode.status_lines(section).into_iter().map(|(name, value)| (name, printable(&value))));
    }
    let beside = &status.beside;
    lines.extend(beside.took_over.iter().map(|what| ("Took over", printable(what))));
    lines.extend(beside.stays.iter().map(|what| ("Stays", printable(what))));
    lines.extend(
        beside
            .failing
            .iter()
            .map(|(doing, reason)| ("Failing", printable(&format!("cannot {doing}: {reason}")))),
    );
    lines.extend(
        status
            .not_listening
            .iter()
            .map(|(listener, reason)| ("Not heard", printable(&format!("{listener}: {reason}")))),
    );
    let severity = |finding: &FindingStatus| if finding.is_error() { "Error" } else { "Possible" };
    lines.extend(status.findings.iter().map(|found| (severity(found), printable(&found.to_string()))));
    lines.extend(status.problems.iter().map(|problem| ("File", printable(problem))));
    lines.extend(config(&status.config).map(|line| ("Config", printable(&line))));
    lines.extend(
        status.warned.iter().map(|(port, reason)| ("Warning", printable(&format!("{port}: {reason}")))),
    );
    lines.extend(status.waiting_for_addresses.iter().map(|(service, reason)| {
        ("Waiting", printable(&format!("{service} needs a new address or port: {reason}")))
    }));
    lines.extend(
        status.refused.iter().map(|(port, reason)| ("Refused", printable(&format!("{port}: {reason}")))),
    );
    let mut text = String::new();
    for (label, value) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<12}{value}", format!("{label}:"));
    }
    text
}

fn config(config: &ConfigStatus) -> impl Iterator<Item = String> {
    let refused = config.refused.as_ref();
    let refused = refused.map(|why| format!("it cannot be used as it is now, so all stays as it was: {why}"));
    let waiting = (!config.waiting.is_empty())
        .then(|| format!("changes of {} wait for a restart", config.waiting.join(", ")));
    refused.into_iter().chain(waiting)
}

fn heard(server: &ServerStatus) -> String {
    let address = printable(&server.address);
    let heard = match server.heard_seconds_ago {
        Some(seconds) => format!("every watch was heard {} or later", ago(seconds)),
        None => "it has not told everything yet".to_owned(),
    };
    let missing = if server.incomplete.is_empty() {
        String::new()
    } else {
        format!("; {} were never told in full", server.incomplete.join(", "))
    };
    format!("{address}: {heard}{missing}")
}

fn troubled(of: &str, trouble: &ServerTrouble) -> String {
    let (seconds, retry) = (trouble.for_seconds, trouble.retry_in_ms);
    let again =
        if retry == 0 { "being tried again".to_owned() } else { format!("tried again in {retry} ms") };
    printable(&format!("{of}, for {seconds} s, {again}: {}", trouble.reason))
}

fn carried(relay: &RelayStatus) -> String {
    format!("{} listeners; {}", relay.listeners, relay.carried)
}

fn mode(status: &Status) -> String {
    match &status.program {
        Some(program) => format!("{}, by {}", status.mode, printable(program)),
        None => status.mode.clone(),
    }
}

fn in_sync(status: &Status) -> String {
    match (&status.pending.because, status.is_in_sync) {
        (None, true) => "yes".to_owned(),
        (None, false) => "no".to_owned(),
        (Some(because), _) => match status.pending.service_ports {
            0 => format!("no: {because}"),
            count => format!("no, {count} service ports are pending: {because}"),
        },
    }
}

fn picture(status: &Status) -> String {
    let age =
        status.picture_age_seconds.map_or_else(|| "none yet".to_owned(), |age| format!("of {}", ago(age)));
    let leftovers = if status.keeps_leftovers && !status.waiting_for_addresses.is_empty() {
        "; some Services wait for an address, so stale rules in the kernel stay there"
    } else if status.keeps_leftovers {
        "; not all files can be read, or something in them is in doubt, so rules that no object asks for stay in the kernel"
    } else {
        ""
    };
    format!("{age}{leftovers}")
}

fn drift(drift: &DriftStatus) -> String {
    let mut text = match &drift.last {
        None => "none".to_owned(),
        Some(last) => format!(
            "{} repairs, {} operations; the last one {}, after {}",
            drift.repairs,
            drift.operations,
            ago(last.seconds_ago),
            printable(last.by.as_deref().unwrap_or("an unknown writer"))
        ),
    };
    if !drift.fighting.is_empty() {
        let names = printable(&drift.fighting.join(", "));
        // Writing to a string cannot fail.
        let _ = write!(text, "; {names} comes back again and again and is repaired every 10 s at most");
    }
    text
}

fn last_sync(status: &Status) -> String {
    status.last_sync.as_ref().map_or_else(
        || "none yet".to_owned(),
        |last| {
            let kind = if last.full { "full" } else { "of changes" };
            format!(
                "{} ({}), {kind}, {} operations in {} ms",
                last.at,
                ago(last.seconds_ago),
                last.operations,
                last.took_ms
            )
        },
    )
}

fn failures(status: &Status) -> String {
    let failures = &status.failures;
    match (failures.in_a_row, &failures.last) {
        (0, None) => "none".to_owned(),
        (0, Some(last)) => format!("{} so far, none now; the last one: {}", failures.total, printable(last)),
        (count, last) => format!(
            "{count} in a row, tried again in {} ms; {}: {}",
            failures.retry_in_ms.unwrap_or_default(),
            if status.syncs == 0 { "no sync went well yet" } else { "the last good rules are in force" },
            printable(last.as_deref().unwrap_or("unknown"))
        ),
    }
}

fn reports(status: &Status) -> String {
    match status.reports {
        0 => "none".to_owned(),
        count => format!("{count}; `portway describe service` and `portway check` tell which"),
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_file_is_told_of_where_it_is_refused_or_waits_and_else_not() {
        let shown = |config: ConfigStatus| show(&Status { config, ..Status::default() });
        assert!(!shown(ConfigStatus::default()).contains("Config:"));
        let text = shown(ConfigStatus {
            refused: Some("`f`: line 1".into()),
            waiting: vec!["mode".into(), "clusterCIDR".into()],
        });
        assert!(
            text.contains(
                "Config:     it cannot be used as it is now, so all stays as it was: `f`: line 1\n"
            ),
            "{text}"
        );
        assert!(text.contains("Config:     changes of mode, clusterCIDR wait for a restart\n"), "{text}");
    }

    #[test]
    fn a_node_of_which_nothing_was_told_yet_is_not_called_unknown() {
        let of = |incomplete: &[&str]| {
            let incomplete = incomplete.iter().map(|kind| (*kind).to_owned()).collect();
            let server = Some(ServerStatus { incomplete, ..ServerStatus::default() });
            node(&Status { node: "a".into(), server, ..Status::default() })
        };
        assert_eq!(of(&["nodes"]), "a: the API server has not told of it yet, so /healthz is red");
        assert_eq!(of(&[]), "a: the API server knows no Node of this name, so /healthz is red");
    }

    /// *Picture* tells of the youngest change; this line tells of the quietest watch, so it must not speak of the picture.
    #[test]
    fn the_api_servers_line_tells_of_the_quietest_watch_and_not_of_the_picture() {
        let server = ServerStatus {
            address: "https://192.0.2.1:6443".into(),
            heard_seconds_ago: Some(42),
            ..ServerStatus::default()
        };
        let text = show(&Status { server: Some(server), picture_age_seconds: Some(1), ..Status::default() });
        assert!(text.contains("Picture:    of 1 s ago\n"), "{text}");
        let line = "API server: https://192.0.2.1:6443: every watch was heard 42 s ago or later\n";
        assert!(text.contains(line), "{text}");
    }
}
