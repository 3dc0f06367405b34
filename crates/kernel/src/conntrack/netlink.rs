//! The real thing: the connection tracker of this thread's network namespace.
//!
//! In: filters, and entries to delete. Out: the kernel's answers. Two long-lived connections, one that lists and one that
//! deletes meanwhile, so that what was found need not be kept until the listing ends. No `conntrack` program.
//!
//! The kernel goes through its whole hash table for each listing; its filter spares it the writing, and us the reading, of
//! what is not wanted. The filter came with Linux 5.8. A kernel that refuses it is asked without; one that does not know it
//! sends everything, which shows. Either way what comes is compared here too.

use super::error::{Error, Result, is_unknown_request};
use super::read::{self, Read};
use super::requests::{BATCH, create, delete};
use super::{Conntrack, Deleted, Entry, Filter, wire};
use crate::netlink::{Client, MessageWriter, Subsystem};

const WHAT: &str = "connections";

/// A connection to the kernel's connection tracker.
#[derive(Debug)]
pub struct Netlink {
    listing: Client,
    deleting: Client,
    filters: bool,
}

impl Netlink {
    /// Opens the connection, in this thread's network namespace.
    pub fn open() -> Result<Self> {
        let open = || Client::open(Subsystem::Netfilter);
        Ok(Self { listing: open()?, deleting: open()?, filters: true })
    }

    /// The same, as on a kernel without filters: everything is read, and compared here.
    pub fn open_without_filters() -> Result<Self> {
        Ok(Self { filters: false, ..Self::open()? })
    }

    /// Makes entries that live for so many seconds. For tests and benches, which need flows of others: Portway itself
    /// makes none.
    ///
    /// # Errors
    /// Also when one exists already, or the table is full.
    pub fn create(&mut self, entries: &[Entry], timeout_seconds: u32) -> Result<()> {
        entries.chunks(BATCH).try_for_each(|batch| create(&mut self.deleting, batch, timeout_seconds))
    }

    /// One walk through the table, of which the kernel shows all or only what is wanted; `None` if it does not understand
    /// what it is asked.
    fn walk(
        &mut self,
        filter: &Filter,
        in_kernel: bool,
        choose: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Option<Deleted>> {
        let (mut done, mut chosen, mut failed) = (Deleted::default(), Vec::with_capacity(BATCH), None);
        let (mut is_foreign, deleting) = (false, &mut self.deleting);
        let request = |m: &mut MessageWriter| {
            wire::fixed(m, filter.family());
            if in_kernel {
                wire::filter(m, filter);
            }
        };
        let listed = self.listing.visit(WHAT, wire::kind::GET, request, |_, body| {
            done.sent += 1;
            match read::entry(body, filter) {
                Ok(Read::Wanted(entry)) if choose(&entry) => chosen.push(entry),
                Ok(Read::Wanted(_) | Read::Unwanted) => {}
                Ok(Read::OfAnotherProtocol) => is_foreign = true,
                // The others are not held back by it.
                Err(error) => failed = Some(Error::from(error)),
            }
            if chosen.len() == BATCH {
                match delete(deleting, &chosen) {
                    Ok(deleted) => done.deleted += deleted,
                    Err(error) => failed = Some(error),
                }
                chosen.clear();
            }
            Ok(())
        });
        // What was found goes, also where the listing failed half way.
        done.deleted += delete(deleting, &chosen)?;
        if listed.as_ref().is_err_and(is_unknown_request) {
            return Ok(None);
        }
        listed?;
        self.filters &= !is_foreign;
        failed.map_or(Ok(Some(done)), Err)
    }
}

impl Conntrack for Netlink {
    fn filters(&self) -> bool {
        self.filters
    }

    fn delete_where(&mut self, filter: &Filter, choose: &mut dyn FnMut(&Entry) -> bool) -> Result<Deleted> {
        if self.filters
            && let Some(done) = self.walk(filter, true, choose)?
        {
            return Ok(done);
        }
        let done = self.walk(filter, false, choose)?.ok_or(Error::Missing)?;
        self.filters = false;
        Ok(done)
    }

    fn delete(&mut self, entries: &[Entry]) -> Result<u64> {
        let batches = entries.chunks(BATCH).map(|batch| delete(&mut self.deleting, batch));
        batches.sum()
    }
}
