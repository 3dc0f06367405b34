//! A transaction as one netlink batch, and the way back from an answer to the operation it is about.
//!
//! The kernel applies a batch at its end message or, if that is missing, checks it and forgets it.
//! Elements are spread over several messages, since an attribute cannot exceed 64 KiB.

use super::element::Element;
use super::error::{Error, Result};
use super::object::Family;
use super::transaction::{Operation, Transaction};
use super::wire::object::{
    CHAIN_NAME, CHAIN_TABLE, RULE_CHAIN, RULE_HANDLE, RULE_TABLE, TABLE_NAME, write_chain, write_rule,
    write_table,
};
use super::wire::set::{self, LIST_ELEMENTS, LIST_SET, LIST_TABLE, SET_NAME, SET_TABLE, entries_of};
use super::wire::{SUBSYSTEM, family_number, fixed, header, kind};
use crate::netlink::{Attributes, Header, Message, MessageWriter, Messages, Refusal, flags};

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const BATCH_GENERATION: u16 = 1;
/// A message's header and the fixed part behind it.
const BEFORE_ATTRIBUTES: usize = 20;

/// Whether the kernel is to apply a batch, or only to say whether it would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    CheckOnly,
}

/// An encoded transaction.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    transaction: &'a Transaction,
    writer: MessageWriter,
    first_sequence: u32,
    origins: Vec<Origin>,
}

/// Where a message comes from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    operation: usize,
    first_element: usize,
    start: usize,
}

/// What the kernel said about a batch.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) is_acknowledged: bool,
    pub(super) refusals: Vec<(u32, Refusal)>,
}

impl<'a> Batch<'a> {
    pub(super) fn encode(transaction: &'a Transaction, first_sequence: u32, ending: Ending) -> Self {
        let writer = MessageWriter::with_capacity(estimate(transaction));
        let mut batch = Self { transaction, writer, first_sequence, origins: Vec::new() };
        batch.begin();
        for (index, operation) in transaction.operations.iter().enumerate() {
            batch.operation(index, operation);
        }
        if let Some(last) = batch.origins.last() {
            // The kernel answers to the last one; errors it reports unasked.
            batch.writer.add_flags(last.start, flags::ACK);
        }
        if ending == Ending::Commit {
            batch.frame(BATCH_END, |_| ());
        }
        batch
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.writer.bytes()
    }

    /// How many sequence numbers the batch uses.
    pub(super) fn sequences(&self) -> u32 {
        u32::try_from(self.origins.len() + 2).unwrap_or(u32::MAX)
    }

    /// Sorts received messages into `answers`; those of other requests are passed over.
    pub(super) fn hear(&self, bytes: &[u8], answers: &mut Answers) -> crate::netlink::Result<()> {
        for message in Messages::new(bytes) {
            match message? {
                Message::Ack(head) if self.is_ours(head.sequence) => answers.is_acknowledged = true,
                Message::Refused(head, refusal) if self.is_ours(head.sequence) => {
                    answers.refusals.push((head.sequence, refusal));
                }
                Message::Overrun => return Err(crate::netlink::Error::Lost),
                _ => {}
            }
        }
        Ok(())
    }

    /// The verdict over the whole batch.
    pub(super) fn conclude(&self, answers: Answers) -> Option<Result<()>> {
        let position = |sequence: u32| sequence.wrapping_sub(self.first_sequence);
        match answers.refusals.into_iter().min_by_key(|(sequence, _)| position(*sequence)) {
            Some((sequence, refusal)) => Some(Err(self.error(position(sequence), refusal))),
            None => answers.is_acknowledged.then_some(Ok(())),
        }
    }

