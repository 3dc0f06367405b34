//! A second, newer `nft`, unpacked aside: operators list our tables with whatever version they have.
//!
//! In: the machine's own package sources. Out: a small script that starts the other version with its own loader and
//! libraries, or a reason why there is none. Nothing is installed: the packages are unpacked under the target folder.
//!
//! Absent on purpose: any address of a package server. It is taken from the machine's own settings, with the name of the
//! release exchanged.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that has it, and the packages that it needs beside its own.
const RELEASE: &str = "trixie";
const PACKAGES: &[&str] = &[
    "nftables",
    "libnftables1",
    "libnftnl11",
    "libmnl0",
    "libxtables12",
    "libjansson4",
    "libgmp10",
    "libedit2",
    "libbsd0",
    "libmd0",
    "libtinfo6",
    "libc6",
];

/// The path of a script that runs the other version, made if it is not there yet.
pub(crate) fn get(target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("second-nft");
    let script = folder.join("nft");
    if works(&script) {
        return Ok(script);
    }
    println!(
        "  unpacking a second nft, of Debian {RELEASE}, beside the installed one: both must list our tables"
    );
    std::fs::create_dir_all(&folder).map_err(|e| format!("{} cannot be made: {e}", folder.display()))?;
    download(&folder)?;
    unpack(&folder)?;
    write_script(&folder, &script).map_err(|e| format!("{} cannot be written: {e}", script.display()))?;
    if works(&script) { Ok(script) } else { Err(format!("`{} --version` fails", script.display())) }
}

fn works(script: &Path) -> bool {
    Command::new(script).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Downloads the packages with apt's own means, on a private list that leaves the machine's alone.
fn download(folder: &Path) -> Result<(), String> {
    let source = folder.join("sources.list");
    std::fs::write(&source, sources()?).map_err(|e| e.to_string())?;
    for part in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(folder.join(part)).map_err(|e| e.to_string())?;
    }
    let apt = |arguments: &[&str]| {
        let settings = [
            format!("Dir::Etc::SourceList={}", source.display()),
            "Dir::Etc::SourceParts=-".to_owned(),
            format!("Dir::State::Lists={}", folder.join("lists").display()),
            format!("Dir::Cache={}", folder.join("cache").display()),
            // Downloads happen as root, because the other user may not write here.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let mut command = Command::new("apt-get");
        command.current_dir(folder);
        for setting in &settings {
            command.args(["-o", setting]);
        }
        run(command.args(arguments))
    };
    apt(&["update", "--quiet"])?;
    let mut arguments = vec!["download", "--quiet"];
    arguments.extend(PACKAGES);
    apt(&arguments)
}

/// The machine's own Debian sources, for the other release.
fn sources() -> Result<String, String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"])
        .output()
        .map_err(|e| format!("there is no apt-get here: {e}"))?;
    let mut text = String::new();
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let archives = all.lines().filter(|uri| !uri.contains("security"));
    for uri in archives.collect::<std::collections::BTreeSet<_>>() {
        let _ = writeln!(text, "deb {uri} {RELEASE} main");
    }
    if text.is_empty() { Err("apt has no Debian sources here".to_owned()) } else { Ok(text) }
}

fn unpack(folder: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|e| e.to_string())?;
    let packages = entries.filter_map(Result::ok).map(|entry| entry.path());
    for package in packages.filter(|path| path.extension().is_some_and(|ending| ending == "deb")) {
        run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder.join("root")))?;
    }
    Ok(())
}

/// The program was linked for another libc than this machine's, so it is started by its own loader.
fn write_script(folder: &Path, script: &Path) -> std::io::Result<()> {
    let root = folder.join("root");
    let root = root.display();
    let machine = std::env::consts::ARCH;
    let text = format!(
        "#!/bin/sh\nlibraries={root}/usr/lib/{machine}-linux-gnu\n\
         exec \"$libraries\"/ld-linux*.so.* --library-path \"$libraries\" {root}/usr/sbin/nft \"$@\"\n"
    );
    std::fs::write(script, text)?;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?} cannot be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed: {}", command.get_program().display(), said.lines().last().unwrap_or_default()))
}
