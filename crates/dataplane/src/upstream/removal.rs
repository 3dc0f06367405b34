//! What has to be written so that one table is rid of chains and jumps of a kube-proxy, upstream's or ours.
//!
//! In: the table as `iptables-save` prints it. Out: texts for `iptables-restore --noflush`; how much goes; and which chains stay,
//! with the reason.
//!
//! The first text cuts theirs off at once: the jumps go, and what they led to is empty. The others delete what nothing leads
//! to any more, in pieces, because iptables-nft takes time with the square of one text: 4,000 services of 4 endpoints
//! took 65 seconds in one piece.
//!
//! Rules of others keep their place and their order, since nothing but a kube-proxy's own jumps is deleted, each by its words.
//! If somebody deletes one of them first, the text is refused, and the caller looks again.

use std::collections::BTreeSet;
use std::fmt;
use std::iter;

use kernel::xtables::{Saved, SavedChain, Table};

use super::names::{ChainSet, FORWARD, KnownChains, MARK_MASQ, Whose, target};

/// How one table is rid of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// For `iptables-restore --noflush`, one after the other.
    pub texts: Vec<String>,
    /// So many chains go.
    pub chains: usize,
    /// So many rules that led to them go.
    pub jumps: usize,
    /// Whose they are.
    pub whose: Whose,
    /// What stays.
    pub kept: Vec<Kept>,
}

/// Why they go.
#[derive(Clone, Copy, Debug)]
pub enum Occasion {
    /// Ours serves in their place: what lets service traffic pass is still needed. These chains are ours.
    TakeOver(Option<&'static ChainSet>),
    /// Somebody wants to be rid of them.
    Cleanup,
}

/// A chain of theirs that stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// In which table.
    pub table: Table,
    /// Which chain.
    pub chain: String,
    /// Why.
    pub why: Why,
}

/// Why a chain stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Rules of others lead to it, so that it cannot be deleted. It is empty now: packets come back from it as they went in.
    UsedEmpty,
    /// Rules of others lead to it for its mark, which is ours, too. It stays as it is.
    UsedForItsMark,
    /// `FORWARD` refuses what nobody lets pass, and this chain let service traffic pass. It stays as it is, with its jump:
    /// without it, connections that are open would break.
    LetsServiceTrafficPass,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, chain, why } = self;
        match why {
            Why::UsedEmpty => write!(
                f,
                "chain {chain} of table {table} is empty now but stays, because rules of other programs lead to \
                 it: delete those rules, then the chain"
            ),
            Why::UsedForItsMark => write!(
                f,
                "chain {chain} of table {table} stays as it is, because rules of other programs use it, and what \
                 it marks is still masqueraded"
            ),
            Why::LetsServiceTrafficPass => write!(
                f,
                "chain {chain} of table {table} stays with its jump, because FORWARD refuses packets, and this chain lets service \
                 traffic pass: allow that traffic in FORWARD yourself (mark 0x4000; RELATED,ESTABLISHED), then delete the chain"
            ),
        }
    }
}

