//! Why an iptables program did not do what it was asked, in sentences for a person at three in the morning.
//!
//! In: how the program ended and what it said. Out: what that means, where the words are known; else its words.
//!
//! Whatever the error of a restore: of the table that failed nothing was applied. Tables that stand before it in the same text
//! are, so who wants all or nothing sends one table at a time.

use std::time::Duration;

use super::Table;

/// The result of everything that runs an iptables program.
pub type Result<T> = std::result::Result<T, Error>;

/// The oldest legacy program whose `-restore` can wait for the lock.
pub(super) const OLDEST: Version = Version([1, 6, 2]);

/// Why an iptables program failed, or could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not there, or not any more. Trying again does not help.
    #[error("`{program}` is not installed: install the package iptables, or put its folder into PATH")]
    Missing {
        /// The program.
        program: String,
    },
    /// It could not be started. Trying again may help.
    #[error("`{program}` could not be started: {reason}")]
    NotStarted {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// It did not end, and was killed. Trying again may help; a restore may be in force or not.
    #[error("`{program}` did not end within {} seconds and was killed{}", limit.as_secs(), saying(stderr))]
    Hung {
        /// The program, with its arguments.
        program: String,
        /// How long it was waited for.
        limit: Duration,
        /// What it had said.
        stderr: String,
    },
    /// Somebody else holds the lock of all legacy programs. Trying again helps when that one is done.
    #[error(
        "another program holds the lock {0}, and `{program}` stopped waiting for it: `fuser -v {0}` tells who{1}",
        lock_file(),
        saying(stderr)
    )]
    Locked {
        /// The program, with its arguments.
        program: String,
        /// What it said.
        stderr: String,
    },
    /// We may not. Trying again does not help.
    #[error(
        "`{program}` may not do this: run as root, or with CAP_NET_ADMIN and CAP_NET_RAW{}",
        saying(stderr)
    )]
    NotPermitted {
        /// The program, with its arguments.
        program: String,
        /// What it or the system said.
        stderr: String,
    },
    /// This kernel lacks a part that the program needs. Trying again does not help.
    #[error(
        "this kernel lacks what `{program}` needs: load the modules of iptables (such as ip_tables and iptable_nat){}",
        saying(stderr)
    )]
    ModuleMissing {
        /// The program, with its arguments.
        program: String,
        /// What it said.
        stderr: String,
    },
    /// It is too old. Trying again does not help.
    #[error(
        "`{program}` is of version {version}, and {OLDEST} is the oldest that can wait for the lock: install a newer one"
    )]
    TooOld {
        /// The program.
        program: String,
        /// Its version.
        version: Version,
    },
    /// What it is cannot be told. Trying again does not help.
    #[error("`{program} --version` says `{said}`, which names no version: is it iptables?")]
    Unknown {
        /// The program.
        program: String,
        /// What it said.
        said: String,
    },
    /// Somebody wrote rules into the table that this program does not understand. Trying again does not help.
    #[error(
        "`{program}` cannot read that table: somebody wrote rules into it that are not of iptables{}",
        saying(stderr)
    )]
    Incompatible {
        /// The program, with its arguments.
        program: String,
        /// What it said.
        stderr: String,
    },
    /// The lock of all legacy programs is not to be seen from here, so nothing is written. Trying again does not help.
    #[error(
        "the lock of the legacy programs, {path}, is not here, and without it two programs could write one table at once: mount the \
         host's {path} into this container; if the host has none, create it there with `touch {path}`"
    )]
    NoLock {
        /// Where it should be.
        path: String,
    },
    /// A rule that stays names something that only the host sees as it was meant. Trying again does not help.
    #[error(
        "table {table} has a rule with `{option}`, which the kernel would look up anew from inside this container, where it may be \
         something else, so the table is left as it is: run `portway cleanup --mode iptables --force` on the host itself, with the package \
         iptables installed there"
    )]
    ForTheHost {
        /// The table.
        table: Table,
        /// The match and its option.
        option: &'static str,
    },
    /// It refused, for another reason. Trying again helps only if somebody else changes the table.
    #[error("`{program}` refused{}{}", at_line(line.as_deref()), saying(stderr))]
    Refused {
        /// The program, with its arguments.
        program: String,
        /// The line of the input that it named, as text.
        line: Option<String>,
        /// What it said.
        stderr: String,
    },
}

