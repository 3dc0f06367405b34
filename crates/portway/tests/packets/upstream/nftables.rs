//! The rules of upstream's nftables mode.
//!
//! One text for one family, for `nft -f`: the table `kube-proxy` with its base chains, maps and a chain for each service port.

use std::net::IpAddr;

use playground::Family;

use super::hash::hash;
use super::{Endpoint, ServicePort, pods, ports};
use crate::manifest::Service;

/// The rules of some Services on a node, by its name, with this address, which alone answers node ports.
pub(crate) fn rules(services: &[&Service], family: Family, node: &str, address: IpAddr) -> String {
    let (nft, kind, networks) = match family {
        Family::V4 => ("ip", "ipv4_addr", "10.96.0.0/12"),
        Family::V6 => ("ip6", "ipv6_addr", "fd00:96::/112"),
    };
    let base = BASE.replace("NETWORKS", networks).replace("PODS", pods(family)).replace("ADDRESS", kind);
    let ports: Vec<_> = services.iter().flat_map(|service| ports(service, family)).collect();
    let elements: String = ports.iter().map(|port| port.elements(node)).collect();
    let lines = format!("{base}add element FAMILY kube-proxy nodeport-ips {{ {address} }}\n{elements}");
    lines.replace("FAMILY", nft)
}

const BASE: &str = r#"add table FAMILY kube-proxy { comment "rules for kube-proxy" ; }
add set FAMILY kube-proxy cluster-ips { type ADDRESS ; comment "Active ClusterIPs" ; }
add set FAMILY kube-proxy nodeport-ips { type ADDRESS ; comment "IPs that accept NodePort traffic" ; }
add set FAMILY kube-proxy hairpin-connections { type ADDRESS . ADDRESS . inet_proto . inet_service ; comment "service hairpin connections" ; }
add map FAMILY kube-proxy firewall-ips { type ADDRESS . inet_proto . inet_service : verdict ; comment "destinations that are subject to LoadBalancerSourceRanges" ; }
add map FAMILY kube-proxy no-endpoint-nodeports { type inet_proto . inet_service : verdict ; comment "vmap to drop or reject packets to service nodeports with no endpoints" ; }
add map FAMILY kube-proxy no-endpoint-services { type ADDRESS . inet_proto . inet_service : verdict ; comment "vmap to drop or reject packets to services with no endpoints" ; }
add map FAMILY kube-proxy service-ips { type ADDRESS . inet_proto . inet_service : verdict ; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic" ; }
add map FAMILY kube-proxy service-nodeports { type inet_proto . inet_service : verdict ; comment "NodePort traffic" ; }
add chain FAMILY kube-proxy cluster-ips-check
add chain FAMILY kube-proxy filter-prerouting-pre-dnat { type filter hook prerouting priority -110 ; }
add chain FAMILY kube-proxy filter-output-pre-dnat { type filter hook output priority -110 ; }
add chain FAMILY kube-proxy filter-forward { type filter hook forward priority 0 ; }
add chain FAMILY kube-proxy filter-input { type filter hook input priority 0 ; }
add chain FAMILY kube-proxy filter-output { type filter hook output priority 0 ; }
add chain FAMILY kube-proxy firewall-check
add chain FAMILY kube-proxy masquerading
add chain FAMILY kube-proxy nat-output { type nat hook output priority -100 ; }
add chain FAMILY kube-proxy nat-postrouting { type nat hook postrouting priority 100 ; }
add chain FAMILY kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }
add chain FAMILY kube-proxy nodeport-endpoints-check
add chain FAMILY kube-proxy reject-chain { comment "helper for @no-endpoint-services / @no-endpoint-nodeports" ; }
add chain FAMILY kube-proxy services
add chain FAMILY kube-proxy service-endpoints-check
add rule FAMILY kube-proxy cluster-ips-check FAMILY daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"
add rule FAMILY kube-proxy cluster-ips-check FAMILY daddr { NETWORKS } drop comment "Drop traffic to unallocated ClusterIPs"
add rule FAMILY kube-proxy filter-prerouting-pre-dnat ct state new jump firewall-check
add rule FAMILY kube-proxy filter-forward ct state new jump service-endpoints-check
add rule FAMILY kube-proxy filter-forward ct state new jump cluster-ips-check
add rule FAMILY kube-proxy filter-input ct state new jump nodeport-endpoints-check
add rule FAMILY kube-proxy filter-input ct state new jump service-endpoints-check
add rule FAMILY kube-proxy filter-output ct state new jump service-endpoints-check
add rule FAMILY kube-proxy filter-output-pre-dnat ct state new jump firewall-check
add rule FAMILY kube-proxy filter-output ct state new jump cluster-ips-check
add rule FAMILY kube-proxy firewall-check FAMILY daddr . meta l4proto . th dport vmap @firewall-ips
add rule FAMILY kube-proxy masquerading mark and 0x4000 != 0 mark set mark xor 0x4000 masquerade fully-random
add rule FAMILY kube-proxy masquerading ct status dnat FAMILY saddr . FAMILY daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
add rule FAMILY kube-proxy nat-output jump services
add rule FAMILY kube-proxy nat-postrouting jump masquerading
add rule FAMILY kube-proxy nat-prerouting jump services
add rule FAMILY kube-proxy nodeport-endpoints-check FAMILY daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
add rule FAMILY kube-proxy reject-chain reject
add rule FAMILY kube-proxy services FAMILY daddr @cluster-ips FAMILY saddr != PODS mark set mark or 0x4000 comment "masquerade clusterIP traffic from outside cluster"
add rule FAMILY kube-proxy services FAMILY daddr . meta l4proto . th dport vmap @service-ips
add rule FAMILY kube-proxy services FAMILY daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
add rule FAMILY kube-proxy service-endpoints-check FAMILY daddr . meta l4proto . th dport vmap @no-endpoint-services
"#;

