//! Every kind of rule, set and server is needed: without it, some scenario ends differently on the twins.

use super::subject::Twin;
use crate::iptables::proof::survivors_of;
use crate::step::Scenario;

/// What no scenario misses: words of its kind, and why it is written all the same.
const UNMISSED: [(&str, &str); 8] = [
    ("filter FORWARD [] \"portway ipvs\"", "for hosts that forward nothing by default"),
    ("filter PORTWAY-FORWARD ", "for hosts that forward nothing by default: answers"),
    ("--match-set PORTWAY-HEALTH-CHECK dst", "for hosts that let nothing in by default"),
    ("set PORTWAY-HEALTH-CHECK []", "for hosts that let nothing in by default"),
    (
        "--match-set PORTWAY-ADDRESSES src",
        "no scenario sends from the address that it dials, as this host does; `ipvs_sync.rs` of `dataplane` does",
    ),
    ("set PORTWAY-BOUND []", "a record: no rule asks it"),
    ("set PORTWAY-MARKS []", "a record: no rule asks it"),
    ("set PORTWAY-SERVERS []", "a record: no rule asks it"),
];

/// What nobody misses, though somebody should, in words; and how many kinds were tried, and how many are known to be unmissed.
pub(crate) fn survivors(scenarios: &[Scenario]) -> (Vec<String>, usize, usize) {
    survivors_of::<Twin>(scenarios, &UNMISSED)
}
