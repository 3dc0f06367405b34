//! Holds a portway as a container would: the capabilities of its manifest and no others, a root that cannot be written to.
//!
//! In: the manifests in `deploy/`; and in `PORTWAY_IMAGE_ROOT`, if it is set, the folder of an unpacked image to run in. Out: the
//! command that holds another one so.
//!
//! Each process gets mounts of its own, so nothing of this is seen outside of it, nor outlives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::way::Way;

/// Makes the mounts, then becomes the command that follows. `$1` is the root, `$2` the folder that is writable, `$3` the bounding set.
const SCRIPT: &str = r#"
set -e
root="$1" folder="$2" capabilities="$3"
shift 3
touch /run/xtables.lock
if [ "$root" = / ]; then
    mount --bind "$folder" "$folder"
    mount --bind /run/xtables.lock /run/xtables.lock
    mount --bind /proc/sys /proc/sys
    mount -o remount,bind,ro /proc/sys
    mount -o remount,bind,ro /
    exec setpriv --bounding-set "$capabilities" --inh-caps=-all --no-new-privs -- "$@"
fi
mkdir -p "$root$folder" "$root/run" "$root/proc"
touch "$root/run/xtables.lock"
mount --bind "$root" "$root"
mount --bind "$folder" "$root$folder"
mount --bind /run/xtables.lock "$root/run/xtables.lock"
mount --rbind /proc "$root/proc"
mount -o remount,bind,ro "$root"
exec setpriv --bounding-set "$capabilities,+sys_chroot" --inh-caps=-all --no-new-privs -- chroot "$root" "$@"
"#;

/// Where portway is in an image.
const IN_IMAGE: &str = "/usr/bin/portway";

/// A command that runs portway in the way of a manifest, with one folder that it may write to.
pub(crate) fn command(way: Way, folder: &Path) -> Command {
    let root = image_root();
    let program = if root.is_some() { IN_IMAGE } else { env!("CARGO_BIN_EXE_portway") };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]);
    command.arg(root.as_deref().unwrap_or(Path::new("/"))).arg(folder).arg(bounding_set(way)).arg(program);
    command
}

/// A command that runs portway where there is no iptables program; `folder` is any of its own.
pub(crate) fn without_programs(folder: &Path) -> Command {
    let nothing = folder.join("no-programs");
    fs::create_dir_all(&nothing).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" /usr/sbin && shift && exec \"$@\"";
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(nothing).arg(env!("CARGO_BIN_EXE_portway"));
    command
}

/// As `setpriv` wants it: all go, some stay.
fn bounding_set(way: Way) -> String {
    let kept = capabilities(way).into_iter().map(|name| format!(",+{}", name.to_lowercase()));
    format!("-all{}", kept.collect::<String>())
}

/// The capabilities that the manifest of a mode adds.
pub(crate) fn capabilities(way: Way) -> Vec<String> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let patch = deploy.join("overlays").join(way.deployment().overlay).join("daemonset.yaml");
    let of = |file: &Path| added(&serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap());
    let own = patch.exists().then(|| of(&patch)).flatten();
    own.or_else(|| of(&deploy.join("base/daemonset.yaml"))).unwrap()
}

fn added(daemon_set: &Value) -> Option<Vec<String>> {
    let container = &daemon_set["spec"]["template"]["spec"]["containers"][0];
    let added = container["securityContext"]["capabilities"]["add"].as_array()?;
    Some(added.iter().map(|name| name.as_str().unwrap().to_owned()).collect())
}

/// What a process may do, in the order of the kernel's numbers.
pub(crate) fn held(id: u32) -> Vec<String> {
    const NAMES: [(u32, &str); 2] = [(12, "NET_ADMIN"), (13, "NET_RAW")];
    const CHROOT: u32 = 18;
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let bits = u64::from_str_radix(line.trim(), 16).unwrap();
    let is_ours = |number: &u32| bits >> number & 1 == 1 && (*number != CHROOT || image_root().is_none());
    let name = |number: u32| NAMES.iter().find(|(its, _)| *its == number).map(|(_, name)| *name);
    let named = |number: u32| name(number).map_or_else(|| format!("number {number}"), str::to_owned);
    (0..u64::BITS).filter(is_ours).map(named).collect()
}

/// Whether the root of a process is read-only to it.
pub(crate) fn cannot_write(id: u32) -> bool {
    let mounts = fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap();
    let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).rfind(|words| words[4] == "/");
    root.is_some_and(|words| words[5].split(',').any(|option| option == "ro"))
}

/// The folder of the unpacked image to run in, if there is one.
fn image_root() -> Option<PathBuf> {
    std::env::var_os("PORTWAY_IMAGE_ROOT").map(PathBuf::from)
}