impl ServicePort {
    /// The lines of one service port; `FAMILY` is still to be filled in.
    fn elements(&self, node: &str) -> String {
        let Self { namespace_and_name, port_name, protocol, cluster_ip, node_port, endpoints } = self;
        let name = format!("{namespace_and_name}/{protocol}/{port_name}");
        let name = format!("{}-{name}", hash(&name, 8));
        let (ip, port) = (cluster_ip.ip(), cluster_ip.port());
        let slot = |(slot, Endpoint { address, .. }): (usize, &Endpoint)| {
            format!("{slot} : {} . {}", address.ip(), address.port())
        };
        let slots: Vec<_> = endpoints.iter().enumerate().map(slot).collect();
        let hairpin = |Endpoint { address, .. }: &Endpoint| {
            let (ip, port) = (address.ip(), address.port());
            format!(
                "add element FAMILY kube-proxy hairpin-connections {{ {ip} . {ip} . {protocol} . {port} }}\n"
            )
        };
        let hairpins: String =
            endpoints.iter().filter(|endpoint| endpoint.node == node).map(hairpin).collect();
        format!(
            "add chain FAMILY kube-proxy service-{name}\n\
             add rule FAMILY kube-proxy service-{name} meta l4proto {protocol} dnat FAMILY addr . port to numgen random mod {} map {{ {} }}\n\
             add chain FAMILY kube-proxy external-{name}\n\
             add rule FAMILY kube-proxy external-{name} mark set mark or 0x4000 comment \"masquerade\"\n\
             add rule FAMILY kube-proxy external-{name} goto service-{name}\n\
             add element FAMILY kube-proxy cluster-ips {{ {ip} }}\n\
             add element FAMILY kube-proxy service-ips {{ {ip} . {protocol} . {port} : goto service-{name} }}\n\
             add element FAMILY kube-proxy service-nodeports {{ {protocol} . {node_port} : goto external-{name} }}\n\
             {hairpins}",
            endpoints.len(),
            slots.join(" , "),
        )
    }
}
