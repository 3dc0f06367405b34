//! The list of cases, one file for each theme. Each takes its setting, and with it the mode.

pub(crate) mod affinity;
pub(crate) mod balance;
pub(crate) mod carried;
pub(crate) mod changes;
pub(crate) mod confined;
pub(crate) mod counted;
pub(crate) mod crowd;
pub(crate) mod detect;
pub(crate) mod drain;
pub(crate) mod flows;
pub(crate) mod frontends;
pub(crate) mod host;
pub(crate) mod host_network;
pub(crate) mod kept_sockets;
pub(crate) mod live;
pub(crate) mod localhost;
pub(crate) mod payload;
pub(crate) mod policies;
pub(crate) mod preconditions;
pub(crate) mod refusals;
pub(crate) mod remembered;
pub(crate) mod restart;
pub(crate) mod rolling;
pub(crate) mod schedulers;
pub(crate) mod sctp;
pub(crate) mod short;
pub(crate) mod sores;
pub(crate) mod sources;
pub(crate) mod starved;
pub(crate) mod strays;
pub(crate) mod switch;
pub(crate) mod takeover;
pub(crate) mod vanished;

/// All server pods of the playground.
const ALL: [&str; 4] = ["web-a-0", "web-a-1", "web-b-0", "web-b-1"];
