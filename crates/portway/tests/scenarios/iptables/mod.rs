//! The iptables mode as a subject, behind both real programs: by what they save and by packets.

pub(crate) mod foreign;
pub(crate) mod kernel;
pub(crate) mod packets;
