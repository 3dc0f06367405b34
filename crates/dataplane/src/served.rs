//! Are Services served by what is in this kernel, whichever mode wrote it, ours or upstream's?
//!
//! In: `nf_tables`, and the legacy tables. Out: yes or no. It is for a node on which nothing was written yet: rules of an earlier life, or
//! of the kube-proxy before us, go on serving until ours are there.
//!
//! Rules of the userspace mode do not count: what they lead to has ended with its process.

use std::collections::BTreeSet;
use std::fmt;

use kernel::nft::{self, Error, Family, Kernel};
use kernel::xtables::{Legacy, Table, Variant};

use crate::{chains, ipvs, nftables};

/// Where the way of a packet to a Service begins, in table `nat`: in iptables mode and upstream's IPVS mode, and in our IPVS mode.
const BEGINNINGS: [&str; 2] = [chains::SERVICES, ipvs::SERVICES];

/// Rules that serve, by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// The table of the nftables mode.
    Table(model::Family),
    /// Chains of the iptables or IPVS mode, written with this program.
    Chains(Variant, model::Family),
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Served::Table(family) => write!(f, "nf_tables table `{}` ({family})", nftables::TABLE),
            Served::Chains(variant, family) => {
                write!(f, "a chain {} in table nat ({variant}, {family})", BEGINNINGS.join(" or "))
            }
        }
    }
}

/// Are there such rules? Where the kernel does not tell, there may be.
pub fn is_served(nft: &mut impl Kernel, legacy: &[Legacy]) -> Result<bool, Error> {
    Ok(!serving(nft, legacy, |_| false)?.is_empty())
}

/// All rules that serve, without those that `is_skipped`: a table of those is not read, since it may be very long.
pub fn serving(
    nft: &mut impl Kernel,
    legacy: &[Legacy],
    is_skipped: impl Fn(Served) -> bool,
) -> Result<BTreeSet<Served>, Error> {
    let mut found = BTreeSet::new();
    for (family, name) in [(Family::Ip, model::Family::V4), (Family::Ip6, model::Family::V6)] {
        let tables = nft.tables(family)?;
        if tables.iter().any(|table| &*table.name == nftables::TABLE && !table.is_dormant) {
            found.insert(Served::Table(name));
        }
        if is_skipped(Served::Chains(Variant::Nft, name)) {
            continue;
        }
        let nat = nft.list(family, Table::Nat.name())?;
        let has_chain =
            |name: &str| nat.as_ref().is_some_and(|nat| nat.chains.keys().any(|chain| &**chain == name));
        if BEGINNINGS.iter().any(|name| has_chain(name)) {
            found.insert(Served::Chains(Variant::Nft, name));
        }
    }
    found.retain(|served| !is_skipped(*served));
    found.extend(serving_by_legacy(legacy, is_skipped));
    Ok(found)
}

/// The same of this host, also where its kernel has no `nf_tables`.
pub fn serving_here(
    legacy: &[Legacy],
    is_skipped: impl Fn(Served) -> bool,
) -> Result<BTreeSet<Served>, Error> {
    if !nft::is_present() {
        return Ok(serving_by_legacy(legacy, is_skipped));
    }
    serving(&mut nft::Netlink::open()?, legacy, is_skipped)
}

/// The same of the legacy tables alone, for a kernel without `nf_tables`.
pub fn serving_by_legacy(legacy: &[Legacy], is_skipped: impl Fn(Served) -> bool) -> BTreeSet<Served> {
    let is_beginning = |table: Table, chain: &str| table == Table::Nat && BEGINNINGS.contains(&chain);
    let found = legacy.iter().filter(|legacy| legacy.may_have(is_beginning));
    let found = found.map(|legacy| Served::Chains(Variant::Legacy, family_of(legacy)));
    found.filter(|served| !is_skipped(*served)).collect()
}

fn family_of(legacy: &Legacy) -> model::Family {
    match legacy.family {
        kernel::xtables::Family::V4 => model::Family::V4,
        kernel::xtables::Family::V6 => model::Family::V6,
    }
}
