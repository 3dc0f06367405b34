//! The tables of a simulated kernel, as chains and rules that can be deleted one by one.

use kernel::nft::{Chain, Family, Kernel, OtherRule, OtherTables, Result};

use super::Simulated;

impl OtherTables for Simulated {
    fn other_chains(&mut self, family: Family, table: &str) -> Result<Option<Vec<Chain>>> {
        Ok(self.list(family, table)?.map(|listed| listed.chains.into_values().collect()))
    }

    fn other_rules(&mut self, family: Family, table: &str) -> Result<Vec<OtherRule>> {
        let rules = self.rules_of(family, table);
        Ok(rules.map(|(handle, rule)| OtherRule::known(*handle, rule, family)).collect())
    }
}

#[cfg(test)]
mod tests {
    use kernel::nft::{Operation, Rule, Statement, Transaction};

    use super::*;

    #[test]
    fn one_rule_of_two_alike_goes_by_its_number() {
        let mut kernel = Simulated::default();
        let mut made = Transaction::new(Family::V4, "nat");
        made.replace_table(None);
        made.extend(["PREROUTING", "KUBE-SERVICES"].map(|name| Operation::AddChain(Chain::new(name))));
        let jump = |comment: &str| {
            let rule = Rule::new("PREROUTING", [Statement::jump("KUBE-SERVICES")]);
            Operation::AddRule(Rule { comment: Some(comment.into()), ..rule })
        };
        made.extend([jump("a"), jump("b")]);
        kernel.run(&made).expect("it is right");
        let rules = kernel.other_rules(Family::V4, "nat").expect("it is there");
        let texts: Vec<&str> = rules.iter().map(|rule| &*rule.text).collect();
        assert_eq!(
            texts,
            ["-m comment --comment \"a\" -j KUBE-SERVICES", "-m comment --comment \"b\" -j KUBE-SERVICES"]
        );
        let mut delete = Transaction::new(Family::V4, "nat");
        delete.push(Operation::DeleteRule("PREROUTING".into(), rules[0].handle));
        kernel.run(&delete).expect("it is there");
        assert_eq!(kernel.other_rules(Family::V4, "nat"), Ok(vec![rules[1].clone()]));
        assert!(kernel.run(&delete).is_err(), "it is gone");
    }
}
