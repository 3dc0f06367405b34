//! HAProxy and nginx: found on the machine, or Debian's packages unpacked aside.
//!
//! Installing them would start them too, as services of this machine, which is not ours to do.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const PACKAGES: [&str; 3] = ["haproxy", "nginx", "libnginx-mod-stream"];
/// Where Debian's packages have libraries.
const LIBRARIES: [&str; 3] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib"];
/// Where the programs are.
const PROGRAMS: [&str; 2] = ["usr/sbin", "usr/bin"];

/// Where the peers' files are.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    root: PathBuf,
}

impl Peers {
    /// Finds them, or unpacks them below `folder`.
    pub(crate) fn find(folder: &Path) -> Result<Self> {
        let installed = Self { root: "/".into() };
        if installed.are_there() {
            return Ok(installed);
        }
        let aside = Self { root: folder.join("root") };
        if !aside.are_there() {
            harness::say(format!("unpacking {} aside, since they are missing", PACKAGES.join(", ")));
            unpack(folder, &aside.root).context("HAProxy and nginx are missing and cannot be loaded")?;
        }
        Ok(aside)
    }

    fn are_there(&self) -> bool {
        ["haproxy", "nginx"].iter().all(|name| self.program(name).exists()) && self.stream_module().exists()
    }

    fn program(&self, name: &str) -> PathBuf {
        let places = PROGRAMS.map(|place| self.root.join(place).join(name));
        places.iter().find(|path| path.exists()).unwrap_or(&places[0]).clone()
    }

    /// nginx's part for TCP and UDP.
    pub(crate) fn stream_module(&self) -> PathBuf {
        self.root.join("usr/lib/nginx/modules/ngx_stream_module.so")
    }

    /// A command that runs one of them.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        let libraries = LIBRARIES.map(|place| self.root.join(place).display().to_string());
        command.env("LD_LIBRARY_PATH", libraries.join(":"));
        command
    }
}

/// Loads the packages, with what they need and this machine does not have, and unpacks them.
fn unpack(folder: &Path, root: &Path) -> Result<()> {
    let archives = folder.join("archives");
    for part in [root, &archives.join("partial")] {
        std::fs::create_dir_all(part).with_context(|| format!("cannot make {}", part.display()))?;
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--download-only", "--yes", "--quiet", "--no-install-recommends", "-o"])
        .arg(format!("Dir::Cache::archives={}", archives.display()))
        .args(["-o", "APT::Sandbox::User=root"])
        .args(PACKAGES))?;
    for entry in std::fs::read_dir(&archives)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(root))?;
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot start `{name}`"))?;
    ensure!(output.status.success(), "`{name}` failed ({})", output.status);
    Ok(())
}
