//! The tables of iptables-nft, without the program: they are ordinary tables of `nf_tables`.
//!
//! In: `nf_tables`. Out: the same text as the program prints, as far as `iptables_text` can tell; and a text that only removes is carried out,
//! each table in one transaction.
//!
//! Absent on purpose: adding rules, which the program alone can.

use std::fmt::Write as _;

use super::error::{Error, Result};
use super::orders::{Orders, parse};
use super::{Family, Table, Variant, Xtables};
use crate::nft::{self, Operation, OtherRule, OtherTables, Policy, Transaction};

/// What is named where the programs are: the program that refuses.
const KERNEL: &str = "nf_tables";

/// The tables of iptables-nft of one family.
#[derive(Debug)]
pub struct NftTables<'a, K> {
    kernel: &'a mut K,
    family: Family,
}

impl<'a, K: OtherTables> NftTables<'a, K> {
    /// Those of this kernel.
    pub fn new(kernel: &'a mut K, family: Family) -> Self {
        Self { kernel, family }
    }

    fn carry_out(&mut self, orders: &Orders<'_>) -> Result<()> {
        let family = self.family;
        let mut transaction = Transaction::new(family, orders.table.name());
        transaction.extend(orders.emptied.iter().map(|chain| Operation::FlushChain((*chain).into())));
        if !orders.rules.is_empty() {
            // What is read next is at least as new as this: whoever changes it before the deletion makes that fail.
            transaction.only_in_generation = Some(self.kernel.generation().map_err(|error| failed(&error))?);
            let mut there =
                self.kernel.other_rules(family, orders.table.name()).map_err(|error| failed(&error))?;
            for (chain, text) in &orders.rules {
                transaction.push(take(&mut there, chain, text)?);
            }
        }
        transaction.extend(orders.deleted.iter().map(|chain| Operation::DeleteChain((*chain).into())));
        self.kernel.run(&transaction).map_err(|error| failed(&error))
    }
}

/// The deletion of the first rule that reads so. One that was taken is not found again.
fn take(there: &mut Vec<OtherRule>, chain: &str, text: &str) -> Result<Operation> {
    let at = there.iter().position(|rule| &*rule.chain == chain && rule.text == text);
    let rule = at.map(|at| there.remove(at)).ok_or_else(|| Error::Refused {
        program: KERNEL.to_owned(),
        line: Some(format!("-D {chain} {text}")),
        stderr: "there is no such rule any more".to_owned(),
    })?;
    Ok(Operation::DeleteRule(rule.chain, rule.handle))
}

impl<K: OtherTables> Xtables for NftTables<'_, K> {
    fn variant(&self) -> Variant {
        Variant::Nft
    }

    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        let (family, name) = (self.family, table.name());
        let Some(chains) = self.kernel.other_chains(family, name).map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        let mut text = format!("*{name}\n");
        for chain in &chains {
            let policy = match chain.base.map(|hook| hook.policy) {
                None => "-",
                Some(Policy::Accept) => "ACCEPT",
                Some(Policy::Drop) => "DROP",
            };
            writeln!(text, ":{} {policy} [0:0]", chain.name).expect("writing to a String cannot fail");
        }
        for rule in self.kernel.other_rules(family, name).map_err(|error| failed(&error))? {
            writeln!(text, "-A {} {}", rule.chain, rule.text).expect("writing to a String cannot fail");
        }
        Ok(Some(text + "COMMIT\n"))
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        parse(Variant::Nft, text)?.iter().try_for_each(|orders| self.carry_out(orders))
    }
}

/// Whatever may pass is a refusal: the caller looks again.
fn failed(error: &nft::Error) -> Error {
    let program = KERNEL.to_owned();
    match error {
        nft::Error::NotPermitted => Error::NotPermitted { program, stderr: error.to_string() },
        nft::Error::Missing => Error::ModuleMissing { program, stderr: error.to_string() },
        nft::Error::Refused { operation, refusal, .. } => {
            let stderr = if refusal.errno.0 == libc::EBUSY {
                format!(
                    "{refusal}: rules or maps of other programs lead there, which `nft list ruleset` shows"
                )
            } else {
                refusal.to_string()
            };
            Error::Refused { program, line: Some(operation.clone()), stderr }
        }
        other => Error::Refused { program, line: None, stderr: other.to_string() },
    }
}
