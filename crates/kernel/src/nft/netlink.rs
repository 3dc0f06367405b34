//! The real thing: `nf_tables` of the kernel that this thread's network namespace belongs to.
//!
//! In: transactions, and requests to list. Out: the kernel's answers. One long-lived socket; no `nft`.

use std::time::Duration;

use super::Kernel;
use super::batch::{Answers, Batch, Ending};
use super::error::{Error, Result};
use super::listed::Listed;
use super::object::{Family, Table};
use super::transaction::Transaction;
use super::wire::{SUBSYSTEM, fixed, kind, read};
use crate::netlink::{self, Client, MessageWriter, Subsystem};
use crate::rule_packets::RulePackets;

/// The kernel answers a batch before `send` returns; this is for a kernel that does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How often a listing of several parts is begun anew when others write meanwhile.
const LIST_ATTEMPTS: u32 = 20;
/// Each attempt waits so much longer than the one before; a resized hash table settles in milliseconds.
const LIST_PAUSE: Duration = Duration::from_millis(1);
const GENERATION_ID: u16 = 1;

/// A connection to the kernel's `nf_tables`.
#[derive(Debug)]
pub struct Netlink {
    pub(super) client: Client,
}

impl Netlink {
    /// Opens the connection, in this thread's network namespace.
    pub fn open() -> Result<Self> {
        Ok(Self { client: Client::open(Subsystem::Netfilter)? })
    }

    /// The number by which notifications name changes made through this connection.
    pub fn port(&self) -> u32 {
        self.client.port()
    }

    fn send(&mut self, transaction: &Transaction, ending: Ending) -> Result<()> {
        if transaction.is_empty() {
            return Ok(());
        }
        let batch = self.send_batch(transaction, ending)?;
        self.answer(&batch)
    }

    /// Returns when whoever is writing at this moment has finished.
    ///
    /// A new generation is counted a little before or after it can be seen. An empty batch changes nothing
    /// but takes the writers' lock, so behind it the two agree.
    fn wait_for_writers(&mut self) -> Result<()> {
        self.send_batch(&Transaction::new(Family::V4, ""), Ending::Commit).map(drop)
    }

    fn send_batch<'a>(&mut self, transaction: &'a Transaction, ending: Ending) -> Result<Batch<'a>> {
        let socket = self.client.socket();
        let batch = Batch::encode(transaction, socket.next_sequence(), ending);
        socket.skip_sequences(batch.sequences());
        socket.send(batch.bytes())?;
        Ok(batch)
    }

    fn answer(&mut self, batch: &Batch<'_>) -> Result<()> {
        let (mut answers, mut limit, mut is_lost) = (Answers::default(), ANSWER_LIMIT, false);
        loop {
            match self.client.socket().receive(limit) {
                Ok(Some(bytes)) => batch.hear(bytes, &mut answers)?,
                Ok(None) => break,
                // So many refusals that not all fit; the first are there still, and they are what matters.
                Err(netlink::Error::Lost) => is_lost = true,
                Err(error) => return Err(error.into()),
            }
            // After the first answer all others are there already.
            limit = Duration::ZERO;
        }
        if is_lost && answers.refusals.is_empty() {
            return Err(Error::Overrun);
        }
        let silent = netlink::Error::Silent { milliseconds: ANSWER_LIMIT.as_millis() };
        batch.conclude(answers).unwrap_or(Err(silent.into()))
    }
}

impl Kernel for Netlink {
    fn packets(&mut self, family: Family, table: &str, chain: &str) -> Result<Option<Vec<RulePackets>>> {
        self.rule_packets(family, table, chain).map(Some)
    }

    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        self.send(transaction, Ending::Commit)
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        self.send(transaction, Ending::CheckOnly)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        for attempt in 0..LIST_ATTEMPTS {
            let before = self.generation()?;
            self.wait_for_writers()?;
            let listed = self.list_once(family, table);
            self.wait_for_writers()?;
            if self.generation()? == before && listed != Err(Error::Raced) {
                return listed;
            }
            std::thread::sleep(LIST_PAUSE * attempt);
        }
        Err(Error::Raced)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>> {
        self.dump("tables", kind::GET_TABLE, family, &[], |attributes| {
            read::table(family, attributes).map(Some)
        })
    }

    fn generation(&mut self) -> Result<u32> {
        let request = |m: &mut MessageWriter| fixed(m, 0);
        let kind = SUBSYSTEM << 8 | kind::GET_GENERATION;
        self.client.ask("tell the generation", kind, request, read_generation).map_err(|error| match error {
            netlink::Error::Refused { refusal, .. } => Error::whole(refusal),
            error => error.into(),
        })
    }
}

fn read_generation(body: &[u8]) -> netlink::Result<u32> {
    for attribute in read::open(body)?.1 {
        let attribute = attribute?;
        if attribute.kind == GENERATION_ID {
            return attribute.u32_be();
        }
    }
    Err(netlink::Error::Malformed { what: "generation without a number", offset: 0 })
}
