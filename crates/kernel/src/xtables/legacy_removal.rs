//! The entries of a legacy table, without some of its rules and chains.
//!
//! A table is one block: for each hook its rules and its policy, then each chain as a head with its name, its rules and a last entry that
//! returns, and an end. Entries name each other by their place in the block, so what follows a removed entry moves, and whoever leads there
//! is told. All other bytes of an entry stay as the kernel gave them, as `iptables-legacy` does it.

use std::collections::BTreeMap;
use std::io;

use super::Family;
use super::legacy::{TARGET_HEAD, number, odd};
use super::legacy_rules::{
    Entry, HOOK_ENTRIES, HOOKS, Layout, UNDERFLOWS, is_head, matches, rule, size, split, verdict,
};
use super::orders::Orders;
use crate::nft::Name;
use crate::nft::foreign::Step;
use crate::nft::iptables_text::{self, text};

/// The chain of each hook.
const OF_HOOK: [&str; HOOKS] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
/// Behind a table's name: a bit for each hook that it has.
const VALID_HOOKS: usize = 32;
/// The verdict that drops.
const DROP: i32 = -1;

/// A table as the kernel told it.
#[derive(Debug)]
pub(super) struct Block<'a> {
    layout: Layout,
    info: &'a [u8],
    entries: Vec<Entry<'a>>,
    chains: Vec<Place>,
    /// The chains that somebody made, by where their first entry is: there rules lead.
    starts: BTreeMap<usize, Name>,
    /// The number of each chain, by its name.
    by_name: BTreeMap<String, usize>,
}

/// Where a chain is, by the numbers of its entries.
#[derive(Debug)]
struct Place {
    name: String,
    /// For a chain that somebody made.
    head: Option<usize>,
    first: usize,
    /// Its policy, or what returns: no rule.
    last: usize,
}

/// A table in the place of another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    /// What the kernel told, with the places of the hooks as they are now.
    pub(super) info: Vec<u8>,
    pub(super) entries: Vec<u8>,
    /// Which entries of before are still there.
    pub(super) kept: Vec<usize>,
}

/// Why a table cannot be had without something.
#[derive(Debug)]
pub(super) enum Unfit {
    /// The entries are not understood.
    Odd(io::Error),
    /// What should go is not there: the table was another when that was asked for.
    Changed,
    /// Rules that stay lead to this chain.
    Used(String),
    /// A rule that stays has this match, which the kernel looks up anew.
    ForTheHost(&'static str),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Self::Odd(error)
    }
}

impl<'a> Block<'a> {
    pub(super) fn read(family: Family, info: &'a [u8], block: &'a [u8]) -> io::Result<Self> {
        let layout = Layout::of(family);
        let entries = split(&layout, block)?;
        let chains = places(info, &entries)?;
        let made = chains.iter().filter(|place| place.head.is_some());
        let starts = made.map(|place| (entries[place.first].at, place.name.as_str().into())).collect();
        let by_name = chains.iter().enumerate().map(|(number, place)| (place.name.clone(), number)).collect();
        Ok(Self { layout, info, entries, chains, starts, by_name })
    }

    /// How many entries there are.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// The table as `iptables-save` prints it, as far as `iptables_text` can tell.
    pub(super) fn text(&self, table: &str) -> io::Result<String> {
        let mut lines = vec![format!("*{table}")];
        for Place { name, head, last, .. } in &self.chains {
            let is_drop = verdict(&self.entries[*last])? == Some(DROP);
            let policy = if head.is_some() {
                "-"
            } else if is_drop {
                "DROP"
            } else {
                "ACCEPT"
            };
            lines.push(format!(":{name} {policy} [0:0]"));
        }
        for place in &self.chains {
            for rule in place.first..place.last {
                lines.push(format!("-A {} {}", place.name, self.rule(rule)?));
            }
        }
        lines.push("COMMIT\n".to_owned());
        Ok(lines.join("\n"))
    }

    fn rule(&self, entry: usize) -> io::Result<String> {
        Ok(iptables_text::rule(None, &rule(&self.layout, &self.starts, &self.entries[entry])?))
    }

