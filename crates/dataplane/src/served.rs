//! Are Services served by what is in this kernel, whichever mode wrote it, ours or upstream's?
//!
//! In: `nf_tables`, and the legacy tables. Out: yes or no. It is for a node on which nothing was written yet: rules of an earlier life, or
//! of the kube-proxy before us, go on serving until ours are there.
//!
//! Rules of the userspace mode do not count: what they lead to has ended with its process.

use kernel::nft::{Error, Family, Kernel};
use kernel::xtables::{Legacy, Table};

use crate::{chains, ipvs, nftables};

/// Where the way of a packet to a Service begins, in table `nat`: in iptables mode and upstream's IPVS mode, and in our IPVS mode.
const BEGINNINGS: [&str; 2] = [chains::SERVICES, ipvs::SERVICES];

/// Are there such rules? Where the kernel does not tell, there may be.
pub fn is_served(nft: &mut impl Kernel, legacy: &[Legacy]) -> Result<bool, Error> {
    for family in [Family::Ip, Family::Ip6] {
        let tables = nft.tables(family)?;
        if tables.iter().any(|table| &*table.name == nftables::TABLE && !table.is_dormant) {
            return Ok(true);
        }
        let nat = nft.list(family, Table::Nat.name())?;
        if nat
            .is_some_and(|nat| BEGINNINGS.iter().any(|chain| nat.chains.keys().any(|name| &**name == *chain)))
        {
            return Ok(true);
        }
    }
    let is_beginning = |table: Table, chain: &str| table == Table::Nat && BEGINNINGS.contains(&chain);
    Ok(legacy.iter().any(|legacy| legacy.may_have(is_beginning)))
}
