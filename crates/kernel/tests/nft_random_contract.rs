//! Random transactions on the real kernel and on its twin: same answers, same listings, step by step.
//!
//! The names and keys are few, so that additions, deletions and uses meet each other often. A failure
//! prints its seed. Set `PORTWAY_CONTRACT_STEPS` for more steps.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod common;

use std::time::Duration;

use kernel::nft::{
    Bits, Chain, ChainKind, Element, Error, Family, Field, Flags, Hook, HookPoint, Kernel, Listed, Match,
    Name, Operation, Part, Policy, PriorityFrom, Reject, Rule, Selector, Set, Statement, Transaction, Value,
    Verdict,
};
use kernel_sim::nft::Simulated;

const STEPS: u32 = 600;
const TABLE: &str = "t";

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(u32::try_from(choices.len()).unwrap()) as usize]
    }

    fn chain(&mut self) -> Name {
        self.one(&["a", "b", "c", "in", "out"]).into()
    }

    fn set(&mut self) -> Name {
        self.one(&["ports", "values", "verdicts", "networks", "pairs", "clients"]).into()
    }

    /// A set that packets change, or one that they certainly cannot.
    fn changing(&mut self) -> Name {
        self.one(&["clients", "clients", "ports", "networks"]).into()
    }

    fn port(&mut self) -> Value {
        Value::Port(u16::try_from(self.below(6)).unwrap())
    }

    /// No network encloses another that begins elsewhere. The kernel notices such a thing at one end or the
    /// other, or with several fields not at all; the twin does not follow it there.
    fn network(&mut self) -> Part {
        let (second, length) = (self.below(4), self.one(&[16, 32]));
        Part::Prefix(std::net::Ipv4Addr::from_bits(0x0a00_0000 + (second << 16)).into(), length)
    }

    fn verdict(&mut self) -> Verdict {
        match self.below(5) {
            0 => Verdict::Accept,
            1 => Verdict::Drop,
            2 => Verdict::Jump(self.chain()),
            _ => Verdict::Goto(self.chain()),
        }
    }

    fn new_set(&mut self) -> Set {
        let interval = Flags { interval: true, ..Flags::default() };
        let dynamic = Flags { dynamic: true, timeout: true, interval: false };
        match self.below(6) {
            0 => Set { size: Some(4), ..Set::new("ports", &[Field::Port]) },
            1 => Set::map("values", &[Field::Port], &[Field::Priority]),
            2 => Set::verdict_map("verdicts", &[Field::Port]),
            3 => Set { flags: interval, ..Set::new("networks", &[Field::Source]) },
            4 => Set { flags: interval, ..Set::new("pairs", &[Field::Source, Field::Port]) },
            _ => Set {
                flags: dynamic,
                size: Some(8),
                ..Set::map("clients", &[Field::Source, Field::Priority], &[Field::Priority])
            },
        }
    }

    /// An element that fits the set, as a rule.
    fn element(&mut self, set: &str) -> Element {
        let fitting = if self.below(20) == 0 { self.set() } else { set.into() };
        match &*fitting {
            "values" => Element::new(&[self.port()]).values(&[Value::Priority(self.below(2) + 1)]),
            "verdicts" => Element::new(&[self.port()]).verdict(self.verdict()),
            "networks" => Element::interval(&[self.network()]),
            "pairs" => Element::interval(&[self.network(), Part::Exact(self.port())]),
            "clients" => {
                let client = std::net::Ipv4Addr::from_bits(self.below(4));
                let number = Value::Priority(self.below(2));
                let element = Element::new(&[Value::Ipv4(client), number]).values(&[number]);
                Element { timeout: Some(Duration::from_secs(3600)), ..element }
            }
            _ => Element::new(&[self.port()]),
        }
    }

    fn statement(&mut self) -> Statement {
        let port = || vec![Selector::Port];
        let client = || vec![Selector::Source, Selector::Priority];
        match self.below(12) {
            0 => Statement::Match(Match::InSet { key: port(), set: self.set(), not: self.below(2) == 0 }),
            1 => Statement::Match(Match::InSet { key: vec![Selector::Source], set: self.set(), not: false }),
            2 => Statement::SetPriority(PriorityFrom::Map { key: port(), map: self.set() }),
            3 => Statement::VerdictMap { key: port(), map: self.set() },
            4 => Statement::Update {
                map: self.changing(),
                key: client(),
                data: Selector::Priority,
                timeout: Duration::from_secs(9),
            },
            5 => Statement::Delete { map: self.changing(), key: client(), data: Selector::Priority },
            6 => Statement::Masquerade,
            7 => Statement::Reject(Reject::PortUnreachable),
            8 => Statement::SetMark(Bits::Or(1)),
            _ => Statement::Verdict(self.verdict()),
        }
    }

    fn operation(&mut self) -> Operation {
        match self.below(24) {
            0 => self.one(&["x", "y"]).into_table(),
            1 if self.below(8) == 0 => Operation::DeleteTable,
            1..=4 => Operation::AddChain(self.new_chain()),
            5 => Operation::FlushChain(self.chain()),
            6 | 7 => Operation::DeleteChain(self.chain()),
            8..=11 => Operation::AddRule(Rule::new(&self.chain(), [self.statement()])),
            12..=14 => Operation::AddSet(self.new_set()),
            15 => Operation::DeleteSet(self.set()),
            16 => Operation::FlushSet(self.set()),
            17..=20 => {
                let set = self.set();
                let count = self.below(3) + 1;
                let elements = (0..count).map(|_| self.element(&set)).collect();
                Operation::AddElements(set, elements)
            }
            _ => {
                let set = self.set();
                let element = self.element(&set);
                Operation::DeleteElements(set, vec![element])
            }
        }
    }

    fn new_chain(&mut self) -> Chain {
        let name = self.chain();
        let point = match &*name {
            "in" => HookPoint::Prerouting,
            "out" => HookPoint::Postrouting,
            _ => return Chain::new(&name),
        };
        Chain::base(&name, Hook { kind: ChainKind::Nat, point, priority: 50, policy: Policy::Accept })
    }

    fn transaction(&mut self) -> Transaction {
        let mut transaction = Transaction::new(Family::V4, TABLE);
        if self.below(2) == 0 {
            transaction.push(self.one(&["x", "y"]).into_table());
        }
        for _ in 0..=self.below(3) {
            let operation = self.operation();
            transaction.push(operation);
        }
        transaction
    }
}

