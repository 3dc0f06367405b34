//! The iptables mode as a subject: on the simulated twin, which executes packets, and behind both real programs, by what they
//! save and by packets.

pub(crate) mod foreign;
pub(crate) mod kernel;
pub(crate) mod listed;
pub(crate) mod mutation;
pub(crate) mod packets;
pub(crate) mod proof;
pub(crate) mod twin;
pub(crate) mod ways;
pub(crate) mod worlds;
