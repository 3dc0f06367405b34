//! The names of chains, as upstream has them: five prefixes, each with sixteen letters of a hash; and the fixed ones.
//!
//! In: a service port, or one of its endpoints. Out: a name of at most 25 letters; the kernel takes no more than 28.
//!
//! The hash is of `namespace/name:port` and the protocol, without anything between them, and for an endpoint of its address
//! behind that: names are the same on every node and after every restart, and guides that show them stay true.

use kernel::xtables::ChainName;
use model::net::show_address_and_port;
use model::{Endpoint, ServicePortId};

use crate::xtables::{hash, name};

pub(super) const FORWARD: &str = "KUBE-FORWARD";
pub(super) const POSTROUTING: &str = "KUBE-POSTROUTING";
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";
/// kubelet has it too, with the same rule: cleanup leaves it.
pub(super) const FIREWALL: &str = "KUBE-FIREWALL";
/// Not upstream's, which knows one network of pods: marks what comes from none of several. It is named like a chain of a
/// service port so that upstream, should it take over, removes it with those that it does not know.
pub(super) const MARK_OUTSIDE: &str = "KUBE-SVC-MARK-OUTSIDE";

/// What the names of all chains begin with that belong to one service port.
pub const PREFIXES: [&str; 5] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-FW-", "KUBE-EXT-", "KUBE-SEP-"];

/// Does a chain of this name belong to a service port, of whichever proxy?
pub fn is_of_a_service_port(chain: &str) -> bool {
    PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// The names of one service port's chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `namespace/name:port`, or `namespace/name` where the port has no name: how comments call it.
    pub port: String,
    /// Leads to one of all endpoints.
    pub cluster: ChainName,
    /// Leads to one of this node's endpoints.
    pub local: ChainName,
    /// Traffic to addresses that the world can see.
    pub external: ChainName,
    /// Who may reach load balancer IPs.
    pub firewall: ChainName,
    protocol: &'static str,
}

impl Names {
    /// Of one service port.
    pub fn of(id: &ServicePortId) -> Self {
        let (port, protocol) = (port_name(id), id.protocol.name());
        let hash = hash(&format!("{port}{protocol}"));
        Self {
            cluster: name(&format!("KUBE-SVC-{hash}")),
            local: name(&format!("KUBE-SVL-{hash}")),
            external: name(&format!("KUBE-EXT-{hash}")),
            firewall: name(&format!("KUBE-FW-{hash}")),
            port,
            protocol,
        }
    }

    /// The chain of one of its endpoints.
    pub fn endpoint(&self, endpoint: &Endpoint) -> ChainName {
        let address = show_address_and_port(endpoint.address, endpoint.port);
        name(&format!("KUBE-SEP-{}", hash(&format!("{}{}{address}", self.port, self.protocol))))
    }
}

fn port_name(id: &ServicePortId) -> String {
    if id.port.is_empty() { id.service.to_string() } else { format!("{}:{}", id.service, id.port) }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use model::Place;
    use model::{Protocol, ServiceName};

    use super::*;
    use crate::xtables::SERVICES;

    fn names(namespace: &str, name: &str, port: &str, protocol: Protocol) -> Names {
        let service = ServiceName::new(namespace, name);
        Names::of(&ServicePortId { service, port: port.into(), protocol })
    }

    fn endpoint(address: &str, port: u16) -> Endpoint {
        let address: IpAddr = address.parse().expect("an address");
        Endpoint { address, port, slots: 1, place: Place::Here }
    }

    #[test]
    fn a_service_port_has_the_name_that_guides_show() {
        for (namespace, name, port, protocol, hash) in [
            ("default", "kubernetes", "https", Protocol::Tcp, "NPX46M4PTMTKRN6Y"),
            ("kube-system", "kube-dns", "dns", Protocol::Udp, "TCOU7JCQXEZGVUNU"),
            ("kube-system", "kube-dns", "dns-tcp", Protocol::Tcp, "ERIFXISQEP7F7OF4"),
            ("kube-system", "kube-dns", "metrics", Protocol::Tcp, "JD5MR3NA4I4DYORP"),
            ("ns1", "svc1", "p80", Protocol::Tcp, "XPGD46QRK7WJZT7O"),
            ("ns1", "svc1", "", Protocol::Tcp, "AQI2S6QIMU7PVVRP"),
        ] {
            let found = names(namespace, name, port, protocol);
            assert_eq!(found.cluster.as_str(), format!("KUBE-SVC-{hash}"), "{namespace}/{name}:{port}");
            assert_eq!(found.local.as_str(), format!("KUBE-SVL-{hash}"));
            assert_eq!(found.external.as_str(), format!("KUBE-EXT-{hash}"));
            assert_eq!(found.firewall.as_str(), format!("KUBE-FW-{hash}"));
        }
    }

    #[test]
    fn an_endpoint_has_the_name_that_upstream_gives_it() {
        for (namespace, name, address, expected) in [
            ("ns1", "svc1", "10.180.0.1", "KUBE-SEP-SXIVWICOYRO3J4NJ"),
            ("ns4", "svc4", "10.180.0.4", "KUBE-SEP-UKSFD7AGPMPPLUHC"),
            ("ns4", "svc4", "10.180.0.5", "KUBE-SEP-C6EBXVWJJZMIWKLZ"),
        ] {
            let names = names(namespace, name, "p80", Protocol::Tcp);
            assert_eq!(names.endpoint(&endpoint(address, 80)).as_str(), expected);
        }
    }

    #[test]
    fn an_endpoint_of_ipv6_is_named_with_brackets() {
        let names = names("ns1", "svc1", "p80", Protocol::Tcp);
        let expected = hash("ns1/svc1:p80tcp[fd00::1]:80");
        assert_eq!(names.endpoint(&endpoint("fd00::1", 80)).as_str(), format!("KUBE-SEP-{expected}"));
    }

    #[test]
    fn no_name_is_too_long_for_the_kernel() {
        let long = "n".repeat(253);
        let names = names(&long, &long, &long, Protocol::Sctp);
        let endpoint = names.endpoint(&endpoint("fd00::1", 65535));
        for name in [&names.cluster, &names.local, &names.external, &names.firewall, &endpoint] {
            assert!(name.as_str().len() <= ChainName::BYTES_MAX, "{name}");
            assert!(is_of_a_service_port(name.as_str()));
        }
        assert!(MARK_OUTSIDE.len() <= ChainName::BYTES_MAX && is_of_a_service_port(MARK_OUTSIDE));
        assert!(!is_of_a_service_port(SERVICES) && !is_of_a_service_port(FIREWALL));
    }
}
