//! The nftables mode as a subject: on the simulated twin, which executes packets, and on the real kernel,
//! by listings and by packets.

pub(crate) mod heard;
pub(crate) mod kernel;
pub(crate) mod links;
pub(crate) mod mutation;
pub(crate) mod nft;
pub(crate) mod packets;
pub(crate) mod probe;
pub(crate) mod proof;
pub(crate) mod sent;
pub(crate) mod stage;
pub(crate) mod twin;
pub(crate) mod worlds;

#[path = "../../../../dataplane/tests/twin/mod.rs"]
pub(crate) mod ends;
