//! Only the runtime reads a clock: everything else is handed the time, so that a test moves it.
//!
//! In: the files of the repository. Out: for each file that reads a clock and is not listed here, a problem.
//!
//! Absent on purpose: `model`, whose `clippy.toml` forbids clocks; `dataplane` and `kernel`, whose documents say which of their threads
//! read one; programs, tests and benches.

use std::collections::BTreeSet;

use super::imports::product_code;
use crate::source::File;

/// The crates whose libraries are looked at.
const CRATES: [&str; 5] = ["agent", "apiserver", "config", "observe", "standalone"];

/// What reads a clock.
const READS: [&str; 4] = ["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now"];

/// Files and folders that may read a clock, and why.
pub(super) const PERMITTED: [(&str, &str); 9] = [
    ("crates/agent/src/runtime/", "it is the runtime, which hands the time to everything else"),
    ("crates/agent/src/takeover/", "deadlines of waiting for another process: its locks and its socket"),
    (
        "crates/apiserver/src/announce/send.rs",
        "the thread that sends Events: it hands the time to the ledger",
    ),
    ("crates/apiserver/src/door.rs", "when credentials expire, and how long a failure is shared by requests"),
    ("crates/apiserver/src/follow/", "time-outs of requests and watches"),
    ("crates/apiserver/src/plugin.rs", "the deadline of a program that makes credentials"),
    ("crates/observe/src/socket/timed.rs", "the deadline of a blocking socket"),
    ("crates/standalone/src/ipam/store/lock.rs", "the deadline of waiting for a lock of the store"),
    (
        "crates/standalone/src/manifests/",
        "following files: whether a file is still being written is a matter of time",
    ),
];

/// Problems: files that read a clock, and permissions that nothing needs.
pub(super) fn are_read_by_the_runtime(files: &[File]) -> Vec<String> {
    let readers: BTreeSet<&str> =
        files.iter().filter(|file| is_looked_at(file) && reads(file)).map(|file| &*file.path).collect();
    let is_permitted = |path: &&&str| PERMITTED.iter().any(|(permitted, _)| path.starts_with(permitted));
    let unlisted = readers.iter().filter(|path| !is_permitted(path)).map(|path| {
        format!("{path}: reads a clock: take the time as an argument; the runtime of the agent hands it in")
    });
    let is_used = |permitted: &str| readers.iter().any(|path| path.starts_with(permitted));
    let is_there = |permitted: &str| files.iter().any(|file| file.path.starts_with(permitted));
    let unused = PERMITTED.iter().filter(|(permitted, _)| is_there(permitted) && !is_used(permitted));
    let unused = unused.map(|(permitted, _)| {
        format!("{permitted}: reads no clock any more: take it out of the list in xtask/src/tidy/clocks.rs")
    });
    unlisted.chain(unused).collect()
}

fn is_looked_at(file: &File) -> bool {
    file.is_rust() && CRATES.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")))
}

fn reads(file: &File) -> bool {
    let code = product_code(file);
    READS.iter().any(|name| code.contains(name))
}
