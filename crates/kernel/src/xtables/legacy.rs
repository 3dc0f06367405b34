//! Which chains are in the legacy tables, as the kernel itself tells it.
//!
//! In: the network namespace of the calling thread. Out: the names of the chains that somebody made. The legacy programs open a raw
//! socket for that, which needs `CAP_NET_RAW`; the kernel answers the same question on any socket to whoever may change the network.
//! So a process that may not use those programs can still see whether somebody else's rules are there.
//!
//! `legacy_rules` reads rules from the same entries, and `legacy_tables` removes some where there is no program.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use libc::{c_int, socklen_t};

use super::programs::legacy_tables;
use super::{Family, Table};
use crate::nft::iptables_text::text;
use crate::socket::sys::{check, socket};

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`; those of IPv6 have the same numbers.
const GET_INFO: c_int = 64;
const GET_ENTRIES: c_int = 65;
const TABLES: [Table; 3] = [Table::Nat, Table::Filter, Table::Mangle];
/// The name of a table, with what fills it up.
pub(super) const NAME: usize = 32;
/// `struct ipt_getinfo`: a name, which hooks, two numbers for each of five hooks, how many entries, and how large they are.
const INFO: usize = NAME + 4 + 2 * 5 * 4 + 4 + 4;
/// `struct ipt_get_entries` without its entries.
const ENTRIES_HEAD: usize = 40;
/// `IPT_SO_SET_REPLACE` and `IPT_SO_SET_ADD_COUNTERS`.
const SET_REPLACE: c_int = 64;
const SET_ADD_COUNTERS: c_int = 65;
/// `struct ipt_replace` without its entries, and where in it the counters of the old entries are pointed to.
const REPLACE_HEAD: usize = 96;
const REPLACE_COUNTERS: usize = 88;
/// `struct xt_counters_info` without its counters.
const COUNTERS_HEAD: usize = 40;
/// The kernel has no larger tables.
const SIZE_MAX: usize = 512 << 20;
/// So often it is asked for a table that changes all the while.
const TRIES: usize = 3;
/// The target of an entry that begins a chain; its data are the name.
pub(super) const HEAD_OF_CHAIN: &[u8] = b"ERROR";
/// `struct xt_entry_target` up to its data, and where in it the name is.
pub(super) const TARGET_HEAD: usize = 32;
pub(super) const TARGET_NAME: usize = 2;

/// The legacy tables of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legacy {
    /// The family.
    pub family: Family,
    /// The chains in them that somebody made; `None` if the kernel did not tell.
    pub chains: Option<Vec<(Table, String)>>,
}

impl From<Family> for Legacy {
    /// Tables of which no more is known.
    fn from(family: Family) -> Self {
        Self { family, chains: None }
    }
}

impl Legacy {
    /// Looks into the tables that are there; `None` if none is that a proxy writes to.
    pub(super) fn look(family: Family) -> Option<Self> {
        let there = legacy_tables(family).ok()?;
        let has = |table: &Table| there.iter().any(|name| name == table.name());
        if !TABLES.iter().any(has) {
            return None;
        }
        let of_table = |table: Table| {
            let names = again(|| chains(family, table.name()))?;
            Ok(names.into_iter().map(move |name| (table, name)).collect::<Vec<_>>())
        };
        let all: io::Result<Vec<_>> = TABLES.into_iter().filter(has).map(of_table).collect();
        Some(Self { family, chains: all.ok().map(|all| all.concat()) })
    }

    /// Whether there is a chain like this, or may be.
    pub fn may_have(&self, is_like: impl Fn(Table, &str) -> bool) -> bool {
        self.chains.as_ref().is_none_or(|all| all.iter().any(|(table, name)| is_like(*table, name)))
    }
}

/// Asks anew where somebody changed the table between two questions, which the kernel tells by EAGAIN.
pub(super) fn again<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match ask() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            answer => return answer,
        }
    }
    ask()
}

fn chains(family: Family, table: &str) -> io::Result<Vec<String>> {
    names(family, &entries(family, table)?.1)
}

/// What the kernel says about a table that is there (see `INFO`), and its entries one after the other.
pub(super) fn entries(family: Family, table: &str) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (domain, level) = domain(family);
    let socket = socket(domain, libc::SOCK_DGRAM, 0)?;
    let mut info = [0; INFO];
    info.get_mut(..table.len()).ok_or_else(odd)?.copy_from_slice(table.as_bytes());
    ask(socket.as_fd(), level, GET_INFO, &mut info)?;
    let size = usize::try_from(number(&info, INFO - 4)?).unwrap_or(usize::MAX);
    if size > SIZE_MAX {
        return Err(odd());
    }
    let mut entries = vec![0; ENTRIES_HEAD + size];
    entries[..NAME].copy_from_slice(&info[..NAME]);
    entries[NAME..NAME + 4].copy_from_slice(&info[INFO - 4..]);
    // Somebody who changes the table meanwhile makes this fail.
    ask(socket.as_fd(), level, GET_ENTRIES, &mut entries)?;
    entries.drain(..ENTRIES_HEAD);
    Ok((info.to_vec(), entries))
}

/// How often an entry matched: packets and bytes.
pub(super) type Counters = [u64; 2];

/// Puts a table in the place of the one that there is. `info` is what [`entries`] said, with the hooks of the new table; `count` and
/// `old_count` are the numbers of its entries and of those that it replaces. Returns the counters of the old entries. Fails with EAGAIN if
/// somebody has changed how many there are.
pub(super) fn replace(
    family: Family,
    info: &[u8],
    new: (&[u8], usize),
    old_count: usize,
) -> io::Result<Vec<Counters>> {
    // The head of the message has a pointer in it, so it looks different elsewhere.
    if size_of::<usize>() != 8 {
        return Err(io::Error::other("legacy tables are written to on 64-bit machines alone"));
    }
    let ((entries, count), mut counters) = (new, vec![[0; 2]; old_count]);
    let number = |count: usize| u32::try_from(count).map(u32::to_ne_bytes).map_err(|_| odd());
    let mut message = Vec::with_capacity(REPLACE_HEAD + entries.len());
    message.extend(info.get(..NAME + 4).ok_or_else(odd)?);
    message.extend(number(count)?.into_iter().chain(number(entries.len())?));
    message.extend(info.get(NAME + 4..INFO - 8).ok_or_else(odd)?);
    message.extend(number(old_count)?);
    debug_assert_eq!(message.len(), REPLACE_COUNTERS);
    message.extend(counters.as_mut_ptr().expose_provenance().to_ne_bytes());
    message.extend(entries);
    tell(family, SET_REPLACE, &message)?;
    Ok(counters)
}

/// Adds to the counters of a table's entries.
pub(super) fn add_counters(family: Family, table: &str, counters: &[Counters]) -> io::Result<()> {
    let mut message = vec![0; COUNTERS_HEAD];
    message.get_mut(..table.len()).ok_or_else(odd)?.copy_from_slice(table.as_bytes());
    let count = u32::try_from(counters.len()).map_err(|_| odd())?;
    message[NAME..NAME + 4].copy_from_slice(&count.to_ne_bytes());
    message.extend(counters.iter().flatten().flat_map(|count| count.to_ne_bytes()));
    tell(family, SET_ADD_COUNTERS, &message)
}

/// The socket family of a family, and the level of its options.
const fn domain(family: Family) -> (c_int, c_int) {
    match family {
        Family::V4 => (libc::AF_INET, libc::SOL_IP),
        Family::V6 => (libc::AF_INET6, libc::SOL_IPV6),
    }
}

#[expect(unsafe_code, reason = "setsockopt(2) reads a buffer through a pointer")]
fn tell(family: Family, order: c_int, message: &[u8]) -> io::Result<()> {
    let (domain, level) = domain(family);
    let socket = socket(domain, libc::SOCK_DGRAM, 0)?;
    let size = socklen_t::try_from(message.len()).map_err(|_| odd())?;
    let pointer = message.as_ptr().cast();
    // SAFETY: the pointer is valid for `size` bytes. The kernel writes through the pointer inside a message of `replace` only, to counters
    // that live during the call and are as many as the message says: it refuses any other number.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, order, pointer, size) }).map(drop)
}

/// Asks with the buffer, which is then the answer.
#[expect(unsafe_code, reason = "getsockopt(2) reads and fills a buffer through a pointer")]
fn ask(socket: BorrowedFd<'_>, level: c_int, question: c_int, buffer: &mut [u8]) -> io::Result<()> {
    let mut size = socklen_t::try_from(buffer.len()).map_err(|_| odd())?;
    let pointer = buffer.as_mut_ptr().cast();
    // SAFETY: the pointer is valid for `size` bytes, and both live during the call.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, question, pointer, &raw mut size) }).map(drop)
}

/// The names of the chains that these entries begin.
fn names(family: Family, entries: &[u8]) -> io::Result<Vec<String>> {
    // Where an entry says where its target is, and where the next one is: after the match of addresses.
    let offsets = match family {
        Family::V4 => 88,
        Family::V6 => 140,
    };
    let mut found = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let target = short(rest, offsets)?;
        let next = short(rest, offsets + 2)?;
        if next <= offsets {
            return Err(odd());
        }
        let entry = rest.get(..next).ok_or_else(odd)?;
        let name_of_target = entry.get(target + TARGET_NAME..target + TARGET_HEAD).ok_or_else(odd)?;
        if text(name_of_target) == HEAD_OF_CHAIN {
            let name = text(entry.get(target + TARGET_HEAD..).ok_or_else(odd)?);
            found.push(String::from_utf8_lossy(name).into_owned());
        }
        rest = &rest[next..];
    }
    // The last one begins no chain: it is the end.
    found.pop();
    Ok(found)
}

pub(super) fn short(bytes: &[u8], at: usize) -> io::Result<usize> {
    let found = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).ok_or_else(odd)?;
    Ok(u16::from_ne_bytes(found).into())
}

pub(super) fn number(bytes: &[u8], at: usize) -> io::Result<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes).ok_or_else(odd)
}

pub(super) fn odd() -> io::Error {
    io::Error::other("the kernel's answer about a legacy table is not understood")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of IPv4 with this target, and data behind it.
    fn entry(target: &str, data: &str) -> Vec<u8> {
        let mut bytes = vec![0; 112 + TARGET_HEAD + 32];
        let size = u16::try_from(bytes.len()).unwrap_or_default();
        bytes[88..90].copy_from_slice(&112_u16.to_ne_bytes());
        bytes[90..92].copy_from_slice(&size.to_ne_bytes());
        bytes[112 + TARGET_NAME..][..target.len()].copy_from_slice(target.as_bytes());
        bytes[112 + TARGET_HEAD..][..data.len()].copy_from_slice(data.as_bytes());
        bytes
    }

    #[test]
    fn a_table_that_changes_meanwhile_is_asked_for_again_and_not_for_ever() {
        let changed = || io::Error::from_raw_os_error(libc::EAGAIN);
        for (failures, asked, is_known) in [(0, 1, true), (2, 3, true), (9, TRIES, false)] {
            let mut count = 0;
            let answer = again(|| {
                count += 1;
                if count > failures { Ok(()) } else { Err(changed()) }
            });
            assert_eq!((count, answer.is_ok()), (asked, is_known));
        }
        let mut count = 0;
        let refused = again(|| -> io::Result<()> {
            count += 1;
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert!(refused.is_err() && count == 1, "what does not pass is not asked again");
    }

    #[test]
    fn chains_are_known_by_their_first_entries() {
        let table =
            [entry("", ""), entry("ERROR", "KUBE-SERVICES"), entry("DNAT", "x"), entry("ERROR", "ERROR")];
        assert_eq!(names(Family::V4, &table.concat()).expect("it is right"), ["KUBE-SERVICES"]);
    }

    #[test]
    fn no_length_is_trusted() {
        let whole = [entry("ERROR", "KUBE-SERVICES"), entry("ERROR", "ERROR")].concat();
        for cut in 1..whole.len() {
            // It may end with an entry; anything else is no table.
            let is_whole = cut == whole.len() / 2;
            assert_eq!(names(Family::V4, &whole[..cut]).is_ok(), is_whole, "{cut}");
        }
        for value in [0, 1, 88, u16::MAX] {
            for at in [88, 90] {
                let mut bytes = whole.clone();
                bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
                // Either is fine, as long as it ends.
                let _ = names(Family::V4, &bytes);
                let _ = names(Family::V6, &bytes);
            }
        }
    }
}
