//! Applies a transaction to a copy of a table, with the kernel's own refusals.
//!
//! In: the table as it is. Out: the table as it shall be, or the first operation that the kernel would
//! refuse, with its error number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kernel::netlink::Errno;
use kernel::nft::{
    Chain, Data, DataFields, Element, Error, Family, Name, Operation, Result, Rule, Set, Transaction,
};

use super::references::{chain_is_used, set_is_used};
use super::{SimChain, SimElement, SimSet, SimTable, validate};

/// What is wrong with one operation, and with which of its elements.
pub(super) struct Refused {
    errno: i32,
    element: Option<usize>,
}

pub(super) const fn refused(errno: i32) -> Refused {
    Refused { errno, element: None }
}

/// Where and when operations are applied.
#[derive(Clone, Copy)]
struct Place {
    family: Family,
    now: Duration,
}

type Step = std::result::Result<(), Refused>;

/// The table after the transaction; `None` if it is gone.
pub(super) fn apply(
    transaction: &Transaction,
    table: Option<SimTable>,
    now: Duration,
) -> Result<Option<SimTable>> {
    let after = replay(transaction, table.clone(), now, |_| Ok(()))?;
    match after.as_ref().map_or(Ok(()), validate::hooks) {
        Ok(()) => Ok(after),
        // As the kernel does: begin anew and check after each step, to find the one to blame.
        Err(_) => replay(transaction, table, now, |table| validate::hooks(table).map_err(refused)),
    }
}

fn replay(
    transaction: &Transaction,
    mut table: Option<SimTable>,
    now: Duration,
    check: fn(&SimTable) -> Step,
) -> Result<Option<SimTable>> {
    let place = Place { family: transaction.family, now };
    for (index, operation) in transaction.operations.iter().enumerate() {
        let done = step(place, &mut table, operation);
        done.and_then(|()| table.as_ref().map_or(Ok(()), check)).map_err(|refused| Error::Refused {
            index,
            total: transaction.operations.len(),
            operation: transaction.describe(index, refused.element),
            element: refused.element,
            refusal: Errno(refused.errno).into(),
        })?;
    }
    Ok(table)
}

fn step(place: Place, table: &mut Option<SimTable>, operation: &Operation) -> Step {
    match operation {
        Operation::AddTable(comment) => {
            table.get_or_insert_with(|| SimTable { comment: comment.clone(), ..SimTable::default() });
            Ok(())
        }
        Operation::DeleteTable => table.take().map(drop).ok_or(refused(libc::ENOENT)),
        within => inside(place, table.as_mut().ok_or(refused(libc::ENOENT))?, within),
    }
}

fn inside(place: Place, table: &mut SimTable, operation: &Operation) -> Step {
    match operation {
        Operation::AddTable(_) | Operation::DeleteTable => Ok(()),
        Operation::AddChain(chain) => add_chain(table, chain),
        Operation::FlushChain(name) => {
            table.chains.get_mut(name).ok_or(refused(libc::ENOENT))?.rules = Arc::default();
            Ok(())
        }
        Operation::DeleteChain(name) => {
            // A chain that leads to itself counts as used, too.
            if table.chains.contains_key(name) && chain_is_used(table, name) {
                return Err(refused(libc::EBUSY));
            }
            table.chains.remove(name).map(drop).ok_or(refused(libc::ENOENT))
        }
        Operation::AddRule(rule) => add_rule(place.family, table, rule),
        Operation::DeleteRule(chain, handle) => delete_rule(table, chain, *handle),
        Operation::AddSet(set) => add_set(table, set),
        Operation::FlushSet(name) => {
            Arc::make_mut(table.sets.get_mut(name).ok_or(refused(libc::ENOENT))?).elements.clear();
            Ok(())
        }
        Operation::DeleteSet(name) => {
            if table.sets.contains_key(name) && set_is_used(table, name) {
                return Err(refused(libc::EBUSY));
            }
            table.sets.remove(name).map(drop).ok_or(refused(libc::ENOENT))
        }
        Operation::AddElements(name, elements) => {
            let (chains, sets) = (&table.chains, &mut table.sets);
            let set = Arc::make_mut(sets.get_mut(name).ok_or(refused(libc::ENOENT))?);
            forget_expired(set, place.now);
            each(elements, |element| {
                check_shape(place.family, &set.set, element)?;
                check_target(chains, element)?;
                add_element(place, set, element)
            })
        }
        Operation::DeleteElements(name, elements) => {
            let set = Arc::make_mut(table.sets.get_mut(name).ok_or(refused(libc::ENOENT))?);
            forget_expired(set, place.now);
            each(elements, |element| {
                check_key(place.family, &set.set, element)?;
                delete_element(set, element)
            })
        }
    }
}

fn each(elements: &[Element], mut step: impl FnMut(&Element) -> Step) -> Step {
    for (index, element) in elements.iter().enumerate() {
        step(element).map_err(|refused| Refused { element: Some(index), ..refused })?;
    }
    Ok(())
}

fn add_chain(table: &mut SimTable, chain: &Chain) -> Step {
    if let Some(found) = table.chains.get_mut(&chain.name) {
        return update_chain(&mut found.chain, chain);
    }
    table.chains.insert(chain.name.clone(), SimChain { chain: chain.clone(), rules: Arc::default() });
    Ok(())
}

