//! How many files this process may have open (`RLIMIT_NOFILE`).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files this process may have open.
pub fn files() -> u64 {
    number(getrlimit(Resource::Nofile).current)
}

/// Raises that as far as it may be raised; returns what it is now.
pub fn raise_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if number(limit.current) < number(limit.maximum) {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    }
    Ok(files())
}

/// Lowers it for good: it cannot be raised again.
pub fn lower_files(count: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum: Some(count) })?)
}

/// No limit is the largest number, as for the kernel.
fn number(limit: Option<u64>) -> u64 {
    limit.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_raising_the_limit_is_the_highest_that_there_is() {
        let raised = raise_files().unwrap();
        assert_eq!(raised, number(getrlimit(Resource::Nofile).maximum));
        assert_eq!(files(), raised);
    }
}
