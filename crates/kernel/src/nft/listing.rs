//! Lists a table of the real kernel, whole and consistent.
//!
//! The kernel lists kinds of objects one by one, and elements in pieces. What was read belongs together
//! only if nobody wrote meanwhile and no hash table was resized: both are checked, and if need be all is
//! read anew.

use std::collections::BTreeMap;

use super::Kernel;
use super::element::Element;
use super::error::{Error, Result};
use super::listed::{Listed, ListedRule, ListedSet};
use super::netlink::Netlink;
use super::object::{Chain, Family, Name, Set};
use super::wire::object::{CHAIN_TABLE, RULE_TABLE};
use super::wire::set::{LIST_SET, LIST_TABLE, SET_TABLE};
use super::wire::{SUBSYSTEM, family_from, family_number, fixed, kind, read};
use crate::netlink::{self, Attributes, MessageWriter};

impl Netlink {
    pub(super) fn list_once(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        let Some(table) = self.tables(family)?.into_iter().find(|found| &*found.name == table) else {
            return Ok(None);
        };
        let mut unknown = Vec::new();
        let chains = self.chains(family, &table.name, &mut unknown)?;
        let rules = self.rules(family, &table.name)?;
        let mut sets = BTreeMap::new();
        for (set, count) in self.sets(family, &table.name, &mut unknown)? {
            let elements = self.settled_elements(family, &table.name, &set, count)?;
            sets.insert(set.name.clone(), ListedSet { set, elements });
        }
        unknown.sort();
        Ok(Some(Listed { table, chains, rules, sets, unknown }))
    }

    fn chains(
        &mut self,
        family: Family,
        table: &str,
        unknown: &mut Vec<String>,
    ) -> Result<BTreeMap<Name, Chain>> {
        let found = self.dump("chains", kind::GET_CHAIN, family, &[(CHAIN_TABLE, table)], |attributes| {
            read::chain(attributes).map(|read| (read.table == table).then_some(read))
        })?;
        let mut chains = BTreeMap::new();
        for read in found {
            if read.is_known {
                chains.insert(read.chain.name.clone(), read.chain);
            } else {
                unknown.push(format!("chain {}", read.chain.name));
            }
        }
        Ok(chains)
    }

    fn rules(&mut self, family: Family, table: &str) -> Result<BTreeMap<Name, Vec<ListedRule>>> {
        let found = self.dump("rules", kind::GET_RULE, family, &[(RULE_TABLE, table)], |attributes| {
            read::rule(attributes).map(|read| (read.0 == table).then_some(read))
        })?;
        let mut rules: BTreeMap<Name, Vec<ListedRule>> = BTreeMap::new();
        for (_, chain, rule) in found {
            rules.entry(chain.into()).or_default().push(rule);
        }
        Ok(rules)
    }

    /// The sets that are of a shape that we write, each with its number of elements if the kernel tells it.
    fn sets(
        &mut self,
        family: Family,
        table: &str,
        unknown: &mut Vec<String>,
    ) -> Result<Vec<(Set, Option<u32>)>> {
        let found = self.dump("sets", kind::GET_SET, family, &[(SET_TABLE, table)], |attributes| {
            read::set(family, attributes).map(|read| (read.table == table).then_some(read))
        })?;
        let mut sets = Vec::new();
        for read in found {
            match read.set {
                Some(set) => sets.push((set, read.count)),
                None => unknown.push(format!("set {}", read.name)),
            }
        }
        Ok(sets)
    }

    /// The elements of a set, each once and none forgotten.
    ///
    /// A hash table that is resized between two pieces of the listing shows some elements twice and others
    /// not at all, and no generation tells. So their number is compared with what the kernel says, or,
    /// where it does not say, the elements are read twice. Sets that packets change are taken as they are.
    fn settled_elements(
        &mut self,
        family: Family,
        table: &str,
        set: &Set,
        count: Option<u32>,
    ) -> Result<Vec<Element>> {
        let elements = self.elements(family, table, set)?;
        if set.flags.interval || set.flags.timeout || set.flags.dynamic {
            return Ok(elements);
        }
        let has_duplicates = elements.windows(2).any(|pair| pair[0].key == pair[1].key);
        let is_settled = !has_duplicates
            && match count {
                Some(count) => u32::try_from(elements.len()) == Ok(count),
                None => elements == self.elements(family, table, set)?,
            };
        if is_settled { Ok(elements) } else { Err(Error::Raced) }
    }

    /// The elements of one set or map, in order.
    pub fn elements(&mut self, family: Family, table: &str, set: &Set) -> Result<Vec<Element>> {
        let shape = read::Shape { key: set.key_kinds(family), data: set.data_kinds(family) };
        let names = [(LIST_TABLE, table), (LIST_SET, &*set.name)];
        let found = self.dump("elements", kind::GET_ELEMENTS, family, &names, |attributes| {
            read::elements(&shape, attributes).map(Some)
        })?;
        let entries = found.into_iter().flatten().collect();
        let is_simple_interval = set.flags.interval && set.key.len() == 1;
        let mut elements = read::join(&shape, entries, is_simple_interval);
        elements.sort_unstable_by(|a, b| a.key.cmp(&b.key).then_with(|| a.end.cmp(&b.end)));
        Ok(elements)
    }

    pub(super) fn dump<T>(
        &mut self,
        what: &'static str,
        kind: u16,
        family: Family,
        names: &[(u16, &str)],
        mut decode: impl FnMut(Attributes<'_>) -> netlink::Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let request = |m: &mut MessageWriter| {
            fixed(m, family_number(family));
            for (attribute, name) in names {
                m.text(*attribute, name);
            }
        };
        let found = self.client.list(what, SUBSYSTEM << 8 | kind, request, |head, body| {
            let (number, attributes) = read::open(body)?;
            if head.kind >> 8 == SUBSYSTEM && family_from(number) == Some(family) {
                decode(attributes)
            } else {
                Ok(None)
            }
        })?;
        Ok(found)
    }
}
