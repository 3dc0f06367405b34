//! What a scenario says, line by line, once it is read.
//!
//! Nothing here knows a mode: objects and changes go in, packets and where they end come out.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;

use model::flows::{StaleFlows, VanishedFlows};
use model::{Config, Event, Packet, Promises, ServiceName};
use serde_json::Value;

/// One file.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The file.
    pub path: PathBuf,
    /// Its lines, as they stand there.
    pub lines: Vec<String>,
    /// What the operator chose for this node.
    pub config: Config,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Something that happens, or is asked.
#[derive(Debug)]
pub(crate) struct Step {
    /// The line that says so, counted from 1.
    pub line: usize,
    /// The indented lines below it, as indexes into [`Scenario::lines`].
    pub body: Range<usize>,
    /// What.
    pub action: Action,
}

/// What happens, or is asked.
#[derive(Debug)]
pub(crate) enum Action {
    /// These objects are as follows now.
    Apply(Vec<Value>),
    /// Something else is as follows now, or an object is gone.
    Tell(Event),
    /// Packets below are asked with these promises.
    Promise(Box<Promises>),
    /// Where does this packet end?
    Ask(Question),
    /// The client of the last packet connects again, perhaps to another frontend: it lands where the last one did.
    Again(Packet),
    /// So many seconds pass.
    After(u64),
    /// These flows became stale since this was last asked.
    Stale(BTreeSet<StaleFlows>),
    /// Connections to these endpoints lead nowhere since this was last asked.
    Vanished(BTreeSet<VanishedFlows>),
    /// There is a report with all these words.
    Report(Vec<String>),
    /// There are no reports.
    NoReports,
    /// What a load balancer hears at a health check port: how many endpoints are here. `None`: there is no such port.
    Health(ServiceName, Option<(u16, usize)>),
}

/// A packet, and where it is expected to end.
#[derive(Debug)]
pub(crate) struct Question {
    /// The packet.
    pub packet: Packet,
    /// Where it ends. `None` in a scenario that waits to be blessed.
    pub expected: Option<Outcome>,
    /// Each of these texts occurs in one of the reasons.
    pub because: Vec<String>,
}

/// Where a packet ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Where it would end without us.
    Untouched,
    /// The client is refused at once.
    Rejected,
    /// The client hears nothing.
    Dropped,
    /// At one of these.
    OneOf(BTreeSet<Landing>),
}

impl Outcome {
    /// The same from somebody who may be unable to keep sources.
    pub(crate) fn seen_through(&self, promises: &Promises) -> Self {
        let Outcome::OneOf(landings) = self else { return self.clone() };
        let hides = !promises.keeps_source;
        let seen = |landing: &Landing| Landing { masqueraded: landing.masqueraded || hides, ..*landing };
        Outcome::OneOf(landings.iter().map(seen).collect())
    }

    /// One line for each thing that it says, as a scenario writes it.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Outcome::Untouched => vec!["untouched".into()],
            Outcome::Rejected => vec!["rejected".into()],
            Outcome::Dropped => vec!["dropped".into()],
            Outcome::OneOf(landings) => landings.iter().map(ToString::to_string).collect(),
        }
    }
}

/// One place where a packet may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Landing {
    /// The endpoint.
    pub endpoint: (IpAddr, u16),
    /// How often.
    pub share: Share,
    /// The endpoint sees this node as the source.
    pub masqueraded: bool,
}

impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&model::net::show_address_and_port(self.endpoint.0, self.endpoint.1))?;
        if self.share != Share::ALL {
            write!(f, " {}/{}", self.share.part, self.share.whole)?;
        }
        if self.masqueraded { f.write_str(" masqueraded") } else { Ok(()) }
    }
}

/// A fraction in its lowest terms: modes may count in other slots, but not give other shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share {
    part: u32,
    whole: u32,
}

impl Share {
    /// Every time.
    pub(crate) const ALL: Share = Share { part: 1, whole: 1 };

    /// `part` of `whole`. `None` when that is no share.
    pub(crate) fn new(part: u32, whole: u32) -> Option<Self> {
        let divisor = gcd(part, whole);
        (part > 0 && part <= whole).then(|| Self { part: part / divisor, whole: whole / divisor })
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
