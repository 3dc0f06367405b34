//! Requests about single entries: many in one system call.
//!
//! In: entries. Out: how many of them it worked for, or the first reason why it did not.

use super::error::Result;
use super::{Entry, wire};
use crate::netlink::{Client, Errno, Error, Refusal, Refused, flags};

/// How many requests are made before anything is said of them.
pub(super) const BATCH: usize = 64;

/// Deletes entries; says how many were there still. That one is not is no error: it ended by itself, or
/// somebody else was quicker.
pub(super) fn delete(client: &mut Client, entries: &[Entry]) -> Result<u64> {
    let mut refused = client.run(entries, |_| (wire::kind::DELETE, 0), wire::name)?;
    let all = refused.len();
    refused.retain(|one| one.refusal.errno != Errno(libc::ENOENT));
    let gone = all - refused.len();
    check("delete a connection", refused)?;
    Ok(u64::try_from(entries.len() - gone).unwrap_or(u64::MAX))
}

/// Makes entries.
pub(super) fn create(client: &mut Client, entries: &[Entry], timeout_seconds: u32) -> Result<()> {
    let head = (wire::kind::NEW, flags::CREATE | flags::EXCL);
    let refused = client.run(entries, |_| head, |m, entry| wire::new(m, entry, timeout_seconds))?;
    check("make a connection", refused)
}

/// The first refusal is an error.
fn check(action: &str, refused: Vec<Refused<Entry>>) -> Result<()> {
    let error = |refusal: Refusal| Error::Refused { action: action.to_owned(), refusal };
    Ok(refused.into_iter().next().map_or(Ok(()), |one| Err(error(one.refusal)))?)
}