impl Error {
    /// Whether the same may go through later.
    pub fn retry_helps(&self) -> bool {
        matches!(
            self,
            Self::NotStarted { .. } | Self::Hung { .. } | Self::Locked { .. } | Self::Refused { .. }
        )
    }

    /// What a failed program meant.
    pub(super) fn of_failure(program: String, input: &str, stderr: &str) -> Self {
        let stderr = stderr.trim().to_owned();
        let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
        if says(&["holding the xtables lock", "Resource temporarily unavailable"]) {
            Self::Locked { program, stderr }
        } else if says(&["Permission denied", "Operation not permitted", "you must be root"]) {
            Self::NotPermitted { program, stderr }
        } else if says(&["unable to initialize table"]) && !may_change_the_network() {
            // The legacy program says the same of both.
            Self::NotPermitted { program, stderr }
        } else if says(&[
            "unable to initialize table",
            "do you need to insmod",
            "missing kernel module",
            "Protocol not supported",
        ]) {
            Self::ModuleMissing { program, stderr }
        } else if says(&["is incompatible, use 'nft' tool", "Parsing nftables rule failed"]) {
            Self::Incompatible { program, stderr }
        } else {
            let line = named_line(&stderr).and_then(|number| input.lines().nth(number.checked_sub(1)?));
            Self::Refused { program, line: line.map(str::to_owned), stderr }
        }
    }
}

/// Whether this thread has `CAP_NET_ADMIN`. Where that cannot be told, it is not the reason.
fn may_change_the_network() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_none_or(|bits| bits & NET_ADMIN != 0)
}

/// A version such as 1.8.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [u32; 3]);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The number after the first `line` or `line:` in what a program said.
fn named_line(stderr: &str) -> Option<usize> {
    let (_, rest) = stderr.split_once("line")?;
    let digits: String =
        rest.chars().skip_while(|c| [':', ' '].contains(c)).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The file that the legacy programs lock.
pub(super) fn lock_file() -> String {
    std::env::var("XTABLES_LOCKFILE").unwrap_or_else(|_| "/run/xtables.lock".to_owned())
}

fn saying(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!(" (it said: {})", stderr.lines().collect::<Vec<_>>().join("; "))
    }
}

fn at_line(line: Option<&str>) -> String {
    line.map_or_else(String::new, |line| format!(" the line `{line}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the programs of 1.8.9 say.
    #[test]
    fn each_failure_is_a_sentence_of_its_own() {
        let cases = [
            (
                "Another app is currently holding the xtables lock. Stopped waiting after 1s.",
                "another program holds the lock",
            ),
            ("Fatal: can't open lock file /run/xtables.lock: Permission denied", "run as root"),
            ("Could not fetch rule set generation id: Permission denied (you must be root)", "run as root"),
            ("Cannot initialize: Table does not exist (do you need to insmod?)", "load the modules"),
            ("Parsing nftables rule failed", "rules into it that are not of iptables"),
            ("iptables-restore: line 3 failed", "refused the line `-X KUBE-A`"),
            ("line 4: CHAIN_DEL failed (Device or resource busy): chain X", "refused the line `COMMIT`"),
            (
                "iptables-restore v1.8.9: oops\nError occurred at line: 2",
                "refused the line `:KUBE-A - [0:0]`",
            ),
            ("something else", "refused (it said: something else)"),
        ];
        for (stderr, expected) in cases {
            let input = "*nat\n:KUBE-A - [0:0]\n-X KUBE-A\nCOMMIT\n";
            let error = Error::of_failure("iptables-restore".to_owned(), input, stderr).to_string();
            assert!(error.contains(expected), "{error}");
            let last = stderr.lines().last().unwrap();
            assert!(error.contains(last), "it quotes the program: {error}");
        }
    }

    #[test]
    fn a_line_that_is_not_in_the_input_is_not_named() {
        for stderr in ["line 0 failed", "line 99 failed", "line failed", "line 99999999999999999999999"] {
            let error = Error::of_failure(String::new(), "*nat\nCOMMIT\n", stderr);
            assert!(matches!(error, Error::Refused { line: None, .. }), "{error}");
        }
    }
}
