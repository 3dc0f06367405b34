//! The userspace mode as a subject: on the simulated twins, which execute packets; behind both real iptables programs, by what they
//! save and by packets.

pub(crate) mod packets;
pub(crate) mod proof;
pub(crate) mod twin;
