//! A second, newer `nft`, unpacked aside: operators list our tables with whatever version they have.
//!
//! In: the machine's own package sources. Out: a small script that starts the other version with its own loader and
//! libraries, or a reason why there is none. Nothing is installed: the packages are unpacked under the target folder.

use crate::aside::Aside;
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
    Aside::open(&folder, RELEASE)?.unpack(PACKAGES, &folder.join("root"))?;
    write_script(&folder, &script).map_err(|e| format!("{} cannot be written: {e}", script.display()))?;
    if works(&script) { Ok(script) } else { Err(format!("`{} --version` fails", script.display())) }
}

fn works(script: &Path) -> bool {
    Command::new(script).arg("--version").output().is_ok_and(|output| output.status.success())
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
