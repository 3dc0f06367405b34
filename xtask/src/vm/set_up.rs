//! What the VM needs: QEMU, and Debian 13's cloud kernel, unpacked aside and never installed.
//!
//! In: the target folder. Out: where the kernel is, or half a sentence that says why there can be no VM.
//!
//! QEMU is that of Debian 12 (7.2): a later package has no virtiofsd that runs here, and brings a libc with it.

use super::machine::own_path;
use crate::aside::Aside;
use crate::install::{Needed, install_packages, is_root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that has the kernel.
pub(crate) const RELEASE: &str = "trixie";
/// It depends on the newest kernel package, whose name has the version inside.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// Shows the VM our files; it is on nobody's PATH.
pub(super) const VIRTIOFSD: &str = "/usr/lib/qemu/virtiofsd";

const NEEDED: &[Needed] = &[
    Needed {
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        reason: "it runs another kernel in a VM",
    },
    Needed { program: "depmod", package: "kmod", reason: "the VM loads its kernel's modules with it" },
];

/// An unpacked kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Holds `lib/modules` and `boot`.
    pub(super) folder: PathBuf,
    pub(super) image: PathBuf,
    /// As `uname -r` says it.
    pub(crate) release: String,
}

impl Kernel {
    /// The first two numbers of its release.
    pub(crate) fn version(&self) -> String {
        self.release.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let modules = fs::read_dir(folder.join("lib/modules")).ok()?.flatten().next()?;
        let release = modules.file_name().into_string().ok()?;
        let image = folder.join("boot").join(format!("vmlinuz-{release}"));
        let is_whole = image.is_file() && modules.path().join("modules.dep").is_file();
        is_whole.then(|| Self { folder: folder.to_owned(), image, release })
    }
}

/// The kernel, with all that it takes to boot it; made if it is not there yet.
pub(crate) fn get(target: &Path) -> Result<Kernel, String> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(format!("its kernel is for x86_64, and this machine is {}", std::env::consts::ARCH));
    }
    if !is_root() {
        return Err("only root can show it the machine's files".to_owned());
    }
    if let Some(missing) = install_packages(NEEDED.iter()).pop() {
        return Err(missing.reason);
    }
    if !Path::new(VIRTIOFSD).is_file() {
        return Err(format!("this QEMU comes without {VIRTIOFSD}: Debian 12's has it"));
    }
    let folder = target.join("xtask/vm");
    let kernel = folder.join("kernel");
    if let Some(kernel) = Kernel::in_folder(&kernel) {
        return Ok(kernel);
    }
    println!("  unpacking the kernel of Debian {RELEASE} for the VM, beside this machine's (once)");
    let work = own_path(&folder, "work-");
    let made = unpack(&work).and_then(|()| put_in_place(&work.join("root"), &kernel));
    // What is left there harms nobody, and the next one removes it.
    let _ = fs::remove_dir_all(&work);
    made?;
    Kernel::in_folder(&kernel).ok_or_else(|| format!("{} holds no whole kernel", kernel.display()))
}

fn unpack(work: &Path) -> Result<(), String> {
    let (aside, root) = (Aside::open(work, RELEASE)?, work.join("root"));
    let package = aside.first_dependency(KERNEL_PACKAGE)?;
    aside.unpack(&[&package], &root)?;
    let failed = |what: &str| format!("the kernel's package {package} is not as expected: {what}");
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib")).map_err(|e| failed(&e.to_string()))?;
    }
    let modules = fs::read_dir(root.join("lib/modules")).ok().and_then(|mut all| all.next()?.ok());
    let release = modules.ok_or_else(|| failed("it has no modules"))?.file_name();
    let listed = Command::new("depmod").arg("-b").arg(&root).arg(release).output();
    match listed {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("`depmod` cannot be started: {error}")),
    }
}

/// Only a whole one gets the name, so that a run that was killed in the middle is not taken for one.
fn put_in_place(made: &Path, kernel: &Path) -> Result<(), String> {
    if Kernel::in_folder(kernel).is_some() {
        // Another process was faster.
        return Ok(());
    }
    let _ = fs::remove_dir_all(kernel);
    fs::rename(made, kernel).map_err(|e| format!("{} cannot be put in place: {e}", kernel.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_kernel_is_none() {
        let folder = std::env::temp_dir().join(format!("portway-vm-kernel-{}", std::process::id()));
        let modules = folder.join("lib/modules/6.12.9+deb13");
        fs::create_dir_all(&modules).expect("a folder can be made");
        fs::create_dir_all(folder.join("boot")).expect("a folder can be made");
        fs::write(folder.join("boot/vmlinuz-6.12.9+deb13"), "").expect("a file can be written");
        assert!(Kernel::in_folder(&folder).is_none());
        fs::write(modules.join("modules.dep"), "").expect("a file can be written");
        assert_eq!(Kernel::in_folder(&folder).map(|kernel| kernel.version()).as_deref(), Some("6.12"));
        fs::remove_dir_all(&folder).expect("the folder can be removed");
    }
}
