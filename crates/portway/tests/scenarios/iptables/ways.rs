//! Sends packets of the model through simulated tables, once for each way in which chance may fall.
//!
//! In: a packet, the tables of its family. Out: every place where it may end, with its share, and the tables as they then are.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel_sim::nft::{Fate, Outcome as Seen, SimPacket};
use kernel_sim::xtables::Simulated;

use crate::nftables::ends::{End, is_delivered_here};
use crate::step::{Landing, Outcome, Share};

/// One way in which chance may fall.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) end: End,
    pub(crate) share: (u64, u64),
    /// The tables afterwards; they may remember the client.
    pub(crate) after: Simulated,
}

/// Every way.
pub(crate) fn ways(tables: &Simulated, packet: &SimPacket, now: Duration) -> Result<Vec<Way>, String> {
    let ways = tables.ways(packet, now).into_iter();
    ways.map(|way| Ok(Way { end: end_of(packet, &way.outcome)?, share: way.share, after: way.after }))
        .collect()
}

/// What the outcome means. The mark must be what it was, unless nobody sees it any more.
fn end_of(packet: &SimPacket, seen: &Seen) -> Result<End, String> {
    let end = match seen.fate {
        Fate::Untouched => End::Untouched,
        Fate::Rejected(_) => return Ok(End::Rejected),
        Fate::Dropped => return Ok(End::Dropped),
        Fate::Dnat(address, port) => {
            let endpoint = (address, port.ok_or("the packet lost its port")?);
            // What is delivered to this host itself passes no POSTROUTING, where the mark would be taken off.
            if is_delivered_here(packet, address) {
                return Ok(End::At { endpoint, masqueraded: false });
            }
            End::At { endpoint, masqueraded: seen.masqueraded }
        }
    };
    if seen.mark != packet.mark || (end == End::Untouched && seen.masqueraded) {
        return Err(format!("the packet left otherwise than it came: {packet:?} {seen:?}"));
    }
    Ok(end)
}

/// In the words of scenarios.
pub(crate) fn outcome(ways: &[Way]) -> Result<Outcome, String> {
    let mut sum: BTreeMap<End, (u64, u64)> = BTreeMap::new();
    for way in ways {
        let sum = sum.entry(way.end).or_insert((0, 1));
        *sum = add(*sum, way.share).ok_or("shares are too small to count")?;
    }
    match sum.keys().collect::<Vec<_>>()[..] {
        [End::Untouched] => return Ok(Outcome::Untouched),
        [End::Rejected] => return Ok(Outcome::Rejected),
        [End::Dropped] => return Ok(Outcome::Dropped),
        _ => {}
    }
    let landing = |(end, (part, whole)): (&End, &(u64, u64))| match end {
        End::At { endpoint, masqueraded } => {
            let share = Share::new(u32::try_from(*part).ok()?, u32::try_from(*whole).ok()?)?;
            Some(Landing { endpoint: *endpoint, share, masqueraded: *masqueraded })
        }
        _ => None,
    };
    let landings = sum.iter().map(landing).collect::<Option<_>>();
    landings.map(Outcome::OneOf).ok_or_else(|| format!("the packet ends differently by chance: {sum:?}"))
}

fn add((a, b): (u64, u64), (c, d): (u64, u64)) -> Option<(u64, u64)> {
    let (a, b, c, d) = (u128::from(a), u128::from(b), u128::from(c), u128::from(d));
    let (part, whole) = (a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?, b.checked_mul(d)?);
    let (mut one, mut other) = (part, whole);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    Some((u64::try_from(part / one.max(1)).ok()?, u64::try_from(whole / one.max(1)).ok()?))
}