    fn place(&self, name: &str) -> Option<&Place> {
        self.by_name.get(name).map(|number| &self.chains[*number])
    }

    /// The table without what the orders name.
    pub(super) fn without(&self, orders: &Orders<'_>) -> Result<Replacement, Unfit> {
        let removed = self.removed(orders)?;
        let kept: Vec<usize> = (0..self.entries.len()).filter(|entry| !removed[*entry]).collect();
        let new = NewPlaces::of(&self.entries, &kept);
        let mut entries = Vec::new();
        for &number in &kept {
            let entry = &self.entries[number];
            if let Some(option) = self.is_for_the_host(entry)? {
                return Err(Unfit::ForTheHost(option));
            }
            entries.extend(self.moved(entry, &new, &removed)?);
        }
        let mut info = self.info.to_vec();
        for at in (HOOK_ENTRIES..UNDERFLOWS + HOOKS * 4).step_by(4) {
            let place = u32::try_from(new.at(size(number(self.info, at)?)?)).map_err(|_| odd())?;
            info[at..at + 4].copy_from_slice(&place.to_ne_bytes());
        }
        Ok(Replacement { info, entries, kept })
    }

    /// Which entries go.
    fn removed(&self, orders: &Orders<'_>) -> Result<Vec<bool>, Unfit> {
        let mut removed = vec![false; self.entries.len()];
        for name in &orders.emptied {
            let place = self.place(name).ok_or(Unfit::Changed)?;
            removed[place.first..place.last].fill(true);
        }
        for (chain, text) in &orders.rules {
            let place = self.place(chain).ok_or(Unfit::Changed)?;
            let mut found = None;
            for entry in (place.first..place.last).filter(|entry| !removed[*entry]) {
                if self.rule(entry)? == *text {
                    found = Some(entry);
                    break;
                }
            }
            removed[found.ok_or(Unfit::Changed)?] = true;
        }
        for name in &orders.deleted {
            let place = self.place(name).and_then(|place| Some((place.head?, place)));
            let (head, place) = place.ok_or(Unfit::Changed)?;
            removed[head..=place.last].fill(true);
        }
        Ok(removed)
    }

    /// The match of an entry that names something by a path, which the kernel looks up whenever it gets the entry, as the process sees it that
    /// sends it. In a container that may be something else, and the rule would silently become another one.
    fn is_for_the_host(&self, entry: &Entry<'_>) -> io::Result<Option<&'static str>> {
        let mut steps = Vec::new();
        matches(&mut steps, &self.layout, entry)?;
        Ok(steps.iter().find_map(|step| match step {
            Step::XtMatch { name, revision, info } => names_a_path(name, *revision, info),
            _ => None,
        }))
    }

    /// An entry that stays, leading to where its chain is now.
    fn moved(&self, entry: &Entry<'_>, new: &NewPlaces, removed: &[bool]) -> Result<Vec<u8>, Unfit> {
        let mut bytes = entry.bytes.to_vec();
        let Some(to) = verdict(entry)?.and_then(|verdict| usize::try_from(verdict).ok()) else {
            return Ok(bytes);
        };
        let place = if to == entry.next {
            new.at(entry.at) + entry.bytes.len()
        } else {
            let chain = self.starts.get(&to).and_then(|name| self.place(name)).ok_or_else(odd)?;
            if chain.head.is_none_or(|head| removed[head]) {
                return Err(Unfit::Used(chain.name.clone()));
            }
            new.at(to)
        };
        let at = entry.bytes.len() - entry.target.len() + TARGET_HEAD;
        let place = i32::try_from(place).map_err(|_| odd())?;
        bytes.get_mut(at..at + 4).ok_or_else(odd)?.copy_from_slice(&place.to_ne_bytes());
        Ok(bytes)
    }
}

/// `struct xt_cgroup_info_v1` and `_v2` begin with whether there is a path, `struct xt_bpf_info_v1` with where the program is from: its bytes, or
/// a file. Of later ones nothing is known.
fn names_a_path(name: &str, revision: u32, info: &[u8]) -> Option<&'static str> {
    let is_set = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| bytes.iter().any(|byte| *byte != 0));
    match (name, revision) {
        ("cgroup" | "bpf", 0) => None,
        ("cgroup", _) => (revision > 2 || is_set(info.get(..1))).then_some("-m cgroup --path"),
        ("bpf", _) => (revision > 1 || is_set(info.get(..2))).then_some("-m bpf --object-pinned"),
        _ => None,
    }
}

