//! The two iptables programs, and what they weigh, seen from outside while they run.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::machine::version;
use harness::memory_mib;
use kernel::xtables::Variant;
use serde::{Deserialize, Serialize};

/// A program that lives shorter is seldom seen; what weighs much also lives long.
const POLL: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    Nft,
    Legacy,
}

impl Program {
    pub(crate) const ALL: [Self; 2] = [Self::Nft, Self::Legacy];

    pub(crate) fn variant(self) -> Variant {
        match self {
            Self::Nft => Variant::Nft,
            Self::Legacy => Variant::Legacy,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
        }
    }

    /// Such as `1.8.9`; `None` where it is not installed.
    pub(crate) fn version(self) -> Option<String> {
        version(&format!("{}-restore", self.name()), "--version")
    }
}

/// Does the work, and says what the heaviest of the iptables programs that it starts weighed at most, in MiB.
pub(crate) fn weigh<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak: f64 = 0.0;
            while !is_done.load(Ordering::Relaxed) {
                peak = running().filter_map(|id| memory_mib(&id, "VmHWM").ok()).fold(peak, f64::max);
                thread::sleep(POLL);
            }
            peak
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        (result, watcher.join().expect("the watcher does not panic"))
    })
}

/// The ids of this process's children that are iptables programs by now: before a child becomes one, it is a copy of us.
fn running() -> impl Iterator<Item = String> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let ids: Vec<String> =
        children.flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    ids.into_iter().filter(|id| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.starts_with("iptables") || name.starts_with("ip6tables")
    })
}
