//! Sets in memory, which answer as the kernel's do and can be told to fail.
//!
//! Clones share one kernel, as two sockets do: the twin of iptables holds one, so that its rules ask these sets and sets know
//! which rules use them. [`Simulated::copy`] is another kernel in the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::ipset::{Entry, Error, FoundSet, Ipsets, Kind, Refused, Request, Result, Set, SetName, code};
use kernel::netlink::Errno;

/// A kernel with sets. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    sets: BTreeMap<SetName, (Set, BTreeSet<Entry>)>,
    /// Who uses sets, and which: one for each use.
    users: BTreeMap<String, Vec<SetName>>,
    fault: Option<Error>,
    messages: u64,
    requests: Vec<Request>,
}

impl Simulated {
    /// Another kernel in the same state.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.state().clone())) }
    }

    /// From now on everything fails with this; with `None` nothing does.
    pub fn set_fault(&self, fault: Option<Error>) {
        self.state().fault = fault;
    }

    /// Takes the requests that were made since the last time, refused ones too.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().requests)
    }

    /// The kind of a set, if there is one of this name.
    pub fn kind(&self, name: &SetName) -> Option<Kind> {
        self.state().sets.get(name).map(|(set, _)| set.kind)
    }

    /// Whether a set has any of these entries; false if there is no such set. No message, as a rule needs none.
    pub fn has_any(&self, name: &SetName, of: impl IntoIterator<Item = Entry>) -> bool {
        let state = self.state();
        let set = state.sets.get(name);
        set.is_some_and(|(_, entries)| of.into_iter().any(|entry| entries.contains(&entry)))
    }

    /// From now on `user` uses these sets, and no others. `Err` names one that is not there.
    pub(crate) fn hold(&self, user: &str, names: Vec<SetName>) -> std::result::Result<(), SetName> {
        let mut state = self.state();
        if let Some(missing) = names.iter().find(|name| !state.sets.contains_key(*name)) {
            return Err(missing.clone());
        }
        state.users.insert(user.to_owned(), names);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One message to the kernel.
    fn ask(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.messages += 1;
        match &state.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(state),
        }
    }
}

impl Ipsets for Simulated {
    fn sets(&mut self) -> Result<Vec<FoundSet>> {
        let state = self.ask()?;
        let found = state.sets.values().map(|(set, _)| FoundSet {
            name: set.name.to_string(),
            kind: Some(set.kind),
            references: state.references(&set.name),
            entries_max: if set.kind == Kind::Port { 0 } else { set.entries_max },
        });
        Ok(found.collect())
    }

    fn entries(&mut self, of: &SetName) -> Result<Option<BTreeSet<Entry>>> {
        Ok(self.ask()?.sets.get(of).map(|(_, entries)| entries.clone()))
    }

    fn contains(&mut self, set: &SetName, entry: &Entry) -> Result<Option<bool>> {
        Ok(self.ask()?.sets.get(set).map(|(_, entries)| entries.contains(&truncated(*entry))))
    }

    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>> {
        let mut refused = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let mut state = self.ask()?;
            state.requests.push(request.clone());
            if let Err(number) = state.carry_out(request) {
                refused.push(Refused { at, request: request.clone(), refusal: Errno(number).into() });
            }
        }
        Ok(refused)
    }

    fn messages(&self) -> u64 {
        self.state().messages
    }
}

/// `Err` is the kernel's error number.
type Done = std::result::Result<(), i32>;

impl State {
    fn references(&self, name: &SetName) -> u32 {
        let uses = self.users.values().flatten().filter(|used| *used == name).count();
        u32::try_from(uses).unwrap_or(u32::MAX)
    }

    fn carry_out(&mut self, request: &Request) -> Done {
        match request {
            Request::Create(set) => self.create(set),
            Request::Destroy(name) => self.destroy(name),
            Request::Flush(name) => {
                self.set(name)?.1.clear();
                Ok(())
            }
            Request::Swap(one, other) => self.swap(one, other),
            Request::Add(name, entry) => self.add(name, *entry),
            Request::Delete(name, entry) => {
                let (set, entries) = self.set(name)?;
                fits(set.kind, entry)?;
                entries.remove(&truncated(*entry));
                Ok(())
            }
        }
    }

    fn set(&mut self, name: &SetName) -> std::result::Result<&mut (Set, BTreeSet<Entry>), i32> {
        self.sets.get_mut(name).ok_or(libc::ENOENT)
    }

    fn create(&mut self, set: &Set) -> Done {
        match self.sets.get(&set.name) {
            Some((found, _)) if is_same(found, set) => Ok(()),
            Some(_) => Err(libc::EEXIST),
            None => {
                self.sets.insert(set.name.clone(), (set.clone(), BTreeSet::new()));
                Ok(())
            }
        }
    }

    fn destroy(&mut self, name: &SetName) -> Done {
        if self.references(name) > 0 {
            return Err(code::BUSY);
        }
        self.sets.remove(name);
        Ok(())
    }

    fn swap(&mut self, one: &SetName, other: &SetName) -> Done {
        let (first, _) = self.sets.get(one).ok_or(libc::ENOENT)?;
        let (second, _) = self.sets.get(other).ok_or(code::NO_SECOND_SET)?;
        if first.kind != second.kind {
            return Err(code::TWO_KINDS);
        }
        if let (Some(mut first), Some(mut second)) = (self.sets.remove(one), self.sets.remove(other)) {
            std::mem::swap(&mut first.0.name, &mut second.0.name);
            self.sets.extend([(one.clone(), second), (other.clone(), first)]);
        }
        Ok(())
    }

    fn add(&mut self, name: &SetName, entry: Entry) -> Done {
        let (set, entries) = self.set(name)?;
        fits(set.kind, &entry)?;
        let entry = truncated(entry);
        let is_full = entries.len() >= usize::try_from(set.entries_max).unwrap_or(usize::MAX);
        if set.kind != Kind::Port && is_full && !entries.contains(&entry) {
            return Err(code::FULL);
        }
        entries.insert(entry);
        Ok(())
    }
}

/// Whether the kernel takes the second for the first. It does not look at the family.
fn is_same(found: &Set, asked: &Set) -> bool {
    found.kind.name() == asked.kind.name()
        && (found.kind == Kind::Port || found.entries_max == asked.entries_max)
}

fn fits(kind: Kind, entry: &Entry) -> Done {
    match entry.kind() {
        Some(of) if of == kind => match entry {
            Entry::IpPortNet(.., net) if net.prefix_len() == 0 => Err(code::WRONG_PREFIX),
            _ => Ok(()),
        },
        _ => Err(code::MISFIT),
    }
}

/// A network as the kernel keeps it.
fn truncated(entry: Entry) -> Entry {
    match entry {
        Entry::IpPortNet(ip, protocol, port, net) => Entry::IpPortNet(ip, protocol, port, net.trunc()),
        other => other,
    }
}
