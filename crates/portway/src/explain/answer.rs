//! Says the answer: the fate, every place where the packet may land, and the reasons.

use std::collections::BTreeSet;

use dataplane::Mode;
use model::fate::{OneOf, Payload};
use model::net::show_address_and_port;
use model::{Answer, Fate, Landing, ServiceName, Why};
use observe::picture::Picture;
use serde_json::{Value, json};

use super::holders::Holders;
use super::resolve::{Asked, pod_at};
use crate::output::Paint;
use crate::reports::Reports;
use crate::table::Table;

/// An answer and what it is about.
#[derive(Debug)]
pub(super) struct Explained<'a> {
    pub(super) picture: &'a Picture,
    pub(super) mode: Mode,
    pub(super) asked: &'a Asked,
    pub(super) answer: &'a Answer,
    pub(super) holders: Holders<'a>,
}

impl Explained<'_> {
    /// For people.
    pub(super) fn text(&self, paint: Paint) -> String {
        let landings = match &self.answer.fate {
            Fate::OneOf(one_of) => Some(indent(&self.landings(one_of).to_string())),
            Fate::Untouched | Fate::Rejected | Fate::Dropped => None,
        };
        let note = |note: &String| format!("{}: {note}\n", paint.doubtful("Note"));
        let notes = Some(self.asked.notes.iter().map(note).collect::<Vec<_>>().concat());
        let notes = notes.filter(|notes| !notes.is_empty());
        let reports = Some(self.reports()).filter(|reports| !reports.is_empty());
        let reports =
            reports.map(|reports| format!("{}\n{}", paint.doubtful("Reports"), indent(&reports.join("\n"))));
        let first = [format!("{}\n", paint.strong(&self.question())), format!("{}\n", self.fate(paint))];
        let paragraphs =
            first.into_iter().chain(landings).chain([self.reasons(paint)]).chain(notes).chain(reports);
        paragraphs.collect::<Vec<_>>().join("\n")
    }

    /// For programs.
    pub(super) fn value(&self) -> Value {
        let packet = &self.asked.packet;
        let transport = packet.payload.transport();
        let one_of = match &self.answer.fate {
            Fate::OneOf(one_of) => Some(one_of),
            _ => None,
        };
        json!({
            "packet": {
                "source": packet.source,
                "destination": packet.destination,
                "protocol": transport.map_or("icmp", |(protocol, _)| protocol.name()),
                "port": transport.map(|(_, port)| port),
                "interface": packet.interface,
            },
            "node": self.picture.table().node().name,
            "mode": self.mode.name(),
            "fate": fate_word(&self.answer.fate),
            "service": self.services().first().map(|name| name.as_str().to_owned()),
            "affinitySeconds": one_of.and_then(|one_of| one_of.affinity_seconds),
            "slots": one_of.map(|one_of| one_of.slots),
            "endpoints": one_of.map(|one_of| self.landing_values(one_of)).unwrap_or_default(),
            "why": self.sentences().collect::<Vec<_>>(),
            "notes": self.asked.notes,
            "reports": self.reports(),
            "warnings": self.picture.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    /// `10.244.1.5 → 10.96.0.10:53/udp, on node a in mode nftables`.
    fn question(&self) -> String {
        let packet = &self.asked.packet;
        let sender = match &self.asked.sender {
            Some(called) => format!("{called} ({})", packet.source),
            None => packet.source.to_string(),
        };
        let receiver = match packet.payload {
            Payload::Ping => format!("a ping of {}", packet.destination),
            Payload::Transport { protocol, port } => {
                format!("{}/{protocol}", show_address_and_port(packet.destination, port))
            }
        };
        let through = packet.interface.as_ref().map(|name| format!(" through {name}")).unwrap_or_default();
        let node = &self.picture.table().node().name;
        format!("{sender} → {receiver}{through}, on node {node} in mode {}", self.mode)
    }

    fn fate(&self, paint: Paint) -> String {
        match &self.answer.fate {
            Fate::OneOf(one_of) => match one_of.landings.len() {
                1 => paint.good("Goes to this endpoint."),
                count => paint.good(&format!("Goes to one of these {count} endpoints.")),
            },
            Fate::Rejected => paint.bad("Rejected: the client learns at once that nobody answers."),
            Fate::Dropped => {
                paint.bad("Dropped: the client hears nothing, and gives up after its own timeout.")
            }
            Fate::Untouched => paint.doubtful(
                "Untouched: this proxy leaves it alone, and it goes where routes and other rules lead it.",
            ),
        }
    }

    fn reasons(&self, paint: Paint) -> String {
        let lines = self.sentences().enumerate().map(|(index, why)| format!("{}. {why}", index + 1));
        format!("{}\n{}", paint.strong("Why"), indent(&lines.collect::<Vec<_>>().join("\n")))
    }

    fn sentences(&self) -> impl Iterator<Item = String> {
        self.answer.why.iter().flat_map(|why| self.holders.sentences(why))
    }

    fn landings(&self, one_of: &OneOf) -> Table {
        let mut table = Table::new(["ENDPOINT", "POD", "SHARE", "SEES AS SOURCE"]);
        for landing in &one_of.landings {
            let pod = self.pod(one_of, landing).unwrap_or_else(|| "<unknown>".to_owned());
            let share = format!("{} % ({}/{})", percent(landing, one_of), landing.slots, one_of.slots);
            let seen = if landing.masqueraded {
                "this node (masqueraded)".to_owned()
            } else {
                format!("{} (not masqueraded)", self.asked.packet.source)
            };
            table.push([landing.to_string(), pod, share, seen]);
        }
        table
    }

    fn landing_values(&self, one_of: &OneOf) -> Vec<Value> {
        let value = |landing: &Landing| {
            json!({
                "address": landing.address,
                "port": landing.port,
                "pod": self.pod(one_of, landing),
                "slots": landing.slots,
                "share": f64::from(landing.slots) / f64::from(one_of.slots),
                "masqueraded": landing.masqueraded,
            })
        };
        one_of.landings.iter().map(value).collect()
    }

    fn pod(&self, one_of: &OneOf, landing: &Landing) -> Option<String> {
        pod_at(self.picture, one_of.port.service.namespace(), landing.address)
    }

    /// What is wrong with the Services that the reasons name.
    fn reports(&self) -> Vec<String> {
        let reports = Reports::of(self.picture);
        let services = self.services();
        services.iter().flat_map(|name| reports.about(name.as_str())).map(ToString::to_string).collect()
    }

    fn services(&self) -> BTreeSet<ServiceName> {
        let named = self.answer.why.iter().filter_map(service_of);
        named.chain(self.holders.names()).cloned().collect()
    }
}

/// The Service that a reason names.
fn service_of(why: &Why) -> Option<&ServiceName> {
    match why {
        Why::Frontend { port, .. } | Why::NodePortElsewhere { port, .. } => Some(&port.service),
        Why::NoEndpoints { service, .. }
        | Why::UndefinedPort { service }
        | Why::PingOfClusterIp { service } => Some(service),
        _ => None,
    }
}

fn fate_word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Untouched => "Untouched",
        Fate::OneOf(_) => "OneOf",
        Fate::Rejected => "Rejected",
        Fate::Dropped => "Dropped",
    }
}

/// `50`, or `33.3`.
fn percent(landing: &Landing, one_of: &OneOf) -> String {
    let percent = f64::from(landing.slots) * 100.0 / f64::from(one_of.slots);
    format!("{percent:.1}").trim_end_matches(".0").to_owned()
}

fn indent(text: &str) -> String {
    text.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}
