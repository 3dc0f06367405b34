//! The points in which modes may differ, as the program promises them.

use dataplane::registry;
use model::fate::{Loopback, Refusal, Remembered};
use model::{NodePortAddress, Promises};

use crate::markdown::table;

/// A point: how it is called, what a mode promises, and what upstream does.
struct Point {
    name: &'static str,
    of: fn(&Promises) -> &'static str,
    upstream: &'static str,
}

const POINTS: [Point; 11] = [
    Point {
        name: "a port that the Service of a cluster IP does not have",
        of: |promises| refusal(promises.undefined_port_of_cluster_ip),
        upstream: "the same in each mode",
    },
    Point {
        name: "a port that no Service has at an external or load balancer IP",
        of: |promises| refusal(promises.undefined_port_of_external_ip),
        upstream: "the same in each mode",
    },
    Point {
        name: "an unallocated address in a range of cluster IPs",
        of: |promises| refusal(promises.unallocated_service_ip),
        upstream: "the same in each mode",
    },
    Point {
        name: "a ping of a cluster IP",
        of: |promises| refusal(promises.ping_of_cluster_ip),
        upstream: "the same; with IPVS the node has the address, and answers",
    },
    Point {
        name: "node ports without `nodePortAddresses`",
        of: |promises| match promises.default_node_port_addresses {
            NodePortAddress::Primary => "primary address",
            _ => "all addresses",
        },
        upstream: "the same in each mode",
    },
    Point {
        name: "node ports on loopback addresses, where `nodePortAddresses` covers them",
        of: |promises| match promises.loopback_node_ports {
            Loopback::Never => "never",
            Loopback::Localhost => "127.0.0.1 and `::1`, TCP and UDP",
            Loopback::Ipv4 => "127.0.0.0/8",
            Loopback::Both => "127.0.0.0/8 and `::1`",
        },
        upstream: "iptables: IPv4, with `route_localnet`; nftables: TCP, behind an alpha gate; ipvs: never",
    },
    Point {
        name: "node ports on link-local addresses of IPv6",
        of: |promises| if promises.link_local_node_ports { "answered" } else { "left alone" },
        upstream: "the same in each mode",
    },
    Point {
        name: "an endpoint of another node that is sent to itself through this node",
        of: |promises| if promises.hairpin_of_other_nodes { "masqueraded" } else { "not masqueraded" },
        upstream: "the same in nftables and iptables mode",
    },
    Point {
        name: "the client's own address as the source that endpoints see",
        of: |promises| if promises.keeps_source { "kept, unless the policy hides it" } else { "never kept" },
        upstream: "the same in each mode",
    },
    Point {
        name: "what a client's affinity is remembered for",
        of: |promises| match promises.affinity {
            Remembered::ForServicePort => "service port",
            Remembered::ForFrontend => "frontend",
        },
        upstream: "the same in each mode",
    },
    Point {
        name: "SCTP",
        of: |promises| if promises.carries_sctp { "carried" } else { "left alone, with a report by name" },
        upstream: "the same, without a report",
    },
];

fn refusal(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Reject => "rejected",
        Refusal::Drop => "dropped",
        Refusal::Untouched => "untouched",
    }
}

pub(crate) fn section() -> String {
    let row = |point: &Point| {
        let promised = registry::product_modes().map(|mode| (point.of)(&mode.semantics()).to_owned());
        [vec![point.name.to_owned()], promised.collect(), vec![point.upstream.to_owned()]].concat()
    };
    let names = registry::product_modes().map(|mode| mode.name());
    let head: Vec<&str> = ["switch"].into_iter().chain(names).chain(["upstream"]).collect();
    let table = table(&head, POINTS.iter().map(row));
    format!(
        "## Promises: points in which modes may differ\n\n\
         `model::Promises` is the closed list. `fate(packet, &promises)` takes it, and every mode is held to its column on its simulated \
         twin and on real kernels.\n\n{table}"
    )
}