trait IntoTable {
    fn into_table(self) -> Operation;
}

impl IntoTable for &str {
    fn into_table(self) -> Operation {
        Operation::AddTable(Some(self.into()))
    }
}

fn listed(kernel: &mut dyn Kernel) -> Option<Listed> {
    let mut listed = kernel.list(Family::V4, TABLE).unwrap()?;
    listed.rules.values_mut().flatten().for_each(|rule| rule.handle = 0);
    Some(listed)
}

/// The operation that is to blame, the element, and the error number.
fn blame(result: &Result<(), Error>) -> Option<(usize, Option<usize>, i32)> {
    match result {
        Ok(()) => None,
        Err(Error::Refused { index, element, refusal, .. }) => Some((*index, *element, refusal.errno.0)),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn root_random_transactions_end_alike() {
    let Some(mut real) = common::own_kernel() else { return };
    let mut twin = Simulated::default();
    let steps =
        std::env::var("PORTWAY_CONTRACT_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let (mut applied, mut operations) = (0, 0);
    let mut random = Random(0x5eed);
    for step in 0..steps {
        let transaction = random.transaction();
        let before = listed(&mut twin);
        let (said, meant) = (real.run(&transaction), twin.run(&transaction));
        let told = || format!("step {step}\n{before:#?}\n{transaction:#?}\nkernel {said:?}\ntwin {meant:?}");
        assert_eq!(blame(&said), blame(&meant), "{}", told());
        assert_eq!(listed(&mut real), listed(&mut twin), "{}", told());
        applied += u32::from(said.is_ok());
        operations += transaction.operations.len();
    }
    eprintln!("{steps} random transactions, {operations} operations, {applied} applied: all alike");
    assert!(applied > steps / 10, "{applied}");
}
