//! Taking over from chains of an iptables, IPVS or userspace mode, upstream's or ours: they go with their jumps, and nothing else does.
//!
//! In: the iptables programs of this machine, its legacy tables, and `nf_tables`. Where there is no program, as in the image of the nftables
//! mode, tables are read and changed without it. Out: what was removed, and what could not be, in words.
//!
//! | file | what it is for |
//! |---|---|
//! | `names` | which chains and jumps are theirs |
//! | `removal` | one table's text → the text that removes theirs |
//!
//! **Ours is in force before theirs goes.** Both sit in the same hooks at the same priority. There the kernel asks one set of nat
//! rules after the other, the newest first, until one has translated the connection. So from our first sync on, a new connection
//! is ours; one that our rules let pass meets theirs, and one that falls out of theirs while they are being removed
//! meets ours. The mark 0x4000 means the same to both, so it does not matter who sets it and who masquerades. Connections that
//! are open are translated by connection tracking, which asks no rule.
//!
//! **nat first, then filter, then mangle.** What is left behind by a failure in between must do no harm. Their nat rules steer:
//! without kube-proxy they lead to endpoints of yesterday. Their filter rules refuse by virtual addresses, which
//! ours has translated before they are asked, and let pass what is established or marked; they are harmless while ours is in
//! force, and useful until the end. The canary of mangle is what a running upstream kube-proxy watches: it goes last, because
//! from then on that one would write everything anew. Each table is cut off at once.
//!
//! **Whose they are.** Upstream's and ours go under the same conditions, since our iptables mode has upstream's very names. Where names or
//! jumps tell whose they are, it is said (`names`); what a predecessor in userspace mode still relays needs none of them.
//!
//! **What stays.** Kubelet's chains and everybody's rules, in place and order. A chain of theirs to which others lead is emptied,
//! and stays. `KUBE-MARK-MASQ` stays as it is in that case, since what it marks is masqueraded by ours. `KUBE-FORWARD` stays with its
//! jump where `FORWARD` refuses what nobody lets pass, for it is what lets service traffic pass there; a cleanup, after which no
//! Service works, takes it too. Each is told.
//!
//! Absent on purpose: any mode's names, which its folder gives as a [`ChainSet`]; what upstream's modes write beside chains of iptables, which
//! the mode of the same name removes; and stopping upstream: a kube-proxy that still runs would write its rules again.

mod names;
mod removal;

use std::fmt;
use std::iter;

use kernel::nft::{self, OtherTables};
use kernel::xtables::{Error, Family, Found, NftTables, Table, Variant, Xtables};

pub(crate) use names::NODE_PORTS;
pub use names::{ChainSet, JumpTo, KnownChains, Named, Whose};
pub use removal::{Kept, Occasion, Removal, Why, removal};

/// The section of upstream's config file that more than one of its modes reads.
pub(crate) const DEFAULT_SECTION: &str = "iptables";

/// In the order in which they are cleared.
const TABLES: [Table; 3] = [Table::Nat, Table::Filter, Table::Mangle];
/// So many chains iptables-nft deletes at a time.
const NFT_PIECE: usize = 2_500;

/// What a take-over did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    /// What is gone, for each program and family where there was something.
    pub removed: Vec<Removed>,
    /// What is not, and what to do about it.
    pub problems: Vec<Problem>,
}

/// What was removed from the tables of one program and one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The program.
    pub variant: Variant,
    /// The family.
    pub family: Family,
    /// How many chains.
    pub chains: usize,
    /// How many rules that led to them.
    pub jumps: usize,
    /// Whose they were.
    pub whose: Whose,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variant, family, chains, jumps, whose } = self;
        write!(f, "{chains} chains of {whose} and {jumps} rules that led to them ({variant}, {family})")
    }
}

