//! Puts on the machine what the tests need and what is missing there.
//!
//! In: the lists below. Out: lines that say what is installed and why, and what could not be.
//!
//! Only what is missing is touched. Without root or apt-get nothing is installed: the tests that need it
//! then skip themselves and the summary names them.
//!
//! Absent on purpose: Rust itself, which runs this program, and any change of what is already there.

use crate::cargo::{cargo, has_subcommand};
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that tests call, and the Debian package that has it.
pub(crate) struct Needed {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) reason: &'static str,
}

const NEEDED: &[Needed] = &[
    Needed {
        program: "nft",
        package: "nftables",
        reason: "tests read back with it what was written to the kernel, and check the text of `portway render`",
    },
    Needed {
        program: "ip",
        package: "iproute2",
        reason: "tests and the demo furnish network namespaces with it",
    },
    Needed {
        program: "iptables-legacy-restore",
        package: "iptables",
        reason: "tests make upstream kube-proxy's rules with it, and portway removes them with it",
    },
    Needed {
        program: "ipset",
        package: "ipset",
        reason: "tests read back with it what was written to IP sets",
    },
    Needed {
        program: "ipvsadm",
        package: "ipvsadm",
        reason: "tests read back with it what was written to IPVS",
    },
    Needed {
        program: "kubectl",
        package: "kubernetes-client",
        reason: "tests build the manifests in deploy/ with it",
    },
];

/// A part of the Rust toolchain that a minimal installation leaves out.
struct Component {
    subcommand: &'static str,
    name: &'static str,
}

const COMPONENTS: &[Component] =
    &[Component { subcommand: "fmt", name: "rustfmt" }, Component { subcommand: "clippy", name: "clippy" }];

/// Something that could not be installed, in words for the summary.
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Installs what is missing and returns what is still missing afterwards.
pub(crate) fn install_missing() -> Vec<Missing> {
    let mut missing = install_packages(NEEDED.iter());
    missing.extend(COMPONENTS.iter().filter_map(install_component));
    missing.extend(install_nextest());
    missing
}

/// Installs the package of one program of the list, where it is missing.
pub(crate) fn install_program(program: &str) -> Option<Missing> {
    install_packages(NEEDED.iter().filter(|needed| needed.program == program)).pop()
}

/// Installs the packages of those programs that are missing; what is still missing then.
pub(crate) fn install_packages(needed: impl Iterator<Item = &'static Needed>) -> Vec<Missing> {
    let wanted: Vec<&Needed> = needed.filter(|needed| !is_on_path(needed.program)).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let Err(why) = apt_get_install(&wanted) else { return Vec::new() };
    wanted
        .into_iter()
        .filter(|needed| !is_on_path(needed.program))
        .map(|needed| {
            let Needed { program, package, reason } = needed;
            println!("  missing: `{program}` of package {package} ({reason}); {why}");
            Missing { name: package.to_string(), reason: format!("`{program}` is missing and {why}") }
        })
        .collect()
}

/// The error is the second half of a sentence: "`nft` is missing and …".
fn apt_get_install(wanted: &[&Needed]) -> Result<(), String> {
    if !is_on_path("apt-get") {
        return Err("there is no apt-get here to install it".to_owned());
    }
    if !is_root() {
        return Err("only root can install it".to_owned());
    }
    for Needed { program, package, reason } in wanted {
        println!("  installing {package} with apt-get, since `{program}` is missing: {reason}");
    }
    // A stale package list may still do, so a failed update does not end the attempt.
    let updated = run("apt-get", &["update", "--quiet"]);
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(wanted.iter().map(|needed| needed.package));
    run("apt-get", &arguments).map_err(|why| match updated {
        Ok(()) => why,
        Err(earlier) => format!("{earlier}; then {why}"),
    })
}

fn install_component(component: &Component) -> Option<Missing> {
    let Component { subcommand, name } = component;
    if has_subcommand(subcommand) {
        return None;
    }
    println!("  installing {name} with rustup, since `cargo {subcommand}` is missing");
    let why = run("rustup", &["component", "add", name]).err()?;
    Some(Missing { name: (*name).to_owned(), reason: format!("`cargo {subcommand}` is missing and {why}") })
}

fn install_nextest() -> Option<Missing> {
    if has_subcommand("nextest") {
        return None;
    }
    println!("  installing cargo-nextest, which runs each test in a process of its own (once, some minutes)");
    let installed = cargo(&["install", "cargo-nextest", "--locked", "--quiet"]).stdin(Stdio::null()).status();
    if installed.is_ok_and(|status| status.success()) {
        return None;
    }
    println!("  cargo-nextest could not be installed: `cargo test` runs the tests instead");
    None
}

/// Runs a program; its output is shown when it fails, and the error says so in half a sentence.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let line = format!("`{program} {}`", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{line} could not be started ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    println!("{}", without_addresses(&String::from_utf8_lossy(&output.stderr)).trim_end());
    Err(format!("{line} failed"))
}

/// What apt said, without the addresses and names of package servers: those are nobody's business but the machine's.
pub(crate) fn without_addresses(text: &str) -> String {
    let line = |line: &str| {
        line.split(' ')
            .map(|word| if is_address(word) { "(address)" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether a word may be a URL, the name of a host, or its address. A number with a dot may be taken for one, too.
fn is_address(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let (name, port) = bare.rsplit_once(':').unwrap_or((bare, ""));
    let has_port = !name.is_empty() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    // Apt quotes the hosts that it cannot find.
    let is_quoted = word.starts_with('\'') && word.len() > 2;
    word.contains("://") || has_port || is_quoted || bare.contains('.') || bare.matches(':').count() > 1
}

fn is_on_path(program: &str) -> bool {
    // An ordinary user's PATH on Debian leaves out the folders where nft and ip are.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder: std::path::PathBuf| folder.join(program).is_file())
}

/// Whether this process may do what only root may.
pub(crate) fn is_root() -> bool {
    std::fs::read_to_string(Path::new("/proc/self/status"))
        .is_ok_and(|status| effective_user(&status) == Some(0))
}

/// The effective user id in the text of `/proc/self/status`: the second number of `Uid:`.
fn effective_user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_user_is_the_second_number() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t5\t5\t5\n"), Some(0));
        assert_eq!(effective_user("Name:\tx\n"), None);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program-anywhere"));
    }

    #[test]
    fn no_address_of_a_package_server_is_shown() {
        for (text, expected) in [
            ("E: Failed to fetch http://mirror/debian/x.deb  404", "E: Failed to fetch (address)  404"),
            ("Could not resolve 'mirror'", "Could not resolve (address)"),
            ("Could not connect to mirror:80 (10.0.0.1).", "Could not connect to (address) (address)"),
            ("connect to deb.example.org: [IP: fd00:1::2 80]", "connect to (address) [IP: (address) 80]"),
            ("E: Unable to locate package x\nE: y", "E: Unable to locate package x\nE: y"),
        ] {
            assert_eq!(without_addresses(text), expected);
        }
    }

    #[test]
    fn a_failed_program_is_named_with_its_arguments() {
        assert_eq!(run("false", &["--now"]), Err("`false --now` failed".to_owned()));
        let error = run("no-such-program-anywhere", &[]).expect_err("there is no such program");
        assert!(error.contains("could not be started"), "{error}");
    }
}
