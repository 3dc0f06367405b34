//! Refusals where tables of iptables-nft are changed without the program: what others changed meanwhile, and what others use.

use kernel::nft::{
    self, Chain, Kernel, Listed, Operation, OtherRule, OtherTables, Result, Rule, Statement, Transaction,
};
use kernel::xtables::{Family, NftTables, Xtables};
use kernel_sim::nft::Simulated;

/// Somebody adds a rule each time after rules were read.
struct Busy(Simulated);

impl Kernel for Busy {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        self.0.run(transaction)
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        self.0.check(transaction)
    }

    fn list(&mut self, family: nft::Family, table: &str) -> Result<Option<Listed>> {
        self.0.list(family, table)
    }

    fn tables(&mut self, family: nft::Family) -> Result<Vec<nft::Table>> {
        self.0.tables(family)
    }

    fn generation(&mut self) -> Result<u32> {
        self.0.generation()
    }
}

impl OtherTables for Busy {
    fn other_chains(&mut self, family: nft::Family, table: &str) -> Result<Option<Vec<Chain>>> {
        self.0.other_chains(family, table)
    }

    fn other_rules(&mut self, family: nft::Family, table: &str) -> Result<Vec<OtherRule>> {
        let rules = self.0.other_rules(family, table);
        let mut change = Transaction::new(family, table);
        change.push(Operation::AddRule(Rule::new("PREROUTING", [Statement::jump("A")])));
        self.0.run(&change)?;
        rules
    }
}

fn kernel() -> Simulated {
    let mut kernel = Simulated::default();
    let mut made = Transaction::new(nft::Family::V4, "nat");
    made.replace_table(None);
    made.extend(["PREROUTING", "A"].map(|name| Operation::AddChain(Chain::new(name))));
    made.push(Operation::AddRule(Rule::new("PREROUTING", [Statement::jump("A")])));
    kernel.run(&made).expect("it is right");
    kernel
}

#[test]
fn a_change_between_the_look_and_the_deletion_is_a_refusal() {
    let text = "*nat\n-D PREROUTING -j A\nCOMMIT\n";
    let mut still = kernel();
    NftTables::new(&mut still, Family::V4).restore(text).expect("nobody changes anything");
    assert_eq!(still.other_rules(nft::Family::V4, "nat"), Ok(Vec::new()));
    let mut busy = Busy(kernel());
    let refused = NftTables::new(&mut busy, Family::V4).restore(text).unwrap_err();
    assert!(refused.to_string().contains("somebody else changed nf_tables meanwhile"), "{refused}");
}

#[test]
fn a_chain_that_is_still_used_is_not_called_a_change_by_others() {
    let mut kernel = kernel();
    let refused = NftTables::new(&mut kernel, Family::V4).restore("*nat\n-X A\nCOMMIT\n").unwrap_err();
    let words = refused.to_string();
    assert!(
        words.contains("rules or maps of other programs lead there") && !words.contains("meanwhile"),
        "{words}"
    );
}
