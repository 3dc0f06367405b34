//! `cargo xtask dist`: everything that is handed out, in one folder.
//!
//! In: the workspace; of the machine, Debian's packages. Out: in `dist/` of cargo's target folder, the program, a Debian package, images
//! in an OCI layout, a list of what they are made of, and checksums; a table of their sizes.
//!
//! | file | what it is for |
//! |---|---|
//! | `binary` | the program, optimised and stripped, static where that target is installed |
//! | `tree` | a folder that is furnished with files, and packed the same way every time |
//! | `debian` | files of Debian's packages with what they need and their licences |
//! | `deb` | the Debian package |
//! | `oci` | the images: layers, configuration, manifests, index |
//! | `sbom` | what all of it is made of |
//! | `check` | the images as others see them: by skopeo, and at work |
//!
//! No container engine is needed. All times in archives are that of the last commit, so the same sources make the same bytes.

mod binary;
mod check;
mod deb;
mod debian;
mod oci;
mod sbom;
mod tree;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::cargo::{root, target_dir};

/// The version of all that is handed out.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What an nftables-only image may have, packed.
const MOST_MIB: f64 = 15.0;

pub(crate) fn details() -> String {
    "\
Builds the program with the profile `dist`, and beside it a Debian package with a systemd unit, OCI images (one with the
iptables programs, one for nftables mode alone), a list of components (SPDX) and checksums. Needs Debian; installs skopeo
and, for the images, iptables and ca-certificates where they are missing. With --no-check the images are not tried."
        .to_owned()
}

/// What was made: a name for people, where it is, and how large.
struct Made {
    name: String,
    path: PathBuf,
    bytes: u64,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.iter().find(|argument| *argument != "--no-check") {
        return Ok(crate::refuse_argument("dist", argument));
    }
    let folder = target_dir()?.join("dist-out");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    let epoch = commit_time()?;
    debian::install_sources()?;
    println!("[1/5] the program, optimised (some minutes) …");
    let binary = binary::build()?;
    let mut made = vec![put(&binary.path, &folder, &format!("portway-{VERSION}-{}", binary.target))?];
    println!("[2/5] the Debian package …");
    made.push(of(deb::build(&binary, &folder, epoch)?)?);
    println!("[3/5] the images …");
    let images = oci::build(&binary, &folder.join("image"), epoch)?;
    let nftables = images.iter().map(|image| image.bytes).min().unwrap_or_default();
    let path = folder.join("image");
    let row = |image: &oci::Image| Made {
        name: format!("image:{} (unpacked {:.1} MiB)", image.tag, mib(image.unpacked_bytes)),
        path: path.clone(),
        bytes: image.bytes,
    };
    made.extend(images.iter().map(row));
    println!("[4/5] the list of components and checksums …");
    made.push(of(sbom::write(&folder, &images, epoch)?)?);
    made.push(of(checksums(&folder)?)?);
    if arguments.is_empty() {
        println!("[5/5] the images, as others see them …");
        check::images(&folder.join("image"), &images)?;
    }
    print(&made, binary.is_static);
    let mib = mib(nftables);
    let verdict = if mib <= MOST_MIB { "met" } else { "missed" };
    println!(
        "\nAn image for nftables mode alone within {MOST_MIB:.0} MiB, packed as a registry holds it: {mib:.1} MiB, {verdict}."
    );
    Ok(if mib <= MOST_MIB { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(made: &[Made], is_static: bool) {
    println!();
    for Made { name, path, bytes } in made {
        println!("{name:<40} {:>9.2} MiB  {}", mib(*bytes), path.display());
    }
    if !is_static {
        println!(
            "\nThe program needs the machine's C library, which the images have: the musl target is not installed \
             (`rustup target add` adds it)."
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of bytes, rounded anyway")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

fn of(path: PathBuf) -> Result<Made> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = fs::metadata(&path).with_context(|| format!("{} is not there", path.display()))?.len();
    Ok(Made { name, path, bytes })
}

fn put(file: &Path, folder: &Path, name: &str) -> Result<Made> {
    let to = folder.join(name);
    fs::copy(file, &to).with_context(|| format!("cannot copy {}", file.display()))?;
    of(to)
}

/// The time of the last commit, which all archives bear.
fn commit_time() -> Result<u64> {
    let text = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
    text.trim().parse().context("git tells no time of the last commit")
}

/// The same in the words of JSON documents: `2026-11-16T17:00:00Z`.
fn in_words(epoch: u64) -> Result<String> {
    let mut date = Command::new("date");
    let text = output(date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ"]).arg(format!("--date=@{epoch}")))?;
    Ok(text.trim().to_owned())
}

/// One line for each file, as `sha256sum --check` takes them.
fn checksums(folder: &Path) -> Result<PathBuf> {
    let mut lines = String::new();
    for file in tree::files(folder)? {
        let name = file.strip_prefix(folder)?.display().to_string();
        writeln!(lines, "{}  {name}", digest(&fs::read(&file)?))?;
    }
    let path = folder.join("SHA256SUMS");
    fs::write(&path, lines)?;
    Ok(path)
}

/// The SHA-256 of some bytes, in hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Runs a program to its end; what it printed. The error has what it said.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("`{name}` cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{name}` failed: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
