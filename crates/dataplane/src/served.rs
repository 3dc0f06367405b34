//! Are Services served by what is in this kernel, whichever mode wrote it, ours or upstream's?
//!
//! In: `nf_tables`, and the legacy tables. Out: yes or no. It is for a node on which nothing was written yet: rules of a previous process,
//! or of the kube-proxy before us, go on serving until ours are there.
//!
//! Absent on purpose: the names to look for, which each mode's folder gives as a [`ServingSign`].

use std::collections::BTreeSet;
use std::fmt;

use kernel::nft::{self, Error, Family, Kernel};
use kernel::xtables::{Legacy, Table, Variant};

/// What in a kernel shows that a mode serves. A mode whose rules serve only while its process lives has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingSign {
    /// A table of `nf_tables`.
    Table(&'static str),
    /// A chain of iptables in table `nat`, in which the way of a packet to a Service begins.
    Chain(&'static str),
}

/// The signs of all modes.
#[derive(Debug)]
pub struct ServingSigns {
    tables: Vec<&'static str>,
    chains: Vec<&'static str>,
    /// For messages.
    chain_names: String,
}

impl ServingSigns {
    pub fn of(signs: &[ServingSign]) -> Self {
        let table = |sign: &ServingSign| if let ServingSign::Table(name) = sign { Some(*name) } else { None };
        let chain = |sign: &ServingSign| if let ServingSign::Chain(name) = sign { Some(*name) } else { None };
        let chains: Vec<_> = signs.iter().filter_map(chain).collect();
        Self { tables: signs.iter().filter_map(table).collect(), chain_names: chains.join(" or "), chains }
    }
}

/// Rules that serve, by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// A table of this name.
    Table(&'static str, model::Family),
    /// Chains written with this program.
    Chains(Variant, model::Family),
}

impl Served {
    /// Where it is, for people.
    pub fn describe(self, signs: &ServingSigns) -> impl fmt::Display {
        match self {
            Self::Table(name, family) => format!("nf_tables table `{name}` ({family})"),
            Self::Chains(variant, family) => {
                format!("a chain {} in table nat ({variant}, {family})", signs.chain_names)
            }
        }
    }
}

/// Are there such rules? Where the kernel does not tell, there may be.
pub fn is_served(signs: &ServingSigns, nft: &mut impl Kernel, legacy: &[Legacy]) -> Result<bool, Error> {
    Ok(!serving(signs, nft, legacy, |_| false)?.is_empty())
}

/// All rules that serve, without those that `is_skipped`: a table of those is not read, since it may be very long.
pub fn serving(
    signs: &ServingSigns,
    nft: &mut impl Kernel,
    legacy: &[Legacy],
    is_skipped: impl Fn(Served) -> bool,
) -> Result<BTreeSet<Served>, Error> {
    let mut found = BTreeSet::new();
    for (family, name) in [(Family::V4, model::Family::V4), (Family::V6, model::Family::V6)] {
        let tables = nft.tables(family)?;
        let is_there = |sign: &&&str| tables.iter().any(|table| &*table.name == **sign && !table.is_dormant);
        found.extend(signs.tables.iter().filter(is_there).map(|sign| Served::Table(sign, name)));
        if is_skipped(Served::Chains(Variant::Nft, name)) {
            continue;
        }
        let nat = nft.list(family, Table::Nat.name())?;
        let has_chain =
            |name: &str| nat.as_ref().is_some_and(|nat| nat.chains.keys().any(|chain| &**chain == name));
        if signs.chains.iter().any(|name| has_chain(name)) {
            found.insert(Served::Chains(Variant::Nft, name));
        }
    }
    found.retain(|served| !is_skipped(*served));
    found.extend(serving_by_legacy(signs, legacy, is_skipped));
    Ok(found)
}

/// The same of this host, also where its kernel has no `nf_tables`.
pub fn serving_here(
    signs: &ServingSigns,
    legacy: &[Legacy],
    is_skipped: impl Fn(Served) -> bool,
) -> Result<BTreeSet<Served>, Error> {
    if !nft::is_present() {
        return Ok(serving_by_legacy(signs, legacy, is_skipped));
    }
    serving(signs, &mut nft::Netlink::open()?, legacy, is_skipped)
}

/// The same of the legacy tables alone, for a kernel without `nf_tables`.
fn serving_by_legacy(
    signs: &ServingSigns,
    legacy: &[Legacy],
    is_skipped: impl Fn(Served) -> bool,
) -> BTreeSet<Served> {
    let is_beginning = |table: Table, chain: &str| table == Table::Nat && signs.chains.contains(&chain);
    let found = legacy.iter().filter(|legacy| legacy.may_have(is_beginning));
    let found = found.map(|legacy| Served::Chains(Variant::Legacy, legacy.family));
    found.filter(|served| !is_skipped(*served)).collect()
}
