//! The names of chains that more than one mode has, and how those of service ports are made.

use kernel::xtables::ChainName;
use sha2::{Digest, Sha256};

pub(crate) const SERVICES: &str = "KUBE-SERVICES";
pub(crate) const NODE_PORTS: &str = "KUBE-NODEPORTS";
pub(super) const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
pub(super) const PROXY_FIREWALL: &str = "KUBE-PROXY-FIREWALL";
/// Empty: when it is gone, somebody has flushed the table.
pub(crate) const CANARY: &str = "KUBE-PROXY-CANARY";

/// One of our own names, or of the kernel's.
pub(crate) fn name(text: &str) -> ChainName {
    ChainName::new(text).expect("it is made here, of letters, digits and hyphens, and short")
}

/// The first sixteen letters of the SHA-256, in base32: eighty bits.
pub(crate) fn hash(text: &str) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let digest = Sha256::digest(text.as_bytes());
    let first = digest.iter().take(10).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    let letter = |n: u32| char::from(LETTERS[(first >> (75 - 5 * n) & 31) as usize]);
    (0..16).map(letter).collect()
}
