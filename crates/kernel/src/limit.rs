//! How many files this process may have open (`RLIMIT_NOFILE`).

use std::io;

use crate::socket::sys::check;

/// How many files this process may have open.
pub fn files() -> io::Result<u64> {
    get().map(|limit| limit.rlim_cur)
}

/// Raises that as far as it may be raised; returns what it is now.
pub fn raise_files() -> io::Result<u64> {
    let limit = get()?;
    if limit.rlim_cur < limit.rlim_max {
        set(libc::rlimit { rlim_cur: limit.rlim_max, ..limit })?;
    }
    files()
}

/// Lowers it for good: it cannot be raised again.
pub fn lower_files(count: u64) -> io::Result<()> {
    set(libc::rlimit { rlim_cur: count, rlim_max: count })
}

#[expect(unsafe_code, reason = "getrlimit(2) fills a struct through a pointer")]
fn get() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct lives during the call and is ours to write.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

#[expect(unsafe_code, reason = "setrlimit(2) reads a struct through a pointer")]
fn set(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: the struct lives during the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_raising_the_limit_is_the_highest_that_there_is() {
        let raised = raise_files().unwrap();
        assert_eq!(raised, get().unwrap().rlim_max);
        assert_eq!(files().unwrap(), raised);
    }
}
