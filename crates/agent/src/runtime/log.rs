//! What the loop wants to be written down, as lines of the log.
//!
//! Numbers are of 64 bits at most: those of 128, as times are counted in, would be text in a log of JSON.

use std::net::IpAddr;

use observe::doctor::FindingStatus;

use crate::reconciler::Line;
use crate::reconciler::figures::milliseconds;

/// No sync went well yet.
const NONE_YET: &str = "none went well yet, and what the kernel held at the start stays as it is";

/// Writes a line.
pub(super) fn log(line: &Line) {
    match line {
        // A compare that finds nothing comes every half minute: that is a metric.
        Line::Synced { service_ports, changed, operations: 0, took, full } => {
            let took_ms = milliseconds(*took);
            tracing::debug!(service_ports, changed, operations = 0, took_ms, full, "synced");
        }
        Line::Synced { service_ports, changed, operations, took, full } => {
            let took_ms = milliseconds(*took);
            tracing::info!(service_ports, changed, operations, took_ms, full, "synced");
        }
        Line::Repaired { operations, by } => tracing::warn!(
            operations,
            by = by.as_deref().unwrap_or("unknown"),
            "somebody else changed our tables in the kernel: they are put right"
        ),
        Line::War { program } => tracing::warn!(
            program,
            "this program changes our tables again and again: from now on that is put right every 10 s at most; find out who \
             starts it, and stop it"
        ),
        Line::Replaced(what) => tracing::info!("our rules took the place of {what}"),
        Line::Waits(why) => tracing::warn!("{why}"),
        Line::Forgot { flows } => tracing::info!(flows, "forgot flows that led nowhere"),
        Line::Ended { service_port, endpoint, connections } => {
            tracing::info!(%service_port, %endpoint, connections, "ended connections to a Pod that has vanished");
        }
        Line::TookOver(what) => {
            tracing::info!("removed what another mode left, ours being in place: {what}");
        }
        Line::Stays(what) => tracing::warn!("{what}"),
        Line::Setting(what) => tracing::info!("{what}"),
        Line::ErrandFailed { doing, reason, retry_in } => {
            tracing::warn!(retry_in_ms = milliseconds(*retry_in), "cannot {doing}: {reason}");
        }
        Line::HandingOver { process } => {
            tracing::info!(
                process,
                "another portway goes on in our place: the rules stay, and this process stands by"
            );
        }
        Line::Settled { operations } => tracing::debug!(operations, "settled"),
        Line::Refused { service_port, reason } => {
            tracing::error!(service_port, reason, "a service port is refused, and all others are in force");
        }
        Line::Warned { service_port, reason } => tracing::warn!(service_port, "{reason}"),
        Line::Failed { is_first, reason, retry_in } => tracing::error!(
            retry_in_ms = milliseconds(*retry_in),
            "sync failed, {}: {reason}",
            if *is_first { NONE_YET } else { "the last good rules stay in force" }
        ),
        Line::StoreFailed { reason, retry_in } => tracing::error!(
            retry_in_ms = milliseconds(*retry_in),
            "addresses cannot be given, what is in force stays so: {reason}"
        ),
        Line::AllocationWaits { services, reason } => allocation_waits(services, reason),
        Line::AllocationResumed => {
            tracing::info!("the state folder can be written again: no Service waits for it");
        }
        Line::NotListening { listener, reason } => {
            tracing::warn!("{listener} is not answered, which is tried again every second: {reason}");
        }
        Line::Listening(listener) => tracing::info!("{listener} is answered now"),
        Line::Problem(problem) => tracing::warn!("{problem}"),
        Line::MoreProblems => {
            tracing::warn!(
                "more objects have something wrong than are named here: `portway check` names them"
            );
        }
        Line::ServerTrouble { of, reason, retry_in } => {
            tracing::warn!(retry_in_ms = milliseconds(*retry_in), "{of}: {reason}; what is in force stays");
        }
        Line::ServerAnswers { of } => tracing::info!("{of}: the API server answers again"),
        Line::NoNode(name) => tracing::warn!(
            "the API server knows no Node `{name}`, so /healthz is red, the Node's zone, addresses and pod networks are unknown, and only \
             endpoints on a node of this name count as local: give the name that `kubectl get nodes` shows, by `--hostname-override` \
             (`portway run`: `--node-name`)"
        ),
        Line::NodeTakesClients { name, is_so: false } => tracing::warn!(
            "the Node `{name}` is gone, or on its way: /healthz is red from now on, so that load balancers pass it by; Services are served as \
             before"
        ),
        Line::NodeTakesClients { name, is_so: true } => {
            tracing::info!("the Node `{name}` takes clients again: its part of /healthz is green");
        }
        Line::PrimaryAddress { old, new } => primary_address(*old, *new),
        Line::Reports(count) => {
            tracing::warn!(count, "some objects have something wrong: `portway check` tells what");
        }
        Line::Found(finding) => found(finding),
        Line::FindingOver(FindingStatus { check, cause, .. }) => {
            tracing::info!(check, "this is no longer so: {cause}");
        }
        Line::Stopping(signal) => tracing::info!(signal, "stopping: the rules stay in place"),
    }
}

fn allocation_waits(services: &[String], reason: &str) {
    if services.is_empty() {
        return tracing::warn!("the state folder cannot be written; no Service waits for it: {reason}");
    }
    tracing::error!(
        services = services.join(","),
        "these Services wait for a new address or port, and all others are served: {reason}"
    );
}

fn primary_address(old: IpAddr, new: Option<IpAddr>) {
    match new {
        Some(new) => {
            tracing::warn!(%old, %new, "the primary address of this node changed: node ports answer at the new one");
        }
        None => {
            tracing::warn!(%old, "this node has lost its primary address, and has no other of this family");
        }
    }
}

fn found(finding: &FindingStatus) {
    let FindingStatus { check, cause, traffic, fix, .. } = finding;
    if finding.is_error() {
        tracing::error!(check, traffic, fix, "packets are lost on this host: {cause}");
    } else {
        tracing::warn!(check, traffic, fix, "packets may be lost on this host: {cause}");
    }
}
