//! What the tests share: a network namespace of their own, the `nft` and `ip` programs, a full layout.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "the module is compiled into each test file")]

pub mod layout;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use kernel::nft::Netlink;

/// Moves this thread into a new network namespace and opens `nf_tables` there. `None`, with the reason on
/// stderr, where that is not allowed.
pub fn own_kernel() -> Option<Netlink> {
    if !enter_namespace() {
        eprintln!("skipped: a network namespace of its own needs root");
        return None;
    }
    match Netlink::open() {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Moves this thread, and no other, into a new network namespace.
#[expect(unsafe_code, reason = "unshare(2) is a system call")]
pub fn enter_namespace() -> bool {
    // SAFETY: unshare(2) takes a number; with CLONE_NEWNET it changes nothing but this thread's namespace.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Runs a program in this thread's network namespace; `None`, with the reason, if it is not installed.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: the program `{program}` is not installed");
        return None;
    };
    child
        .stdin
        .take()
        .expect("stdin is piped")
        .write_all(input.as_bytes())
        .expect("the program reads its input");
    Some(child.wait_with_output().expect("the program ends"))
}

/// Runs `ip` once for each line; false, with the reason, if it is not installed.
pub fn ip(lines: &[&str]) -> bool {
    lines.iter().all(|line| {
        let arguments: Vec<_> = line.split(' ').collect();
        let Some(output) = run("ip", &arguments, "") else { return false };
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
        true
    })
}