/// Why something of theirs is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A chain stays for a reason.
    Kept {
        /// The program.
        variant: Variant,
        /// The family.
        family: Family,
        /// Which, and why.
        kept: Kept,
    },
    /// The program failed. Of the tables from this one on, nothing was removed.
    Failed {
        /// The program.
        variant: Variant,
        /// The family.
        family: Family,
        /// At which table.
        table: Table,
        /// Whose chains were seen.
        whose: Whose,
        /// Why.
        error: Error,
    },
    /// There are chains of theirs, or there may be, and no way to remove them.
    NoProgram {
        /// The program that is missing.
        variant: Variant,
        /// The family.
        family: Family,
        /// Whose chains were seen; `None` if there only may be some.
        whose: Option<Whose>,
        /// What is wrong with the one that was found, if one was.
        because: Vec<Error>,
        /// The mode whose cleanup removes them.
        cleanup_mode: &'static str,
    },
    /// The tables of iptables-nft could not be read, and there is no program that could.
    Unread {
        /// The family.
        family: Family,
        /// Why.
        error: nft::Error,
    },
}

impl Problem {
    /// The same for somebody who cleaned up: nothing of ours is in force.
    pub fn after_cleanup(&self) -> String {
        match self {
            Self::Kept { variant, family, kept: Kept { table, chain, .. } } => format!(
                "chain {chain} of table {table} stays ({variant}, {family}), because rules of others lead to it: delete those rules, \
                 then clean up again"
            ),
            Self::Failed { variant, family, table, whose, error } => {
                format!("chains of {whose} stay from table {table} on ({variant}, {family}): {error}")
            }
            Self::NoProgram { variant, family, whose, because, .. } => {
                let are = are_in(*variant, whose.as_ref());
                let way_out = format!(
                    "{are} ({variant}, {family}), and there is no program `{variant}` here to remove them, so they stay: install \
                     the package iptables and clean up again"
                );
                let because = because.iter().map(ToString::to_string);
                iter::once(way_out).chain(because).collect::<Vec<_>>().join("; ")
            }
            Self::Unread { .. } => self.to_string(),
        }
    }

    /// Whether another take-over may do better.
    pub fn retry_helps(&self) -> bool {
        match self {
            Self::Failed { error, .. } => error.retry_helps(),
            Self::Unread { error, .. } => error.retry_helps(),
            Self::Kept { .. } | Self::NoProgram { .. } => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { variant, family, kept } => write!(f, "{kept} ({variant}, {family})"),
            Self::Failed { variant, family, table, whose, error } => write!(
                f,
                "chains of {whose} stay in table {table} ({variant}, {family}), and the rules of this mode are in force beside them: {error}"
            ),
            Self::NoProgram { variant, family, whose, because, cleanup_mode } => {
                let are = are_in(*variant, whose.as_ref());
                write!(
                    f,
                    "{are} ({variant}, {family}), and there is no program `{variant}` here to remove them, so they stay: run \
                     `portway cleanup --mode {cleanup_mode} --force` with a portway beside which the package iptables is installed"
                )?;
                because.iter().try_for_each(|error| write!(f, "; {error}"))
            }
            Self::Unread { family, error } => write!(
                f,
                "{} ({}, {family}), and they could not be listed, so they stay: {error}",
                are_in(Variant::Nft, None),
                Variant::Nft
            ),
        }
    }
}

/// Whose chains are where, or may be where the kernel did not tell.
fn are_in(variant: Variant, whose: Option<&Whose>) -> String {
    let place = match variant {
        Variant::Nft => "in nf_tables",
        Variant::Legacy => "in legacy tables",
    };
    match whose {
        Some(whose) => format!("chains of {whose} are {place}"),
        None => format!("chains of {} may be {place}", Whose::default()),
    }
}

/// What of all this is in force now.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    /// The program that ours uses.
    pub variant: Variant,
    /// Its chains.
    pub chains: &'static ChainSet,
}

/// Removes what iptables, IPVS and userspace modes left on this machine, upstream's or ours; except the chains of the mode that is in force,
/// behind the doors of its program. Call it when ours is in force. A second call removes nothing,
/// and tells again what stays.
pub fn take_over<X: Xtables>(
    known: &KnownChains,
    found: &mut Found<X>,
    nft: &mut impl OtherTables,
    ours: Option<Ours>,
) -> TakeOver {
    sweep(known, found, nft, &move |door, table| {
        let ours = ours.filter(|ours| ours.variant == door.variant());
        clear(known, door, table, Occasion::TakeOver(ours.map(|ours| ours.chains)))
    })
}

/// The same behind all doors, for somebody who wants to be rid of it all: Services need not go on.
pub fn clean_up<X: Xtables>(
    known: &KnownChains,
    found: &mut Found<X>,
    nft: &mut impl OtherTables,
) -> TakeOver {
    sweep(known, found, nft, &|door, table| clear(known, door, table, Occasion::Cleanup))
}

