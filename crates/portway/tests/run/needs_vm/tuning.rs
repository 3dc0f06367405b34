//! What is of the whole machine, and so is tried in the VM alone.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::skipped;

fn read(name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/sys/net/netfilter/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

#[test]
fn root_the_connection_tracker_is_sized_as_upstream_does() {
    if std::env::var_os("PORTWAY_VM").is_none() {
        let _: Option<()> = skipped("it would change this machine: `cargo xtask vm --smoke` runs it in a VM");
        return;
    }
    let folder = std::env::temp_dir().join("portway-tuning");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("web.yaml"), crate::needs_root::WEB).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_portway"))
        .args(["run", "--node-name", "a", "--conntrack-max-per-core", "70000", "--conntrack-min", "400000"])
        .args(["--oom-score-adj", "-999", "--run-dir", "run", "--state-dir", "state", "--from", "web.yaml"])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let cores = u64::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
    let wanted = (70_000 * cores).max(400_000);
    let score = || std::fs::read_to_string(format!("/proc/{}/oom_score_adj", child.id())).unwrap();
    let begun = Instant::now();
    loop {
        let (max, buckets, score) = (read("nf_conntrack_max"), read("nf_conntrack_buckets"), score());
        if max == wanted && buckets >= wanted / 4 && score.trim() == "-999" {
            break;
        }
        let limit = playground::patient(Duration::from_secs(20));
        assert!(begun.elapsed() < limit, "{max} entries, {buckets} buckets, score {score}; not {wanted}");
        std::thread::sleep(Duration::from_millis(50));
    }
    playground::namespace::terminate(&mut child).unwrap();
    child.wait().unwrap();
}
