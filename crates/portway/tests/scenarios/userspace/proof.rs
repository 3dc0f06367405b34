//! Every kind of rule is needed: without it, some scenario ends differently on the twins.

use super::twin::Twin;
use crate::iptables::proof::survivors_of;
use crate::step::Scenario;

/// Rules that no scenario misses: words of their kind, and why they are written all the same.
const UNMISSED: [(&str, &str); 4] = [
    ("filter INPUT [] \"kubernetes health check service ports\"", "for hosts that let nothing in by default"),
    ("\"health check node port\" -> -j ACCEPT", "for hosts that let nothing in by default"),
    (
        "filter KUBE-NODEPORT-NON-LOCAL [port, protocol] ",
        "for hosts that let nothing in by default: node ports",
    ),
    (
        "nat KUBE-PORTALS-HOST [destination, port, protocol] \"\" -> REDIRECT",
        "no scenario has a host without an address that sends; random packets of `dataplane` do",
    ),
];

/// What nobody misses, though somebody should, in words; and how many kinds were tried, and how many are known to be unmissed.
pub(crate) fn survivors(scenarios: &[Scenario]) -> (Vec<String>, usize, usize) {
    survivors_of::<Twin>(scenarios, &UNMISSED)
}
