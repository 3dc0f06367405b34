//! The userspace mode as a subject, behind both real iptables programs, by packets.

pub(crate) mod packets;
