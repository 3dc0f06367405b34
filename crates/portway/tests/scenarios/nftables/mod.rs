//! The nftables mode as a subject on the real kernel, by listings and by packets.

pub(crate) mod heard;
pub(crate) mod kernel;
pub(crate) mod links;
pub(crate) mod nft;
pub(crate) mod packets;
pub(crate) mod probe;
pub(crate) mod sent;
pub(crate) mod stage;
