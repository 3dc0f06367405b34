//! Runs a scenario against a subject, and holds the model to its own promises on the way.
//!
//! After each change the table that followed it, and all reports, must equal those that are made from scratch out of the
//! same facts, told in another order.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::fate::{Payload, Remembered};
use model::flows::{StaleFlows, VanishedFlows, stale_flows, vanished_flows};
use model::object::Read;
use model::{
    Cluster, Delta, Event, Family, ForwardingTable, Frontend, Packet, Promises, Report, Route, ServiceName,
    ServicePort, VanishedEndpoints,
};
use serde_json::Value;

use crate::facts::Facts;
use crate::print;
use crate::step::{Action, Outcome, Question, Scenario, Step};
use crate::subject::{Subject, Visit};

/// What became of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Packets that were asked.
    pub packets: usize,
    /// Packets that were not, as the subject makes no such promise.
    pub skipped: usize,
    /// What was not as expected, each with the whole state.
    pub failures: Vec<String>,
    /// What would have been right: the index of the step, and the lines below it.
    pub blessings: Vec<(usize, Vec<String>)>,
}

/// Runs all of it; what fails does not stop the rest.
pub(crate) fn run(scenario: &Scenario, subject: &mut dyn Subject) -> Outcomes {
    let mut run = Run {
        facts: Facts::default(),
        cluster: Cluster::new(scenario.config.clone()),
        table: ForwardingTable::default(),
        refused: BTreeSet::new(),
        since_stale: Delta::default(),
        vanished: VanishedEndpoints::new(),
        asked: Promises::default(),
        kept: subject.promises(&Promises::default()),
        subject,
        last: None,
        outcomes: Outcomes::default(),
    };
    for (index, step) in scenario.steps.iter().enumerate() {
        if let Err(problem) = run.step(index, step) {
            let failure = print::failure(scenario, step.line, &problem, &run.table, &run.reports());
            run.outcomes.failures.push(failure);
        }
    }
    run.outcomes
}

struct Run<'a> {
    facts: Facts,
    cluster: Cluster,
    table: ForwardingTable,
    /// Reports of objects of which nothing could be used.
    refused: BTreeSet<Report>,
    since_stale: Delta,
    /// Endpoints that have vanished since this was last asked.
    vanished: VanishedEndpoints,
    asked: Promises,
    kept: Promises,
    subject: &'a mut dyn Subject,
    /// Where the last packet was sent.
    last: Option<(IpAddr, Payload)>,
    outcomes: Outcomes,
}

