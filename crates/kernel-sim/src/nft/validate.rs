//! What the kernel checks before it takes a rule: that all it names is there and fits, and that it stands
//! where its statements work.

use std::collections::{BTreeMap, BTreeSet};

use kernel::nft::{
    ChainKind, Data, DataFields, Expression, Family, Found, Hook, HookPoint, MetaKey, Name, Register, Rule,
    Set, Statement, wire_size,
};

use super::{SimChain, SimTable};

type Check = Result<(), i32>;

/// How deep jumps may nest.
const JUMPS_MAX: usize = 16;

/// Whether the rule may be added.
pub(super) fn rule(family: Family, table: &SimTable, rule: &Rule) -> Check {
    if !table.chains.contains_key(&rule.chain) {
        return Err(libc::ENOENT);
    }
    let mut registers = Registers::default();
    for expression in rule.compile(family) {
        expression_fits(family, table, &mut registers, &expression)?;
    }
    Ok(())
}

/// Whether a verdict may lead there.
pub(super) fn target(chains: &BTreeMap<Name, SimChain>, name: &Name) -> Check {
    match chains.get(name) {
        None => Err(libc::ENOENT),
        Some(chain) if chain.chain.base.is_some() => Err(libc::EOPNOTSUPP),
        Some(_) => Ok(()),
    }
}

/// Which registers hold something. The kernel refuses to read one that does not.
#[derive(Default)]
struct Registers(BTreeSet<u8>);

impl Registers {
    fn write(&mut self, first: Register, bytes: usize) {
        self.0.extend(words(first, bytes));
    }

    fn read(&self, first: Register, bytes: usize) -> Check {
        let is_written = words(first, bytes).all(|word| self.0.contains(&word));
        if is_written { Ok(()) } else { Err(libc::ENODATA) }
    }
}

fn words(first: Register, bytes: usize) -> impl Iterator<Item = u8> {
    let count = u8::try_from(bytes.div_ceil(4)).unwrap_or(u8::MAX);
    first.0..first.0.saturating_add(count)
}

fn expression_fits(
    family: Family,
    table: &SimTable,
    registers: &mut Registers,
    expression: &Expression,
) -> Check {
    match expression {
        Expression::Payload { to, size, .. } => {
            registers.write(*to, usize::try_from(*size).unwrap_or(usize::MAX));
        }
        Expression::Meta { to, key: MetaKey::InputInterface } => registers.write(*to, 16),
        Expression::Meta { to, .. }
        | Expression::Ct { to, .. }
        | Expression::Numgen { to, .. }
        | Expression::Fib { to, .. } => registers.write(*to, 4),
        Expression::Immediate { to, value } => registers.write(*to, value.len()),
        Expression::Verdict(verdict) => {
            return verdict.target().map_or(Ok(()), |name| target(&table.chains, name));
        }
        Expression::Lookup { key, set, found } => {
            let set = &table.sets.get(set).ok_or(libc::ENOENT)?.set;
            registers.read(*key, wire_size(&set.key_kinds(family)))?;
            return lookup_fits(family, set, registers, *found);
        }
        Expression::Dynset { set, key, data, timeout, .. } => {
            let set = &table.sets.get(set).ok_or(libc::ENOENT)?.set;
            dynset_fits(set, timeout.is_some())?;
            registers.read(*key, wire_size(&set.key_kinds(family)))?;
            if let Some(data) = data {
                registers.read(*data, wire_size(&set.data_kinds(family)))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn lookup_fits(family: Family, set: &Set, registers: &mut Registers, found: Found) -> Check {
    match (found, &set.data) {
        (Found::Pass | Found::Break, _) | (Found::Decide, DataFields::Verdict) => Ok(()),
        (Found::Load(to), DataFields::Values(_)) => {
            registers.write(to, wire_size(&set.data_kinds(family)));
            Ok(())
        }
        _ => Err(libc::EINVAL),
    }
}

/// Packets may change dynamic sets. The kernel would also take some that were not made dynamic, and give
/// them a size; we never ask for that.
fn dynset_fits(set: &Set, with_timeout: bool) -> Check {
    let fits = set.flags.dynamic
        && (set.flags.timeout || !with_timeout)
        && matches!(set.data, DataFields::Values(_));
    if fits { Ok(()) } else { Err(libc::EOPNOTSUPP) }
}

/// Walks from every base chain and refuses statements that do not work where they are reached.
pub(super) fn hooks(table: &SimTable) -> Check {
    for chain in table.chains.values() {
        if let Some(hook) = chain.chain.base {
            walk(table, hook, &chain.chain.name, 0, &mut BTreeSet::new())?;
        }
    }
    Ok(())
}

fn walk(
    table: &SimTable,
    hook: Hook,
    name: &Name,
    depth: usize,
    seen: &mut BTreeSet<(Name, usize)>,
) -> Check {
    if depth >= JUMPS_MAX {
        return Err(libc::EMLINK);
    }
    if !seen.insert((name.clone(), depth)) {
        return Ok(());
    }
    let Some(chain) = table.chains.get(name) else { return Ok(()) };
    for statement in chain.rules.iter().flat_map(|(_, rule)| &rule.statements) {
        works_at(hook, statement)?;
        for next in leads_to(table, statement) {
            walk(table, hook, &next, depth + 1, seen)?;
        }
    }
    Ok(())
}

fn works_at(hook: Hook, statement: &Statement) -> Check {
    let is_nat = hook.kind == ChainKind::Nat;
    let works = match statement {
        Statement::Dnat(_) => is_nat && matches!(hook.point, HookPoint::Prerouting | HookPoint::Output),
        Statement::Masquerade => is_nat && hook.point == HookPoint::Postrouting,
        Statement::Reject(_) => hook.point != HookPoint::Postrouting,
        _ => true,
    };
    if works { Ok(()) } else { Err(libc::EOPNOTSUPP) }
}

fn leads_to(table: &SimTable, statement: &Statement) -> Vec<Name> {
    match statement {
        Statement::Verdict(verdict) => verdict.target().cloned().into_iter().collect(),
        Statement::VerdictMap { map, .. } => {
            let elements = table.sets.get(map).into_iter().flat_map(|set| set.elements.values());
            let targets: BTreeSet<_> = elements
                .filter_map(|found| match &found.element.data {
                    Data::Verdict(verdict) => verdict.target().cloned(),
                    _ => None,
                })
                .collect();
            targets.into_iter().collect()
        }
        _ => Vec::new(),
    }
}
