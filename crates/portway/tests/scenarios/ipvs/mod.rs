//! The IPVS mode as a subject, on the simulated twins of iptables, virtual servers, sets and addresses.

#[path = "../../../../dataplane/tests/ipvs_ends/mod.rs"]
pub(crate) mod ends;
pub(crate) mod missing;
pub(crate) mod proof;
pub(crate) mod subject;

use crate::nftables::ends as twin;
