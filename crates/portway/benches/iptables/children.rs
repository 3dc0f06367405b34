//! What the programs weigh that this process starts, seen from outside while they run.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::process::memory_mib;

/// A program that lives shorter is seldom seen; what weighs much also lives long.
const POLL: Duration = Duration::from_millis(10);

/// Does the work, and says what the heaviest of the iptables programs that it starts weighed at most, in MiB.
pub(crate) fn weigh<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak: f64 = 0.0;
            while !is_done.load(Ordering::Relaxed) {
                peak = programs().filter_map(|id| memory_mib(&id, "VmHWM")).fold(peak, f64::max);
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
fn programs() -> impl Iterator<Item = String> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let ids: Vec<String> =
        children.flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    ids.into_iter().filter(|id| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.starts_with("iptables") || name.starts_with("ip6tables")
    })
}
