//! A connection tracker in memory, for tests that need flows of their own choosing.
//!
//! It answers as the kernel does, can be told to fail, to send everything, or to show each entry twice, and counts what it
//! was asked.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::conntrack::{Conntrack, Deleted, Entry, Error, Family, Filter, Result};

/// What a kernel would remember.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    /// Its entries.
    pub entries: BTreeSet<Entry>,
    /// Whether it sends everything, as a kernel without filters does.
    pub sends_everything: bool,
    /// Whether each listing is interrupted at its end and begun anew.
    pub shows_twice: bool,
    /// Entries that end by themselves just after they were shown.
    pub ending: BTreeSet<Entry>,
    /// If set, every request fails with it.
    pub fault: Option<Error>,
    /// Which listings were asked for.
    pub listings: Vec<Filter>,
}

impl Simulated {
    /// Whether a kernel would send the entry when asked so. Of IPv6 flows it is not asked for the address.
    fn sends(&self, entry: &Entry, filter: &Filter) -> bool {
        let (ip, port) = entry.original.destination;
        let is_asked_for = match filter {
            Filter::Destination(protocol, (IpAddr::V6(_), wanted)) => {
                (entry.protocol, port) == (*protocol, *wanted)
            }
            _ => filter.matches(entry.protocol, &entry.original),
        };
        Family::of(ip) == filter.family() && (self.sends_everything || is_asked_for)
    }
}

impl Conntrack for Simulated {
    fn filters(&self) -> bool {
        !self.sends_everything
    }

    fn delete_where(&mut self, filter: &Filter, choose: &mut dyn FnMut(&Entry) -> bool) -> Result<Deleted> {
        self.listings.push(*filter);
        let mut done = Deleted::default();
        for _ in 0..=u8::from(self.shows_twice) {
            for entry in self.entries.clone() {
                done.sent += u64::from(self.sends(&entry, filter));
                if filter.matches(entry.protocol, &entry.original) && choose(&entry) {
                    done.deleted += self.delete(&[entry])?;
                }
            }
        }
        self.fault.clone().map_or(Ok(done), Err)
    }

    fn delete(&mut self, entries: &[Entry]) -> Result<u64> {
        self.entries.retain(|entry| !self.ending.contains(entry));
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let is_named = |entry: &Entry, name: &Entry| {
            (entry.protocol, entry.original, entry.zone) == (name.protocol, name.original, name.zone)
                && name.id.is_none_or(|id| entry.id == Some(id))
        };
        let before = self.entries.len();
        self.entries.retain(|entry| !entries.iter().any(|name| is_named(entry, name)));
        Ok(u64::try_from(before - self.entries.len()).unwrap_or(u64::MAX))
    }
}
