//! The operator's tool: `nft` must list what we write, with the names of services, and accept what we print.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};

use kernel::nft::Comment;
use model::ForwardingTable;
use playground::namespace::Namespace;

/// The installed version, and a second one that `cargo xtask test` unpacks aside.
const INSTALLED: &str = "nft";
const SECOND: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../second-nft/nft");

/// `nft list ruleset` shows every service port that has a frontend, in either version. False where the program is not
/// installed.
pub(crate) fn lists(namespace: &Namespace, table: &ForwardingTable) -> Result<bool, String> {
    lists_with(SECOND, namespace, table)?;
    lists_with(INSTALLED, namespace, table)
}

fn lists_with(program: &str, namespace: &Namespace, table: &ForwardingTable) -> Result<bool, String> {
    let Some(output) = run(program, namespace, &["list", "ruleset"], "")? else { return Ok(false) };
    let text = String::from_utf8_lossy(&output.stdout);
    let has_frontend = table.ports().filter(|port| !port.routes.is_empty());
    for id in has_frontend.map(|port| Comment::new(&port.id().to_string())) {
        if !text.contains(&format!("comment \"{}\"", id.as_str())) {
            return Err(format!("`nft list ruleset` does not name {id:?}:\n{text}"));
        }
    }
    Ok(true)
}

/// `nft -c -f` accepts the text: the second version all of it. The program of version 1.0.6 aborts while it encodes rules that change an IPv6 map, which
/// are left out then; the kernel takes them, and the same program lists them.
pub(crate) fn accepts(namespace: &Namespace, text: &str) -> Result<(), String> {
    run(SECOND, namespace, &["-c", "-f", "-"], text)?;
    let (v4, v6) = text.split_at(text.find("ip6 kube-proxy").map_or(text.len(), |at| line_start(text, at)));
    for text in [v4, v6] {
        if run(INSTALLED, namespace, &["-c", "-f", "-"], text).is_err() {
            let without = text.lines().filter(|line| !is_change_of_affinity(line) || text == v4);
            let without: Vec<&str> = without.collect();
            run(INSTALLED, namespace, &["-c", "-f", "-"], &without.join("\n"))?;
        }
    }
    Ok(())
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

fn is_change_of_affinity(line: &str) -> bool {
    line.contains("update @affinity") || line.contains("delete @affinity")
}

/// Runs it inside; `None` where it is not installed.
fn run(
    program: &str,
    namespace: &Namespace,
    arguments: &[&str],
    input: &str,
) -> Result<Option<Output>, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let talk = || {
        let mut child = command.spawn()?;
        // A program that aborts does not read to the end; its exit says so.
        drop(child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    };
    let output = match namespace.run(talk).and_then(|output| output) {
        Ok(output) => output,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    if output.status.success() {
        return Ok(Some(output));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}: {said}\n{input}", arguments.join(" "), output.status))
}
