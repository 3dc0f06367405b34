//! Runs the steps of one rule for a packet of which not everything is known.
//!
//! In: the steps, the packet, the mark so far. Out: whether the rule applies, and what it then does.

use super::bits::{Bits, Truth, compare, whole};
use super::facts::{Facts, known, meta};
use super::xt;
use crate::nft::foreign::{Comparison, Member, Origin, Step};
use crate::nft::{Found, Name, Register, Verdict};

/// All registers together.
const BYTES: usize = 64;

/// What a rule does when it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The next rule is tried.
    Continue,
    Accept,
    Drop,
    Return,
    Jump(Name),
    Goto(Name),
    /// Any of these.
    Anything,
}

impl From<&Verdict> for Action {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Accept => Self::Accept,
            Verdict::Drop => Self::Drop,
            Verdict::Return => Self::Return,
            Verdict::Jump(chain) => Self::Jump(chain.clone()),
            Verdict::Goto(chain) => Self::Goto(chain.clone()),
        }
    }
}

/// Looks keys up in the sets of the rule's table.
pub(super) trait Sets {
    /// How many bytes a key of the set has; `None` if that cannot be read.
    fn key_length(&mut self, set: &str) -> Option<usize>;
    fn member(&mut self, set: &str, key: &[u8]) -> Member;
}

/// A rule that is being run.
pub(super) struct Run<'a, S> {
    facts: &'a Facts<'a>,
    mark: &'a mut [Bits; 4],
    sets: &'a mut S,
    registers: [Bits; BYTES],
    /// Whether the packet surely meets this rule.
    is_met: bool,
    truth: Truth,
}

impl<'a, S: Sets> Run<'a, S> {
    pub(super) fn new(facts: &'a Facts<'a>, mark: &'a mut [Bits; 4], is_met: bool, sets: &'a mut S) -> Self {
        Self { facts, mark, sets, registers: [Bits::UNKNOWN; BYTES], is_met, truth: Truth::Yes }
    }

    /// Runs all steps, up to the first that certainly ends the rule or decides.
    pub(super) fn run(mut self, steps: &[Step]) -> (Truth, Action) {
        for step in steps {
            let action = self.step(step);
            if self.truth == Truth::No || action != Action::Continue {
                return (self.truth, action);
            }
        }
        (self.truth, Action::Continue)
    }

    fn step(&mut self, step: &Step) -> Action {
        match step {
            Step::Load { to, from } => self.load(*to, *from),
            Step::Immediate { to, value } => self.store(*to, &known(value)),
            Step::Bitwise { from, to, mask, xor } => {
                let bytes = self.bytes(*from, mask.len());
                let changed: Vec<_> = bytes
                    .iter()
                    .zip(mask.iter().zip(xor))
                    .map(|(bits, (mask, xor))| bits.masked(*mask, *xor))
                    .collect();
                self.store(*to, &changed);
            }
            Step::SwapBytes { from, to, size, length } => {
                let mut bytes = self.bytes(*from, *length);
                if cfg!(target_endian = "little") {
                    bytes.chunks_mut((*size).max(1)).for_each(<[Bits]>::reverse);
                }
                self.store(*to, &bytes);
            }
            Step::Forget { to } => self.forget(*to),
            Step::Compare { register, how, value } => {
                let holds = compare(&self.bytes(*register, value.len()), *how, value);
                self.ask(holds);
            }
            Step::Range { register, is_inside, low, high } => {
                let bytes = self.bytes(*register, low.len());
                let above = compare(&bytes, Comparison::GreaterOrEqual, low);
                let below = compare(&bytes, Comparison::LessOrEqual, high);
                self.ask(above.and(below).negated_if(!is_inside));
            }
            Step::Lookup { key, set, found } => return self.lookup(*key, set, *found),
            Step::SetMark { from } => {
                let bytes = self.bytes(*from, 4);
                self.set_mark(|at, _| bytes.get(at).copied().unwrap_or_default());
            }
            Step::XtMatch { name, revision, info } => {
                let holds = xt::holds(self.facts, *self.mark, name, *revision, info);
                self.ask(holds);
            }
            Step::XtTarget { name, revision, info } => {
                return self.target(&xt::target(name, *revision, info));
            }
            Step::Verdict(verdict) => return verdict.into(),
            Step::Reject => return Action::Drop,
            Step::Passes(_) => {}
            Step::Unknown { decides, .. } => {
                self.registers = [Bits::UNKNOWN; BYTES];
                self.ask(Truth::Maybe);
                if *decides {
                    return Action::Anything;
                }
            }
        }
        Action::Continue
    }

