//! Preconditions of this host: does anything outside of our rules stop a packet of a Service?
//!
//! In: what the kernel says of this host, read once ([`Conditions`]), a bounded sample of the [`ForwardingTable`], and what is
//! known of the Node ([`NodeFacts`]). Out: [`Finding`]s, ordered, each with the packet that is affected and the command that helps.
//!
//! | file | what it is for |
//! |---|---|
//! | `conditions` | reads sysctls, links, routes, conntrack counters and rules of other programs |
//! | `path` | the paths of example packets through this host |
//! | `packet` | checks that judge one path: `explain` asks them about the packet of the user |
//! | `host` | checks that judge the host as a whole |
//!
//! A check says [`Severity::Error`] only if it can name a packet that is lost; everything else is [`Severity::Possible`].
//! Each check is a pure function. [`COMMON`] holds for every mode; a mode adds its own by the constant `CHECKS` of its folder.

mod conditions;
mod host;
mod packet;
mod path;

use model::{ForwardingTable, Promises};

pub use conditions::{Conditions, ConntrackLoad, LinkConditions};
pub use host::{ACCEPT_RA, NODE_ADDRESS, NODE_NAME, NodeFacts, OTHER_PROXY, TCP_LOOSE};
pub use packet::{BRIDGE_HAIRPIN, BRIDGE_NETFILTER, CONNTRACK_FULL, FORWARD_FILTER, IP_FORWARD, RP_FILTER};
pub use path::{FilterVerdict, Path, paths, paths_of};

/// Service ports that are looked at for examples. More would make the cost follow the cluster.
pub const SAMPLE_MAX: usize = 1024;

/// The checks of every mode.
pub const COMMON: &[Check] =
    &[CONNTRACK_FULL, TCP_LOOSE, RP_FILTER, ACCEPT_RA, OTHER_PROXY, NODE_ADDRESS, NODE_NAME];

/// How certain it is that packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The packet that the finding names is lost.
    Error,
    /// Packets may be lost; that depends on something that this host does not tell.
    Possible,
}

impl Severity {
    /// Both, the worse one first.
    pub const ALL: [Self; 2] = [Self::Error, Self::Possible];

    /// As it is written in output and labels.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Possible => "possible",
        }
    }
}

/// One precondition.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name in output, in labels and in the documentation.
    pub name: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// The traffic that it concerns.
    pub traffic: &'static str,
    /// How it is answered.
    pub probe: Probe,
}

/// How a check is answered.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// For the path of one packet.
    Packet(PacketProbe),
    /// For the host as a whole.
    Host(HostProbe),
    /// For the path of one packet, and for the host where no example shows it.
    Both(PacketProbe, HostProbe),
}

/// What stops the packet on this path.
pub type PacketProbe = fn(&Conditions, &Path) -> Option<Trouble>;
/// What is wrong with the host.
pub type HostProbe = fn(&Subject<'_>) -> Vec<HostTrouble>;

impl Probe {
    fn of_packet(self) -> Option<PacketProbe> {
        match self {
            Probe::Packet(probe) | Probe::Both(probe, _) => Some(probe),
            Probe::Host(_) => None,
        }
    }

    fn of_host(self) -> Option<HostProbe> {
        match self {
            Probe::Host(probe) | Probe::Both(_, probe) => Some(probe),
            Probe::Packet(_) => None,
        }
    }
}

/// What stops a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// How certain that is.
    pub severity: Severity,
    /// Why.
    pub cause: String,
    /// The command that helps.
    pub fix: String,
}

/// What is wrong with the host, and whom that concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTrouble {
    /// The trouble.
    pub trouble: Trouble,
    /// The packet, or the kind of traffic.
    pub traffic: String,
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// How certain it is.
    pub severity: Severity,
    /// The check.
    pub check: &'static str,
    /// Why packets are lost.
    pub cause: String,
    /// The packet that is lost, or the kind of traffic.
    pub traffic: String,
    /// The command that helps.
    pub fix: String,
}

/// What the checks look at.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The host.
    pub conditions: &'a Conditions,
    /// A sample of the table.
    pub table: &'a ForwardingTable,
    /// What the mode does where Kubernetes leaves the choice.
    pub promises: &'a Promises,
    /// What is known of the Node.
    pub node: &'a NodeFacts,
    /// Paths of example packets.
    pub paths: &'a [Path],
}

/// Runs these checks. Of findings with the same cause the first is kept, with its example.
pub fn examine<'a>(checks: impl IntoIterator<Item = &'a Check>, subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = checks.into_iter().flat_map(|check| found(check, subject)).collect();
    findings.sort();
    findings
}

fn found(check: &Check, subject: &Subject<'_>) -> Vec<Finding> {
    let of_path = |probe: PacketProbe, path: &Path| {
        let mut trouble = probe(subject.conditions, path)?;
        if !path.is_certain {
            trouble.severity = Severity::Possible;
        }
        Some(HostTrouble { trouble, traffic: path.to_string() })
    };
    let of_packets = check
        .probe
        .of_packet()
        .into_iter()
        .flat_map(|probe| subject.paths.iter().filter_map(move |path| of_path(probe, path)));
    let mut troubles: Vec<HostTrouble> = of_packets.collect();
    if troubles.is_empty() {
        troubles.extend(check.probe.of_host().into_iter().flat_map(|probe| probe(subject)));
    }
    let mut findings: Vec<Finding> = Vec::new();
    for HostTrouble { trouble: Trouble { severity, cause, fix }, traffic } in troubles {
        let is_same =
            |known: &Finding| (known.severity, &known.cause, &known.fix) == (severity, &cause, &fix);
        if !findings.iter().any(is_same) {
            findings.push(Finding { severity, check: check.name, cause, traffic, fix });
        }
    }
    findings
}

/// What stops this one packet, by the checks that judge packets; the worst first.
pub fn decides<'a>(
    checks: impl IntoIterator<Item = &'a Check>,
    conditions: &Conditions,
    path: &Path,
) -> Vec<Finding> {
    let judge = |check: &Check| {
        let Trouble { severity, cause, fix } = check.probe.of_packet()?(conditions, path)?;
        Some(Finding { severity, check: check.name, cause, traffic: path.to_string(), fix })
    };
    let mut findings: Vec<Finding> = checks.into_iter().filter_map(judge).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests;