/// How `table` is rid of theirs, at most `piece` chains at a time. `None` if there is nothing to do and nothing to tell.
pub fn removal(
    known: &KnownChains,
    table: Table,
    saved: &str,
    piece: usize,
    occasion: Occasion,
) -> Option<Removal> {
    let saved = Saved::parse(saved);
    let mut kept = Vec::new();
    let ours = if let Occasion::TakeOver(ours) = occasion { ours } else { None };
    let is_ours = |name: &&str| ours.is_some_and(|ours| ours.has(table, name));
    let theirs = names(&saved).filter(|name| known.is_theirs(table, name) && !is_ours(name));
    let mut theirs: BTreeSet<&str> = theirs.collect();
    let lets_pass = !matches!(occasion, Occasion::Cleanup) && table == Table::Filter && refuses(&saved);
    if lets_pass && theirs.remove(FORWARD) {
        kept.push(Kept { table, chain: FORWARD.to_owned(), why: Why::LetsServiceTrafficPass });
    }
    let links = Links::of(known, table, &saved, &theirs);
    if links.used.contains(MARK_MASQ) {
        theirs.remove(MARK_MASQ);
    }
    for chain in &links.used {
        let why = if chain == MARK_MASQ { Why::UsedForItsMark } else { Why::UsedEmpty };
        kept.push(Kept { table, chain: chain.clone(), why });
    }
    let mut doomed: Vec<&str> = theirs.iter().copied().filter(|chain| !links.used.contains(*chain)).collect();
    let is_empty = |chain: &&str| saved.chain(chain).is_none_or(|chain| chain.rules.is_empty());
    if doomed.is_empty() && links.jumps.is_empty() && theirs.iter().all(is_empty) {
        let has_kept = !kept.is_empty();
        let nothing = Removal { texts: Vec::new(), chains: 0, jumps: 0, whose: Whose::default(), kept };
        return has_kept.then_some(nothing);
    }
    // The chains that there is one of are empty after the cut; endpoints lead to `KUBE-MARK-MASQ` until they are gone.
    doomed.sort_by_key(|chain| known.rank(chain).unwrap_or(usize::MAX));
    let texts = texts(known, table, &theirs, &links, &doomed, piece);
    let mut whose = known.whose(table, doomed.iter().copied());
    links.jumps.iter().for_each(|(_, rule)| whose.add(known.whose_jump(rule)));
    Some(Removal { texts, chains: doomed.len(), jumps: links.jumps.len(), whose, kept })
}

/// A chain is emptied before one to which it leads is deleted: those of one rank lead to those of the next.
fn texts(
    known: &KnownChains,
    table: Table,
    theirs: &BTreeSet<&str>,
    links: &Links<'_>,
    doomed: &[&str],
    piece: usize,
) -> Vec<String> {
    if doomed.len() <= piece {
        return vec![text(table, theirs.iter(), &links.jumps, doomed)];
    }
    let is_entry = |chain: &&&str| known.rank(chain).is_none() || links.used.contains(**chain);
    let cut = text(table, theirs.iter().filter(is_entry), &links.jumps, &[]);
    let pieces = doomed.chunks(piece).map(|chains| text(table, chains.iter(), &[], chains));
    iter::once(cut).chain(pieces).collect()
}

/// Empties, deletes rules, deletes chains.
fn text<'a>(
    table: Table,
    emptied: impl Iterator<Item = &'a &'a str>,
    jumps: &[(&str, &str)],
    doomed: &[&str],
) -> String {
    let emptied = emptied.map(|chain| format!(":{chain} - [0:0]\n"));
    let jumps = jumps.iter().map(|(chain, rule)| format!("-D {chain} {rule}\n"));
    let doomed = doomed.iter().map(|chain| format!("-X {chain}\n"));
    let lines: String = emptied.chain(jumps).chain(doomed).collect();
    format!("*{table}\n{lines}COMMIT\n")
}

/// How what stays leads to what goes.
struct Links<'a> {
    /// Their jumps: chain and rule.
    jumps: Vec<(&'a str, &'a str)>,
    /// Their chains to which others lead.
    used: BTreeSet<String>,
}

impl<'a> Links<'a> {
    fn of(known: &KnownChains, table: Table, saved: &'a Saved, theirs: &BTreeSet<&str>) -> Self {
        let mut links = Self { jumps: Vec::new(), used: BTreeSet::new() };
        for SavedChain { name, rules, .. } in
            saved.chains.iter().filter(|chain| !theirs.contains(chain.name.as_str()))
        {
            for rule in rules {
                let Some(target) = target(rule).filter(|target| theirs.contains(target.as_str())) else {
                    continue;
                };
                if known.is_jump(table, name, rule) {
                    links.jumps.push((name, rule));
                } else {
                    links.used.insert(target);
                }
            }
        }
        links
    }
}

fn names(saved: &Saved) -> impl Iterator<Item = &str> {
    saved.chains.iter().map(|chain| chain.name.as_str())
}

/// Whether `FORWARD` itself refuses what no rule lets pass. What it does in chains of others is not followed.
fn refuses(saved: &Saved) -> bool {
    saved.chain("FORWARD").is_some_and(|chain| {
        let refuses = |rule: &String| matches!(target(rule).as_deref(), Some("DROP" | "REJECT"));
        chain.policy.as_deref() == Some("DROP") || chain.rules.iter().any(refuses)
    })
}