/// What [`clean_up`] would do. Nothing is done.
pub fn would_clean_up<X: Xtables>(
    known: &KnownChains,
    found: &mut Found<X>,
    nft: &mut impl OtherTables,
) -> TakeOver {
    sweep(known, found, nft, &|door, table| look(known, door, table, Occasion::Cleanup))
}

/// What is done to a table behind a door, or found there.
type Deed<'a> = dyn Fn(&mut dyn Xtables, Table) -> Result<Option<Removal>, Error> + 'a;

/// What is known of one program's tables of one family.
enum Seen {
    Nothing,
    /// Chains of these.
    Chains(Whose),
    /// The kernel did not tell, for this reason where there was one.
    Unknown(Option<nft::Error>),
}

/// The program goes before our own way: it prints every rule, and its text is what the removal was made for.
fn sweep<X: Xtables>(
    known: &KnownChains,
    found: &mut Found<X>,
    nft: &mut impl OtherTables,
    deed: &Deed<'_>,
) -> TakeOver {
    let mut done = TakeOver::default();
    for family in Family::ALL {
        for variant in Variant::ALL {
            let seen = match variant {
                Variant::Nft => seen_in_nft(known, nft, family),
                Variant::Legacy => seen_in_legacy(known, found, family),
            };
            let (whose, error) = match seen {
                Seen::Nothing => continue,
                Seen::Chains(whose) => (Some(whose), None),
                Seen::Unknown(error) => (None, error),
            };
            let may_be = whose.clone().unwrap_or_default();
            if !is_shut(found, variant, family)
                && let Some(door) = found.door(variant, family)
            {
                remove(known, door, deed, may_be, &mut done);
                continue;
            }
            if let Some(error) = error {
                // Without `nf_tables` there are no such chains.
                let is_there = error != nft::Error::Missing;
                done.problems.extend(is_there.then_some(Problem::Unread { family, error }));
                continue;
            }
            let legacy = found.legacy_tables.iter_mut().find(|tables| tables.family() == family);
            match (variant, legacy) {
                (Variant::Nft, _) => remove(known, &mut NftTables::new(nft, family), deed, may_be, &mut done),
                (Variant::Legacy, Some(tables)) => remove(known, tables, deed, may_be, &mut done),
                (Variant::Legacy, None) => {
                    let because = found.problems.clone();
                    let cleanup_mode = known.cleanup_mode();
                    done.problems.push(Problem::NoProgram { variant, family, whose, because, cleanup_mode });
                }
            }
        }
    }
    done
}

/// The legacy program needs `CAP_NET_RAW`, and our own way does not.
fn is_shut<X: Xtables>(found: &mut Found<X>, variant: Variant, family: Family) -> bool {
    variant == Variant::Legacy
        && found.legacy_tables.iter().any(|tables| tables.family() == family)
        && found.door(variant, family).and_then(not_permitted).is_some()
}

/// Why we may not look behind a door. The first table that is there tells.
fn not_permitted(door: &mut impl Xtables) -> Option<Error> {
    let answers = TABLES.into_iter().map(|table| door.save(table));
    match { answers }.find(|answer| *answer != Ok(None)) {
        Some(Err(error @ Error::NotPermitted { .. })) => Some(error),
        _ => None,
    }
}

fn seen_in_legacy<X>(known: &KnownChains, found: &Found<X>, family: Family) -> Seen {
    let Some(legacy) = found.legacy.iter().find(|legacy| legacy.family == family) else {
        return Seen::Nothing;
    };
    let Some(chains) = &legacy.chains else { return Seen::Unknown(None) };
    seen(known, chains.iter().map(|(table, chain)| (*table, chain.as_str())))
}

fn seen<'a>(known: &KnownChains, chains: impl Iterator<Item = (Table, &'a str)>) -> Seen {
    let mut found = Seen::Nothing;
    for (table, chain) in chains.filter(|(table, chain)| known.is_theirs(*table, chain)) {
        let mut whose = known.whose(table, [chain]);
        if let Seen::Chains(before) = found {
            whose.add(before);
        }
        found = Seen::Chains(whose);
    }
    found
}

