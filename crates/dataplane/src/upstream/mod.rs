//! Taking over from upstream kube-proxy's iptables or IPVS mode, or its old userspace mode: its chains and jumps go, and nothing else does.
//!
//! In: the iptables programs of this machine, and `nf_tables`. Out: what was removed, and what could not be, in words.
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
//! **What stays.** Kubelet's chains and everybody's rules, in place and order. A chain of theirs to which others lead is emptied,
//! and stays. `KUBE-MARK-MASQ` stays as it is in that case, since what it marks is masqueraded by ours. `KUBE-FORWARD` stays with its
//! jump where `FORWARD` refuses what nobody lets pass, for it is what lets service traffic pass there; a cleanup, after which no
//! Service works, takes it too. Each is told.
//!
//! Absent on purpose: upstream's nftables mode, whose table is replaced by `nftables`; the virtual servers, sets and addresses of its
//! IPVS mode, which `ipvs` knows; and stopping it: a kube-proxy that still runs would write its rules again.

mod names;
mod removal;

use std::fmt;
use std::iter;

use kernel::nft;
use kernel::xtables::{Error, Family, Found, Table, Variant, Xtables};

pub use names::{Rules, Whose, is_theirs};
pub use removal::{Kept, Occasion, Removal, Why, removal};

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
        write!(
            f,
            "{chains} chains of the {whose} mode, upstream's or ours, and {jumps} rules that led to them ({variant}, {family})"
        )
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
        /// Why.
        error: Error,
    },
    /// There are chains of theirs, or there may be, and no program to remove them.
    NoProgram {
        /// The program that is missing.
        variant: Variant,
        /// The family.
        family: Family,
        /// Chains of theirs were seen.
        is_seen: bool,
        /// What is wrong with the one that was found, if one was.
        because: Vec<Error>,
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
            Self::Failed { variant, family, table, error } => {
                format!("what there may be from table {table} on stays ({variant}, {family}): {error}")
            }
            Self::NoProgram { variant, family, is_seen, because } => {
                let are = are_in(*variant, *is_seen);
                let way_out = format!(
                    "chains of the iptables or userspace mode {are} ({variant}, {family}), and there is no program `{variant}` here to remove them, so they stay: install \
                     the package iptables and clean up again"
                );
                let because = because.iter().map(ToString::to_string);
                iter::once(way_out).chain(because).collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Whether another take-over may do better.
    pub fn retry_helps(&self) -> bool {
        matches!(self, Self::Failed { error, .. } if error.retry_helps())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { variant, family, kept } => write!(f, "{kept} ({variant}, {family})"),
            Self::Failed { variant, family, table, error } => write!(
                f,
                "upstream's iptables rules stay in table {table} ({variant}, {family}); ours are in force beside them: {error}"
            ),
            Self::NoProgram { variant, family, is_seen, because } => {
                let are = are_in(*variant, *is_seen);
                write!(
                    f,
                    "chains of upstream's iptables mode {are} ({variant}, {family}), and there is no program `{variant}` here to look \
                     after them, so they stay: run `portway cleanup --mode iptables --force` with a portway beside which the package iptables \
                     is installed"
                )?;
                because.iter().try_for_each(|error| write!(f, "; {error}"))
            }
        }
    }
}

/// Where chains are, or may be where the kernel did not tell.
fn are_in(variant: Variant, is_seen: bool) -> &'static str {
    match (variant, is_seen) {
        (Variant::Nft, true) => "are in nf_tables",
        (Variant::Nft, false) => "may be in nf_tables",
        (Variant::Legacy, true) => "are in legacy tables",
        (Variant::Legacy, false) => "may be in legacy tables",
    }
}

/// What of all this is in force now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The program that ours uses.
    pub variant: Variant,
    /// Whose rules they are.
    pub rules: Rules,
}

/// Removes what upstream's iptables and userspace modes left on this machine, or ours, whose chains have the same names; except the
/// chains of the mode that is in force, behind the doors of its program. Call it when ours is in force. A second call finds
/// nothing.
pub fn take_over<X: Xtables>(
    found: &mut Found<X>,
    nft: &mut impl nft::Kernel,
    ours: Option<Ours>,
) -> TakeOver {
    let occasion =
        move |variant| Occasion::TakeOver(ours.filter(|ours| ours.variant == variant).map(|ours| ours.rules));
    sweep(found, nft, &move |door, table| clear(door, table, occasion(door.variant())))
}

/// The same behind all doors, for somebody who wants to be rid of it all: Services need not go on.
pub fn clean_up<X: Xtables>(found: &mut Found<X>, nft: &mut impl nft::Kernel) -> TakeOver {
    sweep(found, nft, &|door, table| clear(door, table, Occasion::Cleanup))
}

/// What [`clean_up`] would do. Nothing is done.
pub fn would_clean_up<X: Xtables>(found: &mut Found<X>, nft: &mut impl nft::Kernel) -> TakeOver {
    sweep(found, nft, &|door, table| look(door, table, Occasion::Cleanup))
}

/// What is done to a table behind a door, or found there.
type Deed<X> = dyn Fn(&mut X, Table) -> Result<Option<Removal>, Error>;