impl Run<'_> {
    fn step(&mut self, index: usize, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Apply(objects) => objects.iter().try_for_each(|object| self.apply(object)),
            Action::Tell(event) => self.tell(event.clone()),
            Action::Promise(promises) => {
                self.asked = **promises;
                self.kept = self.subject.promises(promises);
                Ok(())
            }
            Action::Ask(question) => self.ask(index, question),
            Action::Again(packet) => self.again(packet),
            Action::After(seconds) => {
                self.subject.pass(*seconds);
                Ok(())
            }
            Action::Stale(expected) => self.stale(index, expected),
            Action::Vanished(expected) => self.vanished(index, expected),
            Action::Report(words) => self.report(words),
            Action::NoReports => {
                if self.reports().is_empty() {
                    Ok(())
                } else {
                    Err("expected: no reports".into())
                }
            }
            Action::Health(service, expected) => self.health(service, *expected),
        }
    }

    fn apply(&mut self, object: &Value) -> Result<(), String> {
        match model::object::read(object) {
            Read::Fact(fact) => self.tell(Event::Apply(fact)),
            Read::Refused(report) => {
                self.refused.insert(report);
                Ok(())
            }
            Read::OtherKind => Err(format!("no kind that decides packets: {object}")),
        }
    }

    fn tell(&mut self, event: Event) -> Result<(), String> {
        self.facts.take_in(&event);
        let changed = self.cluster.apply(event.clone());
        let delta = self.table.update(&self.cluster, &changed);
        self.subject.apply(&self.table, &delta)?;
        for (port, endpoints) in &delta.vanished {
            self.vanished.entry(port.clone()).or_default().extend(endpoints);
        }
        self.since_stale.merge(delta);
        if !self.cluster.apply(event).is_empty() {
            return Err("the same news, told again, changed something".into());
        }
        let cluster = self.facts.told_backwards(self.cluster.config());
        let table = ForwardingTable::of(&cluster);
        if table == self.table && reports(&cluster, &table) == reports(&self.cluster, &self.table) {
            return Ok(());
        }
        let (state, reports) = (print::table(&table), reports(&cluster, &table));
        let reports: Vec<String> = reports.into_iter().collect();
        Err(format!(
            "what followed the change differs from what is made from scratch, which is\n\n{state}{}\n\nand this was found:",
            reports.join("\n")
        ))
    }

    fn ask(&mut self, index: usize, question: &Question) -> Result<(), String> {
        let Some(visits) = self.send(&question.packet)? else { return Ok(()) };
        let expected = question.expected.as_ref().map(|outcome| outcome.seen_through(&self.kept));
        let expected = expected.as_ref();
        if let Some(other) = visits.iter().find(|visit| Some(&visit.outcome) != expected) {
            self.outcomes.blessings.push((index, other.outcome.lines()));
            return Err(print::difference(
                &expected.map(Outcome::lines).unwrap_or_default(),
                &other.outcome.lines(),
                &other.why,
            ));
        }
        for visit in &visits {
            because(question, visit)?;
        }
        Ok(())
    }

    fn again(&mut self, packet: &Packet) -> Result<(), String> {
        // Whoever remembers for each frontend by itself is asked only where it does.
        if self.kept.affinity == Remembered::ForFrontend
            && self.last != Some((packet.destination, packet.payload))
        {
            self.outcomes.skipped += 1;
            return Ok(());
        }
        for visit in self.send(packet)?.unwrap_or_default() {
            let Some(previous) = visit.previous else {
                return Err(
                    "the last packet could land at several endpoints, or at none: nothing to land on again"
                        .into(),
                );
            };
            let is_again = |landing: &crate::step::Landing| landing.endpoint == previous;
            if !matches!(&visit.outcome, Outcome::OneOf(all) if all.len() == 1 && all.iter().all(is_again)) {
                let expected = model::net::show_address_and_port(previous.0, previous.1);
                return Err(print::difference(&[expected], &visit.outcome.lines(), &visit.why));
            }
        }
        Ok(())
    }

    /// The answers to a packet, or none where the subject promises another fate than the scenario asks for.
    fn send(&mut self, packet: &Packet) -> Result<Option<Vec<Visit>>, String> {
        // Whoever cannot keep sources is asked all the same: where the packet lands is told, and so is this.
        let asked = Promises { keeps_source: self.kept.keeps_source, ..self.asked };
        let is_told_apart = self.table.fate(packet, &asked).fate != self.table.fate(packet, &self.kept).fate;
        let is_sticky =
            route_of(&self.table, packet).is_some_and(|(port, _)| port.affinity_seconds.is_some());
        if is_told_apart || is_sticky && !self.subject.remembers(packet, &self.table) {
            self.outcomes.skipped += 1;
            return Ok(None);
        }
        self.outcomes.packets += 1;
        self.last = Some((packet.destination, packet.payload));
        self.subject.ask(packet).map(Some)
    }

    fn stale(&mut self, index: usize, expected: &BTreeSet<StaleFlows>) -> Result<(), String> {
        let delta = std::mem::take(&mut self.since_stale);
        let found = stale_flows(&delta, &self.table, self.asked.default_node_port_addresses);
        if found == *expected {
            return Ok(());
        }
        let lines =
            |flows: &BTreeSet<StaleFlows>| -> Vec<String> { flows.iter().map(print::stale).collect() };
        self.outcomes.blessings.push((index, lines(&found)));
        Err(print::difference(&lines(expected), &lines(&found), &[]))
    }

    fn vanished(&mut self, index: usize, expected: &BTreeSet<VanishedFlows>) -> Result<(), String> {
        let vanished = std::mem::take(&mut self.vanished);
        let default = self.asked.default_node_port_addresses;
        let found = vanished_flows(&vanished, &self.cluster, &self.table, default);
        if found == *expected {
            return Ok(());
        }
        let lines =
            |flows: &BTreeSet<VanishedFlows>| -> Vec<String> { flows.iter().map(print::vanished).collect() };
        self.outcomes.blessings.push((index, lines(&found)));
        Err(print::difference(&lines(expected), &lines(&found), &[]))
    }

    fn report(&self, words: &[String]) -> Result<(), String> {
        let has_all = |report: &String| words.iter().all(|word| report.contains(word));
        if self.reports().iter().any(has_all) {
            return Ok(());
        }
        Err(format!("expected: a report with the words {}", words.join(" ")))
    }

    fn health(&self, service: &ServiceName, expected: Option<(u16, usize)>) -> Result<(), String> {
        let found =
            self.table.health_checks().get(service).map(|check| (check.port, print::local_endpoints(check)));
        if found == expected {
            return Ok(());
        }
        let line = |health: Option<(u16, usize)>| match health {
            Some((port, endpoints)) => format!("{service} {port} {endpoints}"),
            None => format!("{service} none"),
        };
        Err(print::difference(&[line(expected)], &[line(found)], &[]))
    }

    fn reports(&self) -> BTreeSet<String> {
        let refused = self.refused.iter().map(ToString::to_string);
        reports(&self.cluster, &self.table).into_iter().chain(refused).collect()
    }
}

/// The route that a packet takes, with its service port, if node ports answer where it was sent.
pub(crate) fn route_of<'a>(
    table: &'a ForwardingTable,
    packet: &Packet,
) -> Option<(&'a Arc<ServicePort>, &'a Route)> {
    let (protocol, port) = packet.payload.transport()?;
    let (ip, family) = (packet.destination, Family::of(packet.destination));
    let asked = [Frontend::Address { ip, protocol, port }, Frontend::NodePort { family, protocol, port }];
    asked.iter().find_map(|frontend| table.route(frontend))
}

fn reports(cluster: &Cluster, table: &ForwardingTable) -> BTreeSet<String> {
    cluster.reports().chain(table.reports()).map(ToString::to_string).collect()
}

fn because(question: &Question, visit: &Visit) -> Result<(), String> {
    let is_said = |text: &String| visit.why.iter().any(|reason| reason.contains(text.as_str()));
    match question.because.iter().find(|text| !visit.why.is_empty() && !is_said(text)) {
        Some(missing) => Err(print::difference(&[format!("because {missing}")], &[], &visit.why)),
        None => Ok(()),
    }
}
