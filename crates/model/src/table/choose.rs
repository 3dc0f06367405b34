//! Decides which endpoints of a service port this node may use.
//!
//! In: the candidates of one family, and this node's zone. Out: two choices, one over the whole cluster and one of this
//! node alone; the traffic policies say which is used for which traffic.
//!
//! Ready endpoints win. When there are none, endpoints that still serve while terminating are used, so that a rolling
//! update drops no connection. Hints count only when every ready endpoint has one and some are meant for us: all or
//! nothing, first those for nodes, then those for zones. They never apply to the choice of this node alone.

use super::candidates::Candidate;
use super::types::How;
use crate::place::Place;

/// The endpoints that may be used, and how they were chosen. Empty when there is none.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    pub(super) how: How,
    pub(super) endpoints: Vec<Candidate<'a>>,
}

/// The choice over the whole cluster.
pub(super) fn in_cluster<'a>(candidates: &[Candidate<'a>], zone: Option<&str>) -> Choice<'a> {
    let ready: Vec<_> = candidates.iter().filter(|c| c.is_ready()).copied().collect();
    if ready.is_empty() {
        let endpoints = candidates.iter().filter(|c| c.is_serving_while_terminating()).copied().collect();
        return Choice { how: How::Terminating, endpoints };
    }
    prefer_hinted(ready, zone)
}

/// The choice of this node alone.
pub(super) fn on_this_node<'a>(candidates: &[Candidate<'a>]) -> Choice<'a> {
    let local = || candidates.iter().filter(|c| c.place() == Place::Here).copied();
    let ready: Vec<_> = local().filter(Candidate::is_ready).collect();
    if ready.is_empty() {
        let endpoints = local().filter(Candidate::is_serving_while_terminating).collect();
        return Choice { how: How::LocalTerminating, endpoints };
    }
    Choice { how: How::LocalReady, endpoints: ready }
}

fn prefer_hinted<'a>(ready: Vec<Candidate<'a>>, zone: Option<&str>) -> Choice<'a> {
    let for_us = |c: &Candidate<'_>| c.is_meant_for_this_node();
    if ready.iter().all(Candidate::has_node_hint) && ready.iter().any(for_us) {
        return Choice { how: How::ForThisNode, endpoints: ready.into_iter().filter(for_us).collect() };
    }
    let for_zone =
        |c: &Candidate<'_>| c.zones().is_some_and(|zones| zones.iter().any(|z| Some(&**z) == zone));
    if ready.iter().all(|c| c.zones().is_some()) && ready.iter().any(for_zone) {
        return Choice { how: How::ForThisZone, endpoints: ready.into_iter().filter(for_zone).collect() };
    }
    Choice { how: How::Ready, endpoints: ready }
}
