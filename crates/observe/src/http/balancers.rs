//! `healthCheckNodePort`: load balancers ask each node whether a Service has endpoints there.
//!
//! In: the table, and where node ports answer. Out: who is listened for where, and upstream's answer: `200` where this node has
//! ready endpoints of the Service and is healthy, else `503`, with their number as the weight of this node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::StatusCode;
use hyper::header::HeaderName;
use model::{Family, ForwardingTable, NodePortAddress, ServiceName};
use tokio::sync::watch;

use super::answer::{Answer, Asked, JSON, Page};
use super::board::Board;

/// For each Service and address, how many ready endpoints are here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balancers(pub(super) BTreeMap<(ServiceName, SocketAddr), usize>);

impl Balancers {
    /// What the table asks for. `default` says where node ports answer when nothing is configured.
    pub fn of(table: &ForwardingTable, default: NodePortAddress) -> Self {
        let addresses = |family| addresses(table, family, default);
        let by_family = [(Family::V4, addresses(Family::V4)), (Family::V6, addresses(Family::V6))];
        let mut all = BTreeMap::new();
        for (service, check) in table.health_checks() {
            for (family, addresses) in &by_family {
                let Some(count) = *check.local_endpoints.get(*family) else { continue };
                let at = addresses.iter().map(|ip| SocketAddr::new(*ip, check.port));
                all.extend(at.map(|at| ((service.clone(), at), count)));
            }
        }
        Self(all)
    }
}

/// Where node ports of a family answer. All addresses are one listener.
fn addresses(table: &ForwardingTable, family: Family, default: NodePortAddress) -> Vec<IpAddr> {
    let node = table.node();
    let entries = node.node_port_addresses(family, default);
    let (all, localhost): (IpAddr, IpAddr) = match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    };
    let is_everything = |entry: &NodePortAddress| match entry {
        NodePortAddress::All => true,
        NodePortAddress::Within(net) => net.prefix_len() == 0,
        NodePortAddress::Primary | NodePortAddress::Localhost => false,
    };
    if entries.iter().any(is_everything) {
        return vec![all];
    }
    let own = node.addresses.iter().copied().filter(|ip| Family::of(*ip) == family).chain([localhost]);
    own.filter(|ip| node.covers(&entries, *ip)).collect()
}

/// One Service's answers at one address.
#[derive(Debug)]
pub(super) struct BalancerPage {
    pub(super) board: Board,
    pub(super) balancers: watch::Receiver<Balancers>,
    pub(super) of: (ServiceName, SocketAddr),
}

impl Page for BalancerPage {
    fn answer(&self, _: &Asked<'_>) -> Answer {
        // A Service that has just gone has no endpoint here.
        let count = self.balancers.borrow().0.get(&self.of).copied().unwrap_or(0);
        let facts = self.board.health();
        answer(&self.of.0, count, facts.judge(self.board.elapsed()).is_healthy)
    }
}

fn answer(service: &ServiceName, count: usize, is_healthy: bool) -> Answer {
    let code = if count > 0 && is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{}\",\n\t\t\"name\": \"{}\"\n\t}},\n\t\"localEndpoints\": {count},\n\t\
         \"serviceProxyHealthy\": {is_healthy}\n}}",
        service.namespace(),
        service.name()
    );
    let mut answer = Answer::new(code, JSON, body);
    let weight = HeaderName::from_static("x-load-balancing-endpoint-weight");
    answer.headers.push((weight, count.to_string()));
    answer
}

#[cfg(test)]
mod tests {
    use super::super::answer::Content;
    use super::*;

    #[test]
    fn the_body_and_the_codes_are_upstreams() {
        let service = ServiceName::new("shop", "web");
        for (count, is_healthy, code) in [(2, true, 200), (0, true, 503), (2, false, 503)] {
            let answer = answer(&service, count, is_healthy);
            assert_eq!(answer.status.as_u16(), code);
            assert_eq!(answer.headers[0].1, count.to_string());
            let Content::Whole(text) = answer.content else { panic!("it is short") };
            let expected = format!(
                "{{\n\t\"service\": {{\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t}},\n\t\"localEndpoints\": {count},\n\
                 \t\"serviceProxyHealthy\": {is_healthy}\n}}"
            );
            assert_eq!(text, expected);
        }
    }
}
