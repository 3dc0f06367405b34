//! What is counted of the table, kept up as it changes: a page of metrics never walks through it.

use model::{Action, Delta, ForwardingTable, FrontendKind, ServicePort};
use observe::metrics::{Gauges, Metrics, WithoutLocal};

use super::{Loop, UnderWay};

/// Counts of the table.
#[derive(Debug, Default)]
pub(super) struct TableGauges {
    pub(super) service_ports: usize,
    without_local: WithoutLocal,
    /// Fields of objects that have something wrong. They are counted when everything is compared.
    pub(super) reports: usize,
}

impl TableGauges {
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
    /// All that is counted and known, for the page of metrics. Cheap, however large the table is.
    pub fn metrics(&self) -> Metrics {
        self.recorder.metrics_with(self.gauges())
    }

    /// What the loop knows at the moment.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            is_pending: self.is_pending(),
            service_ports: self.table_gauges.service_ports,
            without_local: self.table_gauges.without_local,
            problems: self.table_gauges.reports + self.picture.problems().len() + self.doubtful().count(),
            findings: self.examinations.worst(),
            not_listening: self.not_listening.len(),
            changed_at: self.told_at().map(|at| at.elapsed),
            // Of one that was never heard the silence began with us.
            heard_at: self.server.as_ref().map(|server| server.heard_at().unwrap_or_default()),
            fighting: self.drift.fighting(),
            ..self.figures.gauges()
        }
    }

    /// Does something wait to be written, or is it being written?
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty() || matches!(&self.under_way, UnderWay::Sync(about, _) if !about.is_empty())
    }
}