/// A chain that is there may get another policy, and nothing else.
fn update_chain(found: &mut Chain, wanted: &Chain) -> Step {
    match (&mut found.base, &wanted.base) {
        (_, None) => Ok(()),
        (Some(found), Some(wanted)) => {
            let is_same =
                (found.kind, found.point, found.priority) == (wanted.kind, wanted.point, wanted.priority);
            found.policy = if is_same { wanted.policy } else { return Err(refused(libc::EEXIST)) };
            Ok(())
        }
        (None, Some(_)) => Err(refused(libc::EOPNOTSUPP)),
    }
}

fn add_rule(family: Family, table: &mut SimTable, rule: &Rule) -> Step {
    validate::rule(family, table, rule).map_err(refused)?;
    let handle = table.next_handle + 1;
    let chain = table.chains.get_mut(&rule.chain).ok_or(refused(libc::ENOENT))?;
    Arc::make_mut(&mut chain.rules).push((handle, rule.clone()));
    table.next_handle = handle;
    Ok(())
}

fn delete_rule(table: &mut SimTable, chain: &Name, handle: u64) -> Step {
    let rules = &mut table.chains.get_mut(chain).ok_or(refused(libc::ENOENT))?.rules;
    let at = rules.iter().position(|(found, _)| *found == handle).ok_or(refused(libc::ENOENT))?;
    Arc::make_mut(rules).remove(at);
    Ok(())
}

fn add_set(table: &mut SimTable, set: &Set) -> Step {
    match table.sets.get(&set.name) {
        // The kernel compares shapes, not comments.
        Some(found) if Set { comment: set.comment.clone(), ..found.set.clone() } == *set => Ok(()),
        Some(_) => Err(refused(libc::EEXIST)),
        None => {
            let empty = SimSet { set: set.clone(), elements: BTreeMap::new() };
            table.sets.insert(set.name.clone(), Arc::new(empty));
            Ok(())
        }
    }
}

/// A verdict can only lead to a chain that is there and is entered by nobody but rules.
fn check_target(chains: &BTreeMap<Name, SimChain>, element: &Element) -> Step {
    let Data::Verdict(verdict) = &element.data else { return Ok(()) };
    let Some(target) = verdict.target() else { return Ok(()) };
    validate::target(chains, target).map_err(refused)
}

fn add_element(place: Place, set: &mut SimSet, element: &Element) -> Step {
    if let Some(found) = set.elements.get(&element.key) {
        let is_same = found.element.data == element.data && found.element.end == element.end;
        return if is_same { Ok(()) } else { Err(refused(libc::EEXIST)) };
    }
    if set.set.flags.interval && set.elements.values().any(|found| overlap(&set.set, &found.element, element))
    {
        return Err(refused(libc::EEXIST));
    }
    if set.set.size.is_some_and(|size| set.elements.len() >= usize::try_from(size).unwrap_or(usize::MAX)) {
        return Err(refused(libc::ENFILE));
    }
    let expires = element.timeout.map(|timeout| place.now + timeout);
    set.elements.insert(element.key, SimElement { element: element.clone(), expires });
    Ok(())
}

/// Only sets with timeout hold elements that can be gone.
fn forget_expired(set: &mut SimSet, now: Duration) {
    if set.set.flags.timeout {
        set.elements.retain(|_, found| found.is_alive(now));
    }
}

fn check_key(family: Family, set: &Set, element: &Element) -> Step {
    let key = set.key_kinds(family);
    let fits = element.key.has_kinds(&key)
        && element.end.as_ref().is_none_or(|end| end.has_kinds(&key))
        && element.end.is_some() == set.flags.interval;
    if fits { Ok(()) } else { Err(refused(libc::EINVAL)) }
}

fn check_shape(family: Family, set: &Set, element: &Element) -> Step {
    check_key(family, set, element)?;
    let fits = (element.timeout.is_none() || set.flags.timeout)
        && match (&set.data, &element.data) {
            (DataFields::None, Data::None) | (DataFields::Verdict, Data::Verdict(_)) => true,
            (DataFields::Values(_), Data::Values(values)) => values.has_kinds(&set.data_kinds(family)),
            _ => false,
        };
    if fits { Ok(()) } else { Err(refused(libc::EINVAL)) }
}

/// Whether the kernel sees that two intervals share a key. With several fields it looks only at the two
/// ends of the new one, and so takes one that encloses another.
fn overlap(set: &Set, found: &Element, new: &Element) -> bool {
    let (Some(found_end), Some(new_end)) = (&found.end, &new.end) else { return false };
    if set.key.len() > 1 {
        return found.covers(&new.key) || found.covers(new_end);
    }
    found.key <= **new_end && new.key <= **found_end
}

/// With several fields the kernel takes the element that holds the lower end, whatever the upper one says.
fn delete_element(set: &mut SimSet, element: &Element) -> Step {
    let is_concatenated = set.set.flags.interval && set.set.key.len() > 1;
    let found = match set.elements.get(&element.key) {
        Some(found) if is_concatenated || found.element.end == element.end => Some(element.key),
        _ if is_concatenated => set
            .elements
            .values()
            .find(|found| found.element.covers(&element.key))
            .map(|found| found.element.key),
        _ => None,
    };
    found.and_then(|key| set.elements.remove(&key)).map(drop).ok_or(refused(libc::ENOENT))
}