fn sweep<X: Xtables>(found: &mut Found<X>, nft: &mut impl nft::Kernel, deed: &Deed<X>) -> TakeOver {
    let mut done = TakeOver::default();
    for family in Family::ALL {
        for variant in Variant::ALL {
            let seen = match variant {
                Variant::Nft => is_in_nft(nft, family),
                Variant::Legacy => Some(is_in_legacy(found, family)),
            };
            let because = found.problems.clone();
            let is_seen = variant == Variant::Nft || is_seen_in_legacy(found, family);
            match (seen, found.door(variant, family)) {
                (Some(false), _) | (None, None) => {}
                (_, Some(door)) => remove(door, deed, &mut done),
                (Some(true), None) => {
                    done.problems.push(Problem::NoProgram { variant, family, is_seen, because });
                }
            }
        }
    }
    done
}

/// Whether chains of theirs are in the legacy tables, or may be.
fn is_in_legacy<X>(found: &Found<X>, family: Family) -> bool {
    found.legacy.iter().any(|legacy| legacy.family == family && legacy.may_have(is_theirs))
}

/// Whether the kernel told of chains of theirs in the legacy tables.
fn is_seen_in_legacy<X>(found: &Found<X>, family: Family) -> bool {
    let mut of_family = found.legacy.iter().filter(|legacy| legacy.family == family);
    of_family.any(|legacy| legacy.chains.is_some() && legacy.may_have(is_theirs))
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
pub fn hidden<X: Xtables>(found: &mut Found<X>) -> Option<Hidden> {
    let families = Family::ALL.into_iter().filter(|family| is_in_legacy(found, *family)).collect::<Vec<_>>();
    let refused = families.into_iter().filter_map(|family| {
        let is_seen = is_seen_in_legacy(found, family);
        match found.door(Variant::Legacy, family)?.save(Table::Nat) {
            Err(error @ Error::NotPermitted { .. }) => Some(Hidden { is_seen, error }),
            _ => None,
        }
    });
    refused.max_by_key(|hidden| hidden.is_seen)
}

/// Whether there is anything of theirs behind this door that could be removed.
pub fn find(door: &mut impl Xtables) -> Result<bool, Error> {
    for table in TABLES {
        if look(door, table, Occasion::TakeOver(None))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Clears the tables behind one door of all chains of these names. Ours in iptables mode have them too.
pub fn clear_all(door: &mut impl Xtables) -> Result<(), Error> {
    TABLES.into_iter().try_for_each(|table| clear(door, table, Occasion::Cleanup).map(drop))
}

/// Clears the tables behind one door, as far as that goes.
fn remove<X: Xtables>(door: &mut X, deed: &Deed<X>, done: &mut TakeOver) {
    let (variant, family) = (door.variant(), door.family());
    let mut removed = Removed { variant, family, chains: 0, jumps: 0, whose: Whose::default() };
    for table in TABLES {
        match deed(door, table) {
            Ok(Some(removal)) => {
                removed.chains += removal.chains;
                removed.jumps += removal.jumps;
                removed.whose = removed.whose.and(removal.whose);
                let kept = removal.kept.into_iter().map(|kept| Problem::Kept { variant, family, kept });
                done.problems.extend(kept);
            }
            Ok(None) => {}
            Err(error) => {
                done.problems.push(Problem::Failed { variant, family, table, error });
                break;
            }
        }
    }
    if removed.chains + removed.jumps > 0 {
        done.removed.push(removed);
    }
}

/// Clears one table. Somebody may have changed it between the look and the deed, so a refusal is worth a second look.
fn clear(door: &mut impl Xtables, table: Table, occasion: Occasion) -> Result<Option<Removal>, Error> {
    let Some(removal) = look(door, table, occasion)? else { return Ok(None) };
    match carry_out(door, &removal) {
        Ok(()) => Ok(Some(removal)),
        Err(Error::Refused { .. }) => {
            let Some(removal) = look(door, table, occasion)? else { return Ok(None) };
            carry_out(door, &removal).map(|()| Some(removal))
        }
        Err(error) => Err(error),
    }
}

fn carry_out(door: &mut impl Xtables, removal: &Removal) -> Result<(), Error> {
    removal.texts.iter().try_for_each(|text| door.restore(text))
}

fn look(door: &mut impl Xtables, table: Table, occasion: Occasion) -> Result<Option<Removal>, Error> {
    let piece = match door.variant() {
        Variant::Nft => NFT_PIECE,
        // It exchanges the whole table each time, however little changes.
        Variant::Legacy => usize::MAX,
    };
    Ok(door.save(table)?.and_then(|saved| removal(table, &saved, piece, occasion)))
}

/// Whether there are chains of theirs in the tables that iptables-nft uses; `None` if that cannot be told. Asking the program
/// would take longer, and it cannot read tables of the same names that somebody made with `nft`.
fn is_in_nft(nft: &mut impl nft::Kernel, family: Family) -> Option<bool> {
    let family = match family {
        Family::V4 => nft::Family::Ip,
        Family::V6 => nft::Family::Ip6,
    };
    for table in TABLES {
        let Some(listed) = nft.list(family, table.name()).ok()? else { continue };
        let odd = listed.unknown.iter().filter_map(|object| object.strip_prefix("chain "));
        if listed.chains.keys().map(|name| &**name).chain(odd).any(|chain| is_theirs(table, chain)) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests;
