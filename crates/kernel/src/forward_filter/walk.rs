//! Walks the chains that a packet reaches and collects every end that it may have.
//!
//! A rule that may or may not apply is both followed and passed over. So one walk finds whether the packet may be accepted and
//! whether it may be dropped; where only one of the two can be, the uncertain rules did not matter.

use std::sync::Arc;

use super::bits::{Bits, Truth};
use super::facts::Facts;
use super::rule::{Action, Run, Sets};
use super::text;
use super::{Place, Verdict};
use crate::nft::Policy;
use crate::nft::foreign::Step;

/// Calico and Docker together have some hundred rules on a packet's way.
const RULES_MAX: usize = 20_000;
/// The kernel takes 16 levels of `nf_tables`; legacy tables may have more.
const DEPTH_MAX: usize = 64;

/// The chains of one table.
pub(super) trait Table: Sets {
    /// For people: `inet firewall`.
    fn name(&self) -> String;
    /// The rules of a chain; an error says why they cannot be read.
    fn rules(&mut self, chain: &str) -> Result<Arc<[Vec<Step>]>, String>;
}

/// An end that the packet may have: the uncertain rule on its way there, if there is one.
type Doubt = Option<String>;

/// The ends that a packet may have in one chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ends {
    accept: Option<Doubt>,
    drop: Option<(Place, Doubt)>,
    /// It leaves the chain undecided.
    leave: Option<Doubt>,
}

/// What one base chain does with the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judged {
    Accepts,
    Drops(Place),
    Unknown(String),
}

/// A packet on its way.
pub(super) struct Walk<'a> {
    facts: Facts<'a>,
    mark: [Bits; 4],
    rules_left: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(facts: Facts<'a>) -> Self {
        let mark = facts.packet.mark.to_ne_bytes().map(Bits::known);
        Self { facts, mark, rules_left: RULES_MAX }
    }

    /// Runs a base chain to its end.
    pub(super) fn base_chain(&mut self, table: &mut impl Table, chain: &str, policy: Policy) -> Judged {
        let mut ends = self.chain(table, chain, true, 0);
        if let Some(doubt) = ends.leave.take() {
            let place = Place { table: table.name(), chain: chain.to_owned(), rule: None };
            match policy {
                Policy::Accept => drop(ends.accept.get_or_insert(doubt)),
                Policy::Drop => drop(ends.drop.get_or_insert((place, doubt))),
            }
        }
        match (ends.accept, ends.drop) {
            (None, Some((place, _))) => Judged::Drops(place),
            (_, None) => Judged::Accepts,
            (Some(accept), Some((place, doubt))) => {
                Judged::Unknown(doubt.or(accept).unwrap_or_else(|| place.to_string()))
            }
        }
    }

    /// `is_certain` says that the packet surely gets here, so that what rules do to its mark is sure too.
    fn chain(&mut self, table: &mut impl Table, chain: &str, is_certain: bool, depth: usize) -> Ends {
        let mut ends = Ends::default();
        let rules = match table.rules(chain) {
            Ok(_) if depth > DEPTH_MAX => {
                return anything(&table.name(), chain, "its chains are nested too deeply");
            }
            Ok(rules) => rules,
            Err(reason) => return anything(&table.name(), chain, &reason),
        };
        // The first rule that may have decided, if the packet gets this far only because it did not.
        let mut doubt: Doubt = None;
        for steps in rules.iter() {
            if self.rules_left == 0 {
                let more = anything(&table.name(), chain, &format!("more than {RULES_MAX} rules"));
                return ends.or(more);
            }
            self.rules_left -= 1;
            let is_certain = is_certain && doubt.is_none();
            let (truth, action) = Run::new(&self.facts, &mut self.mark, is_certain, table).run(steps);
            let is_certain = is_certain && truth == Truth::Yes;
            if truth == Truth::No || action == Action::Continue {
                continue;
            }
            let place =
                || Place { table: table.name(), chain: chain.to_owned(), rule: Some(text::rule(steps)) };
            let is_uncertain = truth == Truth::Maybe || action == Action::Anything;
            let doubt_here = doubt.clone().or_else(|| is_uncertain.then(|| place().to_string()));
            let goes_on = match action {
                Action::Continue => true,
                Action::Accept => {
                    ends.accept.get_or_insert(doubt_here.clone());
                    false
                }
                Action::Drop => {
                    ends.drop.get_or_insert((place(), doubt_here.clone()));
                    false
                }
                Action::Return => {
                    ends.leave.get_or_insert(doubt_here.clone());
                    false
                }
                Action::Anything => {
                    let place = place();
                    ends = ends.or(Ends {
                        accept: Some(doubt_here.clone()),
                        drop: Some((place, doubt_here.clone())),
                        leave: Some(doubt_here.clone()),
                    });
                    true
                }
                Action::Jump(target) => {
                    let mut inner = self.chain(table, &target, is_certain, depth + 1).doubted(&doubt_here);
                    let comes_back = inner.leave.take();
                    let is_settled = inner.accept.is_none() && inner.drop.is_none();
                    ends = ends.or(inner);
                    match comes_back {
                        // Whether it applied makes no difference.
                        Some(_) if is_settled => continue,
                        Some(back) => {
                            doubt = doubt.or(back);
                            continue;
                        }
                        None => false,
                    }
                }
                Action::Goto(target) => {
                    ends = ends.or(self.chain(table, &target, is_certain, depth + 1).doubted(&doubt_here));
                    false
                }
            };
            if truth == Truth::Yes && !goes_on {
                return ends;
            }
            doubt = doubt_here;
        }
        ends.leave.get_or_insert(doubt);
        ends
    }
}

impl Ends {
    /// The ends of either; the first way to an end counts.
    fn or(self, other: Self) -> Self {
        Self {
            accept: self.accept.or(other.accept),
            drop: self.drop.or(other.drop),
            leave: self.leave.or(other.leave),
        }
    }

    /// The same ends, reached by way of a rule that may not apply.
    fn doubted(self, doubt: &Doubt) -> Self {
        let with = |own: Doubt| doubt.clone().or(own);
        Self {
            accept: self.accept.map(with),
            drop: self.drop.map(|(place, own)| (place, doubt.clone().or(own))),
            leave: self.leave.map(|own| doubt.clone().or(own)),
        }
    }
}

/// All ends of a chain that cannot be read.
fn anything(table: &str, chain: &str, reason: &str) -> Ends {
    let doubt = Some(format!("table {table}, chain {chain}: {reason}"));
    let place = Place { table: table.to_owned(), chain: chain.to_owned(), rule: Some(reason.to_owned()) };
    Ends { accept: Some(doubt.clone()), drop: Some((place, doubt.clone())), leave: Some(doubt) }
}

/// What all base chains together do. The packet is lost if one of them drops it, whatever the others do.
pub(super) fn all(judged: impl IntoIterator<Item = Judged>) -> Verdict {
    let mut unknown = None;
    for one in judged {
        match one {
            Judged::Accepts => {}
            Judged::Drops(by) => return Verdict::Dropped { by },
            Judged::Unknown(because) => drop(unknown.get_or_insert(because)),
        }
    }
    unknown.map_or(Verdict::Accepted, |because| Verdict::Unknown { because })
}
