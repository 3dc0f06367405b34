//! The sentences for what a Service does not get, or does not keep: which field, which value, why, and the way out.

use model::{ObjectRef, Report, ServiceName};

use super::Applicant;
use super::demand::{Want, Wish};
use crate::ipam::options::{LOAD_BALANCER_CIDR, NODE_PORT_RANGE, SERVICE_CIDR};
use crate::ipam::ranges::Pool;
use crate::ipam::store::{Resource, Slot};

/// A manifest names a value outside its range.
pub(super) fn out_of_range(
    applicant: &Applicant<'_>,
    slot: Slot,
    wish: &Wish,
    pool: Option<&Pool>,
) -> Report {
    let (range, flag) = (range_words(pool), flag(slot));
    let problem = format!(
        "is not one of {range}; the Service goes without. Choose one inside, leave the field out to be given one, or \
         pass `{flag}` with a range that holds it"
    );
    Report::new(ObjectRef::service(applicant.name), &wish.field, &shown(&wish.resource), problem)
}

/// Nothing is left.
pub(super) fn exhausted(applicant: &Applicant<'_>, slot: Slot, pool: Option<&Pool>) -> Report {
    let (range, flag) = (range_words(pool), flag(slot));
    let problem = format!(
        "nothing is left in {range}; the Service goes without. Delete Services that are not needed, or pass a larger \
         `{flag}`"
    );
    Report::new(ObjectRef::service(applicant.name), field(slot), "", problem)
}

/// Somebody else uses it, or the Service itself in another place.
pub(super) fn taken(applicant: &Applicant<'_>, wish: &Wish, user: &ServiceName) -> Report {
    let problem = if user == applicant.name {
        "is named twice in this Service; the first place counts".to_owned()
    } else {
        format!(
            "belongs to Service {user}, which had it first; this Service goes without. Choose another, or leave the \
             field out to be given one"
        )
    };
    Report::new(ObjectRef::service(applicant.name), &wish.field, &shown(&wish.resource), problem)
}

/// Its holder is not ours to judge.
pub(super) fn relied_upon(applicant: &Applicant<'_>, wish: &Wish, holder: &ServiceName) -> Report {
    let problem = format!(
        "belongs to Service {holder}, which is not in these manifests; but another Portway has the same `--state-dir` open \
         and may serve it, so this Service goes without for now. Choose another, or stop that Portway"
    );
    Report::new(ObjectRef::service(applicant.name), &wish.field, &shown(&wish.resource), problem)
}

/// Its holder may be served: a command that only shows leaves it there.
pub(super) fn reserved(applicant: &Applicant<'_>, wish: &Wish, holder: &ServiceName) -> Report {
    let problem = format!(
        "belongs to Service {holder}, which is not in these manifests, and is not shown as this Service's. `portway run` with these \
         manifests takes it from {holder}, unless another Portway serves that; choose another to leave it there"
    );
    Report::new(ObjectRef::service(applicant.name), &wish.field, &shown(&wish.resource), problem)
}

/// It could not be written down, so it is not given yet.
pub(super) fn waiting(applicant: &Applicant<'_>, want: &Want, reason: &str) -> Report {
    let problem = format!("waits until the allocation can be written to the state folder: {reason}");
    let (field, value) = match &want.wish {
        Some(wish) => (wish.field.as_str(), shown(&wish.resource)),
        None => (field(want.slot), String::new()),
    };
    Report::new(ObjectRef::service(applicant.name), field, &value, problem)
}

/// It lies outside of the ranges of today, so that another was given.
pub(super) fn moved(applicant: &Applicant<'_>, slot: Slot, old: &Resource, new: &Resource) -> Report {
    let (flag, new) = (flag(slot), shown(new));
    let problem = format!(
        "was its own until `{flag}` changed, and lies outside now: the Service has `{new}` instead. Pass the old \
         `{flag}` to have it back"
    );
    Report::new(ObjectRef::service(applicant.name), field(slot), &shown(old), problem)
}

fn shown(resource: &Resource) -> String {
    match resource {
        Resource::Address(ip) => ip.to_string(),
        Resource::Port(_, port) => port.to_string(),
    }
}

fn field(slot: Slot) -> &'static str {
    match slot {
        Slot::ClusterIp(_) => "spec.clusterIP",
        Slot::LoadBalancerIp(_) => "status.loadBalancer.ingress",
        Slot::NodePort(..) => "spec.ports[].nodePort",
        Slot::HealthCheck => "spec.healthCheckNodePort",
    }
}

fn flag(slot: Slot) -> &'static str {
    match slot {
        Slot::ClusterIp(_) => SERVICE_CIDR,
        Slot::LoadBalancerIp(_) => LOAD_BALANCER_CIDR,
        Slot::NodePort(..) | Slot::HealthCheck => NODE_PORT_RANGE,
    }
}

fn range_words(pool: Option<&Pool>) -> String {
    match pool {
        Some(Pool::Addresses(net)) => net.to_string(),
        Some(Pool::Ports(_, ports)) => format!("{}-{}", ports.start(), ports.end()),
        None => "any range".to_owned(),
    }
}