/// Legacy tables with chains of theirs, into which we may not look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The kernel told of such chains; else there may be some.
    pub is_seen: bool,
    /// What the program said.
    pub error: Error,
}

/// Chains of theirs that are in legacy tables into which we may not look, or may be; those that were seen, if some were. Rules that we write
/// elsewhere may come after those.
pub fn hidden<X: Xtables>(known: &KnownChains, found: &mut Found<X>) -> Option<Hidden> {
    let refused = Family::ALL.into_iter().filter_map(|family| {
        let is_seen = match seen_in_legacy(known, found, family) {
            Seen::Nothing => return None,
            Seen::Chains(_) => true,
            Seen::Unknown(_) => false,
        };
        let error = not_permitted(found.door(Variant::Legacy, family)?)?;
        Some(Hidden { is_seen, error })
    });
    refused.max_by_key(|hidden| hidden.is_seen)
}

/// Clears the tables behind one door of all chains that are known.
#[cfg(feature = "sim")]
pub fn clear_all(known: &KnownChains, door: &mut impl Xtables) -> Result<(), Error> {
    TABLES.into_iter().try_for_each(|table| clear(known, door, table, Occasion::Cleanup).map(drop))
}

/// Clears the tables behind one door, as far as that goes.
fn remove(known: &KnownChains, door: &mut dyn Xtables, deed: &Deed<'_>, seen: Whose, done: &mut TakeOver) {
    let (variant, family) = (door.variant(), door.family());
    let mut removed = Removed { variant, family, chains: 0, jumps: 0, whose: Whose::default() };
    for table in TABLES {
        match deed(door, table) {
            Ok(Some(removal)) => {
                removed.chains += removal.chains;
                removed.jumps += removal.jumps;
                removed.whose.add(removal.whose);
                let kept = removal.kept.into_iter().map(|kept| Problem::Kept { variant, family, kept });
                done.problems.extend(kept);
            }
            Ok(None) => {}
            Err(error) => {
                // Rules tell more than names.
                let rules = look(known, door, table, Occasion::Cleanup).ok().flatten();
                let mut whose = seen;
                whose.add(rules.map(|removal| removal.whose).unwrap_or_default());
                done.problems.push(Problem::Failed { variant, family, table, whose, error });
                break;
            }
        }
    }
    if removed.chains + removed.jumps > 0 {
        done.removed.push(removed);
    }
}

/// Clears one table. Somebody may have changed it between the look and the deed, so a refusal is worth a second look.
fn clear(
    known: &KnownChains,
    door: &mut dyn Xtables,
    table: Table,
    occasion: Occasion,
) -> Result<Option<Removal>, Error> {
    let Some(removal) = look(known, door, table, occasion)? else { return Ok(None) };
    match carry_out(door, &removal) {
        Ok(()) => Ok(Some(removal)),
        Err(Error::Refused { .. }) => {
            let Some(removal) = look(known, door, table, occasion)? else { return Ok(None) };
            carry_out(door, &removal).map(|()| Some(removal))
        }
        Err(error) => Err(error),
    }
}

fn carry_out(door: &mut dyn Xtables, removal: &Removal) -> Result<(), Error> {
    removal.texts.iter().try_for_each(|text| door.restore(text))
}

fn look(
    known: &KnownChains,
    door: &mut dyn Xtables,
    table: Table,
    occasion: Occasion,
) -> Result<Option<Removal>, Error> {
    let piece = match door.variant() {
        Variant::Nft => NFT_PIECE,
        // It exchanges the whole table each time, however little changes.
        Variant::Legacy => usize::MAX,
    };
    Ok(door.save(table)?.and_then(|saved| removal(known, table, &saved, piece, occasion)))
}

/// The chains of theirs in the tables that iptables-nft uses. Asking the program would take longer, and it cannot read tables of the same
/// names that somebody made with `nft`.
fn seen_in_nft(known: &KnownChains, nft: &mut impl OtherTables, family: Family) -> Seen {
    let mut chains = Vec::new();
    for table in TABLES {
        match nft.other_chains(family, table.name()) {
            Ok(found) => chains.extend(found.into_iter().flatten().map(|chain| (table, chain.name))),
            Err(error) => return Seen::Unknown(Some(error)),
        }
    }
    seen(known, chains.iter().map(|(table, chain)| (*table, &**chain)))
}

#[cfg(test)]
mod tests;