    fn ask(&mut self, holds: Truth) {
        self.truth = self.truth.and(holds);
    }

    fn load(&mut self, to: Register, from: Origin) {
        let is_mark = from == Origin::Meta(meta::MARK);
        let bytes = if is_mark { Some(self.mark.to_vec()) } else { self.facts.load(from) };
        if let Some(bytes) = bytes {
            self.store(to, &bytes);
        } else {
            // Some of these end the rule where there is nothing to load: a header that the packet lacks.
            self.ask(Truth::Maybe);
            self.forget(to);
        }
    }

    fn lookup(&mut self, key: Register, set: &Name, found: Found) -> Action {
        let length = self.sets.key_length(set).filter(|length| *length <= BYTES);
        let key = length.and_then(|length| whole(&self.bytes(key, length)));
        let member = key.map_or(Member::Unknown, |key| self.sets.member(set, &key));
        match (member, found) {
            (Member::Present { .. }, Found::Pass) | (Member::Absent, Found::Break) => {}
            (Member::Absent, _) | (Member::Present { .. }, Found::Break) => self.ask(Truth::No),
            (Member::Present { data: Some(data), .. }, Found::Load(to)) => self.store(to, &known(&data)),
            (Member::Present { verdict: Some(verdict), .. }, Found::Decide) => return (&verdict).into(),
            (Member::Unknown | Member::Present { .. }, Found::Load(to)) => {
                self.ask(Truth::Maybe);
                self.forget(to);
            }
            (Member::Unknown | Member::Present { .. }, Found::Decide) => {
                self.ask(Truth::Maybe);
                return Action::Anything;
            }
            (Member::Unknown, Found::Pass | Found::Break) => self.ask(Truth::Maybe),
        }
        Action::Continue
    }

    fn target(&mut self, target: &xt::Target) -> Action {
        match target {
            xt::Target::Continue => Action::Continue,
            xt::Target::Reject => Action::Drop,
            xt::Target::Mark { value, mask } => {
                let (value, mask) = (value.to_ne_bytes(), mask.to_ne_bytes());
                self.set_mark(|at, bits| bits.masked(!mask[at], value[at]));
                Action::Continue
            }
            xt::Target::Unknown => Action::Anything,
        }
    }

    /// A rule that may or may not apply leaves one of two marks.
    fn set_mark(&mut self, new: impl Fn(usize, Bits) -> Bits) {
        let is_sure = self.is_met && self.truth == Truth::Yes;
        for (at, bits) in self.mark.iter_mut().enumerate() {
            let changed = new(at, *bits);
            *bits = if is_sure { changed } else { bits.either(changed) };
        }
    }

    fn bytes(&self, register: Register, length: usize) -> Vec<Bits> {
        let start = usize::from(register.0) * 4;
        (start..start.saturating_add(length))
            .map(|at| self.registers.get(at).copied().unwrap_or_default())
            .collect()
    }

    /// The kernel fills the last register of a short value with zeroes.
    fn store(&mut self, register: Register, bytes: &[Bits]) {
        let start = usize::from(register.0) * 4;
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        let padded = bytes.iter().copied().chain(std::iter::repeat_n(Bits::known(0), padding));
        for (slot, bits) in self.registers.iter_mut().skip(start).zip(padded) {
            *slot = bits;
        }
    }

    /// As many bytes as one load can fill.
    fn forget(&mut self, register: Register) {
        self.store(register, &[Bits::UNKNOWN; 16]);
    }
}
