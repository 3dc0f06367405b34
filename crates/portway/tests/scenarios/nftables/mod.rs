//! The nftables mode as a subject: on the simulated twin, which executes packets, and on the real kernel.

pub(crate) mod kernel;
pub(crate) mod mutation;
pub(crate) mod nft;
pub(crate) mod proof;
pub(crate) mod twin;
pub(crate) mod worlds;

#[path = "../../../../dataplane/tests/twin/mod.rs"]
pub(crate) mod ends;
