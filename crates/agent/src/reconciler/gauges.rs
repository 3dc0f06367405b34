//! What is counted of the table, kept up as it changes: a page of metrics never walks through it.

use model::{Action, Delta, ForwardingTable, FrontendKind, ServicePort};
use observe::metrics::{Gauges, WithoutLocal};

use super::{Loop, UnderWay};

/// Counts of the table.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) service_ports: usize,
    without_local: WithoutLocal,
    /// Fields of objects that have something wrong. They are counted when everything is compared.
    pub(super) reports: usize,
}

impl Tally {
    /// Follows a change of the table, which it has taken in already.
    pub(super) fn follow(&mut self, delta: &Delta, table: &ForwardingTable) {
        for (id, before) in &delta.before {
            if let Some(before) = before {
                self.service_ports -= 1;
                self.count(before, |count| *count -= 1);
            }
            if let Some(now) = table.port(id) {
                self.service_ports += 1;
                self.count(now, |count| *count += 1);
            }
        }
    }

    /// A policy that finds endpoints, and none here, drops: the model has decided that.
    fn count(&mut self, port: &ServicePort, change: fn(&mut usize)) {
        for family in model::Family::ALL {
            let routes = || port.routes.iter().filter(|route| route.frontend.family() == family);
            let is_cluster_ip = |kind| kind == FrontendKind::ClusterIp;
            if routes().any(|route| is_cluster_ip(route.kind) && route.inside == Action::Drop) {
                change(self.without_local.internal.get_mut(family));
            }
            if routes().any(|route| !is_cluster_ip(route.kind) && route.outside == Action::Drop) {
                change(self.without_local.external.get_mut(family));
            }
        }
    }
}

impl Loop {
    /// What the loop knows, as figures. Cheap, however large the table is.
    pub fn gauges(&self) -> Gauges {
        let gauges = Gauges {
            is_pending: !self.pending.is_empty()
                || matches!(&self.under_way, UnderWay::Sync(about, _) if !about.is_empty()),
            service_ports: self.tally.service_ports,
            without_local: self.tally.without_local,
            problems: self.tally.reports + self.picture.problems().len() + self.doubtful().count(),
            findings: self.examinations.worst(),
            not_listening: self.not_listening.len(),
            changed_at: self.told_at().map(|at| at.elapsed),
            // Of one that was never heard the silence began with us.
            heard_at: self.server.as_ref().map(|server| server.heard_at().unwrap_or_default()),
            ..self.figures.gauges()
        };
        self.drift.count(gauges)
    }
}
