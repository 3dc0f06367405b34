//! Whose a rule is, and what for: the parts that rules of one service port are made of.

use kernel::xtables::{Is, Match};
use model::net::IpNet;
use model::table::How;
use model::{Family, Frontend, FrontendKind, Pool, Route, ServicePort};

/// Upstream's order.
const KINDS: [FrontendKind; 4] =
    [FrontendKind::ClusterIp, FrontendKind::ExternalIp, FrontendKind::LoadBalancerIp, FrontendKind::NodePort];

/// A comment may have so many bytes: one more, and the program refuses everything.
const COMMENT_BYTES_MAX: usize = 255;

/// The routes that a service port holds in one family, in upstream's order.
pub(crate) fn routes_of(port: &ServicePort, family: Family) -> Vec<&Route> {
    let of_kind = |kind| {
        port.routes.iter().filter(move |route| route.kind == kind && route.frontend.family() == family)
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// The pools that a route leads to: that of the cluster, then that of the world.
pub(crate) fn pools(route: &Route) -> impl Iterator<Item = &Pool> {
    [&route.inside, &route.outside].into_iter().filter_map(|action| action.pool())
}

/// Is this the pool of this node's own endpoints?
pub(crate) fn is_local(pool: &Pool) -> bool {
    matches!(pool.how(), How::LocalReady | How::LocalTerminating)
}

/// A comment; names are of ASCII letters alone.
pub(crate) fn comment_of(mut text: String) -> Match {
    text.truncate(COMMENT_BYTES_MAX);
    Match::Comment(text)
}

/// The parts of a rule for a frontend: whose it is, and what it is dialled by.
pub(crate) fn frontend_parts(comment: Match, frontend: &Frontend) -> Vec<Match> {
    let destination = match frontend {
        Frontend::Address { ip, .. } => Some(Match::Destination(Is::Equal, IpNet::from(*ip))),
        Frontend::NodePort { .. } => None,
    };
    let protocol = [comment, Match::Protocol(frontend.protocol().into())];
    protocol.into_iter().chain(destination).chain([Match::DestinationPort(frontend.port())]).collect()
}