    fn is_ours(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.first_sequence) < self.sequences()
    }

    fn error(&self, position: u32, refusal: Refusal) -> Error {
        let index = usize::try_from(position).unwrap_or(usize::MAX).checked_sub(1);
        let Some(origin) = index.and_then(|index| self.origins.get(index)).copied() else {
            return Error::whole(refusal);
        };
        let element = refusal.offset.and_then(|offset| self.element_at(origin, offset));
        Error::Refused {
            index: origin.operation,
            total: self.transaction.operations.len(),
            operation: self.transaction.describe(origin.operation, element),
            element,
            refusal,
        }
    }

    /// Which element of the operation the byte at `offset` of its message belongs to.
    fn element_at(&self, origin: Origin, offset: u32) -> Option<usize> {
        let (Operation::AddElements(_, elements) | Operation::DeleteElements(_, elements)) =
            self.transaction.operations.get(origin.operation)?
        else {
            return None;
        };
        let mut entry = self.entry_at(origin, usize::try_from(offset).ok()?)?;
        for (index, element) in elements.iter().enumerate().skip(origin.first_element) {
            let entries = entries_of(element);
            if entry < entries {
                return Some(index);
            }
            entry -= entries;
        }
        None
    }

    /// Which entry of the message's list the byte at `offset` belongs to.
    fn entry_at(&self, origin: Origin, offset: usize) -> Option<usize> {
        let message = self.writer.bytes().get(origin.start..)?;
        let Some(Ok(Message::Data(_, body))) = Messages::new(message).next() else { return None };
        let attributes = Attributes::new(body.get(BEFORE_ATTRIBUTES - 16..)?);
        let list = attributes.filter_map(std::result::Result::ok).find(|a| a.kind == LIST_ELEMENTS)?;
        let list_start = list.value.as_ptr().addr() - message.as_ptr().addr();
        let within = offset.checked_sub(list_start)?;
        let mut start = 0;
        for (index, entry) in list.nested().filter_map(std::result::Result::ok).enumerate() {
            start += (4 + entry.value.len()).next_multiple_of(4);
            if within < start {
                return Some(index);
            }
        }
        None
    }

    fn begin(&mut self) {
        let generation = self.transaction.only_in_generation;
        self.frame(BATCH_BEGIN, |m| {
            if let Some(generation) = generation {
                m.u32_be(BATCH_GENERATION, generation);
            }
        });
    }

    /// Writes the begin or the end of the batch.
    fn frame(&mut self, kind: u16, inside: impl FnOnce(&mut MessageWriter)) {
        let position = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        let sequence = match kind {
            BATCH_BEGIN => self.first_sequence,
            _ => self.first_sequence.wrapping_add(position).wrapping_add(1),
        };
        let head = Header { kind, flags: flags::REQUEST, sequence, port: 0 };
        self.writer.message(head, |m| {
            let [high, low] = SUBSYSTEM.to_be_bytes();
            m.raw(&[0, 0, high, low]);
            inside(m);
        });
    }

    fn operation(&mut self, index: usize, operation: &Operation) {
        let transaction = self.transaction;
        let (family, table) = (transaction.family, &*transaction.table);
        match operation {
            Operation::AddTable(comment) => self.message(index, kind::NEW_TABLE, flags::CREATE, |m| {
                write_table(m, table, comment.as_ref());
            }),
            Operation::DeleteTable => self.message(index, kind::DEL_TABLE, 0, |m| m.text(TABLE_NAME, table)),
            Operation::AddChain(chain) => {
                self.message(index, kind::NEW_CHAIN, flags::CREATE, |m| write_chain(m, table, chain));
            }
            Operation::FlushChain(chain) => {
                self.message(index, kind::DEL_RULE, 0, |m| {
                    two_names(m, (RULE_TABLE, table), (RULE_CHAIN, chain));
                });
            }
            Operation::DeleteChain(chain) => self.message(index, kind::DEL_CHAIN, 0, |m| {
                two_names(m, (CHAIN_TABLE, table), (CHAIN_NAME, chain));
            }),
            Operation::AddRule(rule) => {
                self.message(index, kind::NEW_RULE, flags::CREATE | flags::APPEND, |m| {
                    write_rule(m, family, table, rule);
                });
            }
            Operation::DeleteRule(chain, handle) => self.message(index, kind::DEL_RULE, 0, |m| {
                two_names(m, (RULE_TABLE, table), (RULE_CHAIN, chain));
                m.u64_be(RULE_HANDLE, *handle);
            }),
            Operation::AddSet(set) => {
                let id = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
                self.message(index, kind::NEW_SET, flags::CREATE, |m| set::write(m, family, table, set, id));
            }
            Operation::DeleteSet(set) => {
                self.message(index, kind::DEL_SET, 0, |m| two_names(m, (SET_TABLE, table), (SET_NAME, set)));
            }
            Operation::FlushSet(set) => {
                self.message(index, kind::DEL_ELEMENTS, 0, |m| {
                    two_names(m, (LIST_TABLE, table), (LIST_SET, set));
                });
            }
            Operation::AddElements(set, elements) => {
                self.elements(index, (kind::NEW_ELEMENTS, flags::CREATE), set, elements);
            }
            Operation::DeleteElements(set, elements) => {
                self.elements(index, (kind::DEL_ELEMENTS, 0), set, elements);
            }
        }
    }

    fn elements(&mut self, index: usize, (kind, extra): (u16, u16), set: &str, elements: &[Element]) {
        let table = &*self.transaction.table;
        let mut done = 0;
        while done < elements.len() {
            let mut written = 0;
            let origin = Origin { operation: index, first_element: done, start: 0 };
            self.message_of(origin, kind, extra, |m| {
                two_names(m, (LIST_TABLE, table), (LIST_SET, set));
                written = set::write_elements(m, &elements[done..], kind == self::kind::NEW_ELEMENTS);
            });
            done += written;
        }
    }

    fn message(&mut self, index: usize, kind: u16, extra: u16, body: impl FnOnce(&mut MessageWriter)) {
        self.message_of(Origin { operation: index, first_element: 0, start: 0 }, kind, extra, body);
    }

    fn message_of(&mut self, origin: Origin, kind: u16, extra: u16, body: impl FnOnce(&mut MessageWriter)) {
        self.origins.push(Origin { start: self.writer.len(), ..origin });
        let position = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        let head = header(kind, flags::REQUEST | extra, self.first_sequence.wrapping_add(position));
        let family: Family = self.transaction.family;
        self.writer.message(head, |m| {
            fixed(m, family_number(family));
            body(m);
        });
    }
}

fn two_names(m: &mut MessageWriter, first: (u16, &str), second: (u16, &str)) {
    m.text(first.0, first.1);
    m.text(second.0, second.1);
}

/// About how many bytes the batch will have, so that the buffer need not grow by doubling.
fn estimate(transaction: &Transaction) -> usize {
    let elements = |elements: &[Element]| -> usize {
        let Some(first) = elements.first() else { return 0 };
        let (key, comment) =
            (first.key.bytes().len(), first.comment.as_ref().map_or(0, |c| c.as_str().len()));
        elements.len() * (2 * key + comment + 64)
    };
    let operation = |operation: &Operation| match operation {
        Operation::AddElements(_, list) | Operation::DeleteElements(_, list) => elements(list) + 256,
        _ => 1024,
    };
    transaction.operations.iter().map(operation).sum()
}
