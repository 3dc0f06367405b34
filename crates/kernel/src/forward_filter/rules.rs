//! The base chains on the forward hook: those of `nf_tables`, also of iptables-nft, and those of legacy tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::Facts;
use super::rule::Sets;
use super::walk::{self, Judged, Table, Walk};
use super::{Packet, Verdict};
use crate::nft::foreign::{self, BaseChain, Member, Step, TableFamily, TableRef};
use crate::nft::{HookPoint, Kernel as _, Name, Netlink};
use crate::xtables::Family;
use crate::xtables::legacy_rules::{self, LegacyTable};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Rules {
    nft: Option<Nft>,
    legacy: BTreeMap<Family, Result<Vec<LegacyTable>, String>>,
    links: BTreeMap<String, u32>,
}

/// The base chains of `nf_tables`, and those chains and sets that a packet has met.
#[derive(Debug)]
struct Nft {
    kernel: Netlink,
    generation: u32,
    chains: Vec<BaseChain>,
    rules: BTreeMap<(TableRef, Name), Arc<[Vec<Step>]>>,
    key_lengths: BTreeMap<(TableRef, Name), Option<usize>>,
}

impl Rules {
    pub(super) fn read() -> Result<Self, String> {
        let nft = if foreign::is_present() { Some(Nft::read()?) } else { None };
        let legacy = Family::ALL.map(|family| {
            let tables = legacy_rules::on_forward(family);
            (family, tables.map_err(|error| format!("the legacy tables of {family} cannot be read: {error}")))
        });
        // A link without a known number makes rules that ask for numbers uncertain, no more.
        let links = crate::host::links().unwrap_or_default();
        let links = links.into_iter().map(|link| (link.name, link.index)).collect();
        Ok(Self { nft, legacy: legacy.into(), links })
    }

    /// Whether no program has changed rules of `nf_tables` since they were read. Legacy tables are read at once.
    pub(super) fn are_current(&mut self) -> Result<bool, String> {
        self.nft.as_mut().map_or(Ok(true), |nft| {
            let now = nft.kernel.generation().map_err(|error| not_read(&error))?;
            Ok(now == nft.generation)
        })
    }

    pub(super) fn judge(&mut self, packet: &Packet) -> Verdict {
        let mut walk = Walk::new(Facts::new(packet, &self.links));
        let (nft_family, family) = if packet.source.is_ipv4() {
            (TableFamily::Ip, Family::V4)
        } else {
            (TableFamily::Ip6, Family::V6)
        };
        let mut ways: Vec<(i32, Way<'_>)> = Vec::new();
        let chains = self.nft.as_ref().map(|nft| nft.chains.clone()).unwrap_or_default();
        let is_seen = |chain: &&BaseChain| [TableFamily::Inet, nft_family].contains(&chain.table.family);
        ways.extend(chains.iter().filter(is_seen).map(|chain| (chain.priority, Way::Nft(chain))));
        match &self.legacy[&family] {
            Ok(tables) => ways.extend(tables.iter().map(|table| (table.priority, Way::Legacy(table)))),
            Err(reason) => ways.push((0, Way::Unreadable(reason))),
        }
        ways.sort_by_key(|(priority, _)| *priority);
        let nft = &mut self.nft;
        walk::all(ways.into_iter().map(|(_, way)| match way {
            Way::Nft(chain) => match nft {
                Some(nft) => {
                    let mut table = NftTable { nft, table: &chain.table };
                    walk.base_chain(&mut table, &chain.name, chain.policy)
                }
                None => Judged::Accepts,
            },
            Way::Legacy(table) => walk.base_chain(&mut { table }, LegacyTable::CHAIN, table.policy),
            Way::Unreadable(reason) => Judged::Unknown(reason.clone()),
        }))
    }
}

/// One base chain on the packet's way.
enum Way<'a> {
    Nft(&'a BaseChain),
    Legacy(&'a LegacyTable),
    Unreadable(&'a String),
}

impl Nft {
    fn read() -> Result<Self, String> {
        let mut kernel = Netlink::open().map_err(|error| not_read(&error))?;
        let generation = kernel.generation().map_err(|error| not_read(&error))?;
        let chains = kernel.base_chains(HookPoint::Forward).map_err(|error| not_read(&error))?;
        Ok(Self { kernel, generation, chains, rules: BTreeMap::new(), key_lengths: BTreeMap::new() })
    }
}

fn not_read(error: &crate::nft::Error) -> String {
    format!("the rules of nf_tables cannot be read: {error}")
}

/// One table of `nf_tables`.
struct NftTable<'a> {
    nft: &'a mut Nft,
    table: &'a TableRef,
}

impl Table for NftTable<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.table.family.name(), self.table.name)
    }

    fn rules(&mut self, chain: &str) -> Result<Arc<[Vec<Step>]>, String> {
        let key = (self.table.clone(), chain.into());
        if let Some(rules) = self.nft.rules.get(&key) {
            return Ok(rules.clone());
        }
        let rules = self.nft.kernel.foreign_rules(self.table, chain).map_err(|error| not_read(&error))?;
        let rules: Arc<[Vec<Step>]> = rules.into();
        self.nft.rules.insert(key, rules.clone());
        Ok(rules)
    }
}

impl Sets for NftTable<'_> {
    fn key_length(&mut self, set: &str) -> Option<usize> {
        let Nft { kernel, key_lengths, .. } = &mut *self.nft;
        let read = || kernel.key_length(self.table, set).ok().flatten();
        *key_lengths.entry((self.table.clone(), set.into())).or_insert_with(read)
    }

    fn member(&mut self, set: &str, key: &[u8]) -> Member {
        self.nft.kernel.member(self.table, set, key)
    }
}

impl Table for &LegacyTable {
    fn name(&self) -> String {
        format!("iptables-legacy {}", self.name)
    }

    fn rules(&mut self, chain: &str) -> Result<Arc<[Vec<Step>]>, String> {
        Ok(self.chains.get(chain).map(|rules| rules.as_slice().into()).unwrap_or_default())
    }
}

/// Legacy tables have no sets of their own.
impl Sets for &LegacyTable {
    fn key_length(&mut self, _: &str) -> Option<usize> {
        None
    }

    fn member(&mut self, _: &str, _: &[u8]) -> Member {
        Member::Unknown
    }
}