/// Where entries are that were elsewhere.
struct NewPlaces(BTreeMap<usize, usize>);

impl NewPlaces {
    fn of(entries: &[Entry<'_>], kept: &[usize]) -> Self {
        let mut end = 0;
        let place = |number: &usize| {
            let entry = &entries[*number];
            let place = (entry.at, end);
            end += entry.bytes.len();
            place
        };
        Self(kept.iter().map(place).collect())
    }

    /// The place of the first entry that stays, from this one on. Hooks that a table does not have begin nowhere.
    fn at(&self, old: usize) -> usize {
        self.0.range(old..).next().map_or(old, |(_, new)| *new)
    }
}

fn places(info: &[u8], entries: &[Entry<'_>]) -> io::Result<Vec<Place>> {
    let numbers: BTreeMap<usize, usize> =
        entries.iter().enumerate().map(|(number, entry)| (entry.at, number)).collect();
    let hooks = number(info, VALID_HOOKS)?;
    let mut places = Vec::new();
    for (hook, name) in OF_HOOK.iter().enumerate().filter(|(hook, _)| hooks >> hook & 1 == 1) {
        let numbered = |table: usize| {
            let at = size(number(info, table + hook * 4)?)?;
            numbers.get(&at).copied().ok_or_else(odd)
        };
        let (first, last) = (numbered(HOOK_ENTRIES)?, numbered(UNDERFLOWS)?);
        if first > last || entries[first..=last].iter().any(is_head) {
            return Err(odd());
        }
        places.push(Place { name: (*name).to_owned(), head: None, first, last });
    }
    let heads: Vec<usize> = (0..entries.len()).filter(|entry| is_head(&entries[*entry])).collect();
    // The last one begins no chain: it is the end.
    for pair in heads.windows(2) {
        let (head, last) = (pair[0], pair[1] - 1);
        if head == last {
            return Err(odd());
        }
        let name = text(entries[head].target.get(TARGET_HEAD..).ok_or_else(odd)?);
        let name = String::from_utf8_lossy(name).into_owned();
        places.push(Place { name, head: Some(head), first: head + 1, last });
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xtables::Table;
    use crate::xtables::legacy::TARGET_NAME;

    const STANDARD: usize = 112 + TARGET_HEAD + 8;
    const HEAD: usize = 112 + TARGET_HEAD + 32;
    const RETURN: i32 = -5;
    const ACCEPT: i32 = -2;

    /// An entry of IPv4 that asks nothing.
    fn entry(target: &str, data: &[u8], length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        bytes[88..90].copy_from_slice(&112_u16.to_ne_bytes());
        bytes[90..92].copy_from_slice(&u16::try_from(length).unwrap_or_default().to_ne_bytes());
        bytes[112 + TARGET_NAME..][..target.len()].copy_from_slice(target.as_bytes());
        bytes[112 + TARGET_HEAD..][..data.len()].copy_from_slice(data);
        bytes
    }

    fn to(verdict: i32) -> Vec<u8> {
        entry("", &verdict.to_ne_bytes(), STANDARD)
    }

    fn head(name: &str) -> Vec<u8> {
        entry("ERROR", name.as_bytes(), HEAD)
    }

    fn place(standards: usize, heads: usize) -> i32 {
        i32::try_from(standards * STANDARD + heads * HEAD).unwrap_or_default()
    }

    /// A table with one hook, which leads to two chains and then drops; the second chain leads to itself no more than to the first.
    fn table() -> (Vec<u8>, Vec<u8>) {
        let block = [
            // FORWARD: two jumps, a rule that only counts, a policy.
            to(place(4, 1)),
            to(place(6, 2)),
            to(place(3, 0)),
            to(DROP),
            head("A"),
            to(ACCEPT),
            to(RETURN),
            head("B"),
            to(place(4, 1)),
            to(RETURN),
            head("ERROR"),
        ];
        let mut info = vec![0; 84];
        info[VALID_HOOKS..VALID_HOOKS + 4].copy_from_slice(&4_u32.to_ne_bytes());
        info[UNDERFLOWS + 8..][..4].copy_from_slice(&place(3, 0).to_ne_bytes());
        (info, block.concat())
    }

    fn orders<'a>(rules: &[(&'a str, &'a str)], emptied: &[&'a str], deleted: &[&'a str]) -> Orders<'a> {
        let (rules, emptied, deleted) = (rules.to_vec(), emptied.to_vec(), deleted.to_vec());
        Orders { table: Table::Filter, emptied, rules, deleted }
    }

    /// The text of the table without something.
    fn without(orders: &Orders<'_>) -> Result<String, Unfit> {
        let (info, block) = table();
        let table = Block::read(Family::V4, &info, &block).unwrap();
        let left = table.without(orders)?;
        assert_eq!(left.kept.len(), Block::read(Family::V4, &left.info, &left.entries).unwrap().count());
        Ok(Block::read(Family::V4, &left.info, &left.entries).unwrap().text("filter").unwrap())
    }

    /// An entry with this match, which goes on with the next one; it is the first of its block.
    fn asking(name: &str, revision: u8, info: &[u8]) -> Vec<u8> {
        let mut one = vec![0; TARGET_HEAD + 8];
        let (length, target) = (one.len(), 112 + one.len());
        one[..2].copy_from_slice(&u16::try_from(length).unwrap_or_default().to_ne_bytes());
        one[TARGET_NAME..][..name.len()].copy_from_slice(name.as_bytes());
        one[TARGET_HEAD - 1] = revision;
        one[TARGET_HEAD..][..info.len()].copy_from_slice(info);
        let mut bytes = to(i32::try_from(STANDARD + length).unwrap_or_default());
        bytes.splice(112..112, one);
        bytes[88..90].copy_from_slice(&u16::try_from(target).unwrap_or_default().to_ne_bytes());
        let whole = u16::try_from(bytes.len()).unwrap_or_default();
        bytes[90..92].copy_from_slice(&whole.to_ne_bytes());
        bytes
    }

    /// What stops a table with such a rule of others and an empty chain from losing that chain.
    fn stopped_by(rule: &[u8]) -> Option<Unfit> {
        let block = [rule.to_vec(), to(ACCEPT), head("A"), to(RETURN), head("ERROR")].concat();
        let mut info = vec![0; 84];
        info[VALID_HOOKS..VALID_HOOKS + 4].copy_from_slice(&4_u32.to_ne_bytes());
        let policy = u32::try_from(rule.len()).unwrap_or_default();
        info[UNDERFLOWS + 8..][..4].copy_from_slice(&policy.to_ne_bytes());
        let table = Block::read(Family::V4, &info, &block).unwrap();
        table.without(&orders(&[], &["A"], &["A"])).err()
    }

    #[test]
    fn rules_of_others_that_name_a_path_are_not_sent_again() {
        let pinned = 1_u16.to_ne_bytes();
        for (name, revision, info, option) in [
            ("cgroup", 1, &[1, 0, 0, 0][..], "-m cgroup --path"),
            ("cgroup", 2, &[1, 0, 0, 0], "-m cgroup --path"),
            ("cgroup", 3, &[0; 4], "-m cgroup --path"),
            ("bpf", 1, &pinned, "-m bpf --object-pinned"),
        ] {
            let stopped = stopped_by(&asking(name, revision, info));
            assert!(
                matches!(stopped, Some(Unfit::ForTheHost(found)) if found == option),
                "{name} {revision}: {stopped:?}"
            );
        }
        // Classes of cgroups, programs by their bytes, and other matches.
        for (name, revision, info) in [
            ("cgroup", 0, &[1, 0, 0, 0][..]),
            ("cgroup", 2, &[0, 1, 0, 0]),
            ("bpf", 0, &[1, 0]),
            ("bpf", 1, &[0, 0, 1, 0]),
            ("tcp", 1, &[1, 1]),
        ] {
            let stopped = stopped_by(&asking(name, revision, info));
            assert!(stopped.is_none(), "{name} {revision}: {stopped:?}");
        }
    }

    #[test]
    fn rules_that_go_may_name_a_path() {
        let rule = asking("cgroup", 2, &[1, 0, 0, 0]);
        let mut policy = to(ACCEPT);
        policy.extend([head("A"), rule, to(RETURN), head("ERROR")].concat());
        let mut info = vec![0; 84];
        info[VALID_HOOKS..VALID_HOOKS + 4].copy_from_slice(&4_u32.to_ne_bytes());
        let table = Block::read(Family::V4, &info, &policy).unwrap();
        assert!(table.without(&orders(&[], &["A"], &["A"])).is_ok());
    }

    #[test]
    fn a_table_is_read_and_loses_rules_and_chains() {
        let (info, block) = table();
        let whole = "*filter\n:FORWARD DROP [0:0]\n:A - [0:0]\n:B - [0:0]\n-A FORWARD -j A\n-A FORWARD -j B\n-A FORWARD \n\
                     -A A -j ACCEPT\n-A B -j A\nCOMMIT\n";
        assert_eq!(Block::read(Family::V4, &info, &block).unwrap().text("filter").unwrap(), whole);
        assert_eq!(without(&orders(&[], &[], &[])).unwrap(), whole);
        let cases: &[(Orders<'_>, &str)] = &[
            (
                orders(&[("FORWARD", "-j A")], &["A", "B"], &["A"]),
                "*filter\n:FORWARD DROP [0:0]\n:B - [0:0]\n-A FORWARD -j B\n-A FORWARD \nCOMMIT\n",
            ),
            (
                orders(&[("FORWARD", "-j A"), ("FORWARD", "-j B")], &["A", "B"], &["A", "B"]),
                "*filter\n:FORWARD DROP [0:0]\n-A FORWARD \nCOMMIT\n",
            ),
            (
                orders(&[("FORWARD", "-j B")], &["B"], &["B"]),
                "*filter\n:FORWARD DROP [0:0]\n:A - [0:0]\n-A FORWARD -j A\n-A FORWARD \n-A A -j ACCEPT\nCOMMIT\n",
            ),
        ];
        for (orders, expected) in cases {
            assert_eq!(without(orders).unwrap(), *expected, "{orders:?}");
        }
    }

    #[test]
    fn what_is_not_there_or_still_used_is_not_removed() {
        let used = without(&orders(&[], &[], &["A"]));
        assert!(matches!(&used, Err(Unfit::Used(chain)) if chain == "A"), "{used:?}");
        for refused in [
            orders(&[], &["C"], &[]),
            orders(&[("FORWARD", "-j C")], &[], &[]),
            orders(&[("FORWARD", "-j A"), ("FORWARD", "-j A")], &[], &[]),
            orders(&[], &[], &["FORWARD"]),
        ] {
            assert!(matches!(without(&refused), Err(Unfit::Changed)), "{refused:?}");
        }
    }

    #[test]
    fn no_length_is_trusted() {
        let (info, whole) = table();
        for cut in 0..whole.len() {
            // Either is fine, as long as it ends.
            let _ = Block::read(Family::V4, &info, &whole[..cut]).map(|block| block.text("filter").is_ok());
        }
        for at in (0..whole.len()).filter(|at| (88..92).contains(&(at % STANDARD))) {
            for value in [0, 1, 88, 112, 255] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let Ok(block) = Block::read(Family::V4, &info, &bytes) else { continue };
                let _ = block.text("filter");
                let _ = block.without(&orders(&[("FORWARD", "-j A")], &["A"], &["A"]));
            }
        }
    }
}
