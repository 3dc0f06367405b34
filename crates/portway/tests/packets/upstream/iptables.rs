//! The rules of upstream's iptables mode.
//!
//! One text for one family, for `iptables-restore --noflush`: tables mangle, filter and nat, the jumps on top of whatever is there.

use std::fmt::Write;
use std::net::SocketAddr;

use playground::Family;

use super::hash::hash;
use super::{ServicePort, pods, ports};
use crate::manifest::Service;

/// What else is on a node: kubelet's chains, and rules of others, one of them with a comment much like upstream's.
pub(crate) const NEIGHBOURS: &str = r#"*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:OTHER-FORWARD - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "somebody's \"own\" rule" -j ACCEPT
-A FORWARD -m comment --comment "forwarding rules of others" -j OTHER-FORWARD
-A OUTPUT -j KUBE-FIREWALL
-A OTHER-FORWARD -m mark --mark 0x100/0x100 -j ACCEPT
-A OTHER-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:OTHER-POSTROUTING - [0:0]
-A PREROUTING -p tcp -m tcp --dport 4444 -m comment --comment "kubernetes service portals of others" -j REDIRECT --to-ports 22
-A POSTROUTING -m comment --comment "postrouting rules of others" -j OTHER-POSTROUTING
-A OTHER-POSTROUTING -p tcp -m tcp --sport 4444 -j RETURN
COMMIT
"#;

/// The rules of some Services.
pub(crate) fn rules(services: &[&Service], family: Family) -> String {
    let ports: Vec<_> = services.iter().flat_map(|service| ports(service, family)).collect();
    format!("*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n{FILTER}{}", nat(&ports, family))
}

/// Each jump is prepended, so the last is on top.
const FILTER: &str = r#"*filter
:KUBE-NODEPORTS - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-PROXY-CANARY - [0:0]
-I INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-I FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-I INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-I FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-I INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-I OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-I FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x004000/0x004000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
"#;

const NAT_JUMPS: &str = r#"-I OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
"#;

const NAT_FIXED: &str = r#"-A KUBE-POSTROUTING -m mark ! --mark 0x004000/0x004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x004000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x004000
"#;

fn nat(ports: &[ServicePort], family: Family) -> String {
    let mut chains: Vec<String> = ["SERVICES", "NODEPORTS", "POSTROUTING", "MARK-MASQ", "PROXY-CANARY"]
        .map(|name| format!("KUBE-{name}"))
        .into();
    let mut rules = NAT_FIXED.to_owned();
    for port in ports {
        chains.extend([port.chain("SVC"), port.chain("EXT")]);
        chains.extend(port.endpoints.iter().map(|endpoint| port.endpoint_chain(endpoint.address)));
        rules += &port.rules(family);
    }
    let not_loopback = match family {
        Family::V4 => "",
        Family::V6 => " ! -d ::1/128",
    };
    let last = format!(
        "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" \
         -m addrtype --dst-type LOCAL{not_loopback} -j KUBE-NODEPORTS"
    );
    let declared: Vec<_> = chains.iter().map(|chain| format!(":{chain} - [0:0]")).collect();
    format!("*nat\n{}\n{NAT_JUMPS}{rules}{last}\nCOMMIT\n", declared.join("\n"))
}

impl ServicePort {
    fn chain(&self, kind: &str) -> String {
        format!("KUBE-{kind}-{}", hash(&format!("{}{}", self.name(), self.protocol), 16))
    }

    fn endpoint_chain(&self, endpoint: SocketAddr) -> String {
        format!("KUBE-SEP-{}", hash(&format!("{}{}{endpoint}", self.name(), self.protocol), 16))
    }

    fn rules(&self, family: Family) -> String {
        let (name, p, svc, ext) = (self.name(), &self.protocol, self.chain("SVC"), self.chain("EXT"));
        let (ip, port, node_port, pods) =
            (self.cluster_ip.ip(), self.cluster_ip.port(), self.node_port, pods(family));
        let at_cluster_ip =
            format!("-m comment --comment \"{name} cluster IP\" -m {p} -p {p} -d {ip} --dport {port}");
        let mut rules = format!(
            "-A KUBE-SERVICES {at_cluster_ip} -j {svc}\n\
             -A KUBE-NODEPORTS -m comment --comment {name} -m {p} -p {p} --dport {node_port} -j {ext}\n\
             -A {ext} -m comment --comment \"masquerade traffic for {name} external destinations\" -j KUBE-MARK-MASQ\n\
             -A {ext} -j {svc}\n\
             -A {svc} {at_cluster_ip} ! -s {pods} -j KUBE-MARK-MASQ\n"
        );
        for (left, endpoint) in (1..=self.endpoints.len()).rev().zip(&self.endpoints) {
            let endpoint = endpoint.address;
            let (sep, source) = (self.endpoint_chain(endpoint), endpoint.ip());
            let chance = match left {
                1 => String::new(),
                _ => {
                    format!("-m statistic --mode random --probability 0.{:010} ", 10_000_000_000_usize / left)
                }
            };
            // Writing into a String does not fail.
            let _ = write!(
                rules,
                "-A {svc} -m comment --comment \"{name} -> {endpoint}\" {chance}-j {sep}\n\
                 -A {sep} -m comment --comment {name} -s {source} -j KUBE-MARK-MASQ\n\
                 -A {sep} -m comment --comment {name} -m {p} -p {p} -j DNAT --to-destination {endpoint}\n"
            );
        }
        rules
    }
}
