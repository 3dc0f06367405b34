//! One boot of the VM: its processes, its files, and how it ended.
//!
//! In: an unpacked kernel and an order. Out: the command's output, to wherever the caller wants it, and its exit code.
//!
//! Two processes, QEMU and the one that shows it our files (virtiofsd). Both are killed by the kernel when this process
//! ends, however that happens. The files of a boot are in a folder named after this process; a later boot removes
//! those of processes that are gone.

use super::script;
use super::set_up::{Kernel, VIRTIOFSD};
use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Not the user's folder for temporary files: the path of a socket is short, and the kernel's command line has no quotes.
const FOLDERS: &str = "/tmp";
/// How the names of a boot's folders begin; the number of the process follows.
const PREFIX: &str = "portway-vm-";
const POLL: Duration = Duration::from_millis(50);
const MEMORY: &str = "2048M";

/// QEMU 7.2 corrupts memory in every third boot when it emulates `cmpxchg16b`; without that instruction it never did.
const CPU: &str = "max,la57=off,cx16=off";
/// `panic` and `oops`: end at once instead of hanging. The rest saves time.
const KERNEL_OPTIONS: &str = "root=files rootfstype=virtiofs ro console=ttyS0 loglevel=4 panic=-1 oops=panic \
                              mitigations=off no_timer_check tsc=reliable random.trust_cpu=on";

/// What is to be done in the VM.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) folder: PathBuf,
    pub(crate) command: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    /// The whole boot takes no longer.
    pub(crate) limit: Duration,
}

/// How a boot ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With the command's exit code.
    Code(u8),
    /// It was ended because its time was over.
    TimedOut,
    /// No exit code came back; the last that its kernel said.
    Broke(String),
    /// It did not begin, for this reason.
    NoVm(String),
}

impl Ended {
    /// What there is to say to a person, if the command did not come to its end.
    pub(crate) fn problem(&self, limit: Duration) -> Option<String> {
        match self {
            Self::Code(_) => None,
            Self::TimedOut => Some(format!(
                "it took longer than {} s and was ended: `--timeout` gives it more",
                limit.as_secs()
            )),
            Self::Broke(console) if console.contains("Kernel panic") => {
                Some(format!("the VM's kernel panicked:\n{console}"))
            }
            Self::Broke(console) => Some(format!("the VM ended without an exit code:\n{console}")),
            Self::NoVm(why) => Some(format!("there is no VM here: {why}")),
        }
    }
}

/// Boots, carries out the order and switches off. Call it on the thread that lives longest: the VM ends with it.
pub(crate) fn run(kernel: &Kernel, order: &Order, output: Stdio) -> Result<Ended, String> {
    let folder = Folder::create().map_err(|e| format!("{FOLDERS}/{PREFIX}… cannot be made: {e}"))?;
    folder.write(kernel, order).map_err(|e| format!("{} cannot be written: {e}", folder.path.display()))?;
    let mut files = Running::start(show_files(&folder)?)?;
    let mut machine = Running::start(machine(&folder, kernel, output)?)?;
    let began = Instant::now();
    let is_over = loop {
        if machine.child.try_wait().map_err(|e| format!("QEMU cannot be waited for: {e}"))?.is_some() {
            break false;
        }
        if began.elapsed() > order.limit {
            break true;
        }
        std::thread::sleep(POLL);
    };
    machine.end();
    files.end();
    Ok(folder.judge(is_over))
}

/// A child that does not outlive this value, nor this process.
struct Running {
    child: Child,
}

impl Running {
    fn start(mut command: Command) -> Result<Self, String> {
        let child = command.spawn().map_err(|e| format!("{command:?} cannot be started: {e}"))?;
        Ok(Self { child })
    }

    fn end(&mut self) {
        // Both fail only when it has ended before, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command whose process the kernel kills when the thread that starts it ends. This process may be gone before the kernel
/// was asked for that: the new one then sees another parent and ends by itself.
fn ending_with_us(program: &str) -> Command {
    const GUARD: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", GUARD, "sh"]);
    command.arg(std::process::id().to_string()).arg(program);
    command
}

/// The process that shows the VM our files. It gets its socket from us as standard input: one that it makes itself leaves
/// a lock file behind.
fn show_files(folder: &Folder) -> Result<Command, String> {
    let socket = UnixListener::bind(folder.path.join("files.sock"));
    let socket = socket.map_err(|e| format!("a socket in {} cannot be made: {e}", folder.path.display()))?;
    let mut command = ending_with_us(VIRTIOFSD);
    command.args(["--fd=0", "-o", "source=/,sandbox=chroot,cache=always"]);
    command.stdin(OwnedFd::from(socket)).stdout(folder.log("files")?).stderr(folder.log("files.errors")?);
    Ok(command)
}

fn machine(folder: &Folder, kernel: &Kernel, output: Stdio) -> Result<Command, String> {
    let path = folder.path.display();
    let mut command = ending_with_us("qemu-system-x86_64");
    command.args(["-accel", "tcg,thread=multi", "-machine", "q35,memory-backend=memory"]);
    command.args(["-cpu", CPU, "-smp", "2", "-m", MEMORY]);
    // virtiofsd reads and writes the VM's memory, so they share it.
    command.args(["-object", &format!("memory-backend-memfd,id=memory,size={MEMORY},share=on")]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-chardev", &format!("socket,id=files,path={path}/files.sock")]);
    command.args(["-device", "vhost-user-fs-pci,chardev=files,tag=files,queue-size=1024"]);
    command.args(["-serial", &format!("file:{path}/console"), "-serial", "stdio"]);
    command.args(["-serial", &format!("file:{path}/code")]);
    command.arg("-kernel").arg(&kernel.image);
    command.args(["-append", &format!("{KERNEL_OPTIONS} init={path}/init")]);
    command.stdin(Stdio::null()).stdout(output).stderr(folder.log("machine.errors")?);
    Ok(command)
}

/// The files of one boot; gone when dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create() -> std::io::Result<Self> {
        let path = own_path(Path::new(FOLDERS), PREFIX);
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    fn write(&self, kernel: &Kernel, order: &Order) -> std::io::Result<()> {
        let init = self.path.join("init");
        fs::write(&init, include_str!("init.sh"))?;
        fs::set_permissions(&init, Permissions::from_mode(0o755))?;
        let kernel = script::quoted(&kernel.folder.to_string_lossy());
        fs::write(self.path.join("settings"), format!("kernel={kernel}\n"))?;
        fs::write(self.path.join("command"), script::of(order))
    }

    fn log(&self, name: &str) -> Result<File, String> {
        let path = self.path.join(name);
        File::create(&path).map_err(|e| format!("{} cannot be made: {e}", path.display()))
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    fn judge(&self, is_over: bool) -> Ended {
        let console = self.read("console");
        match self.read("code").trim().parse() {
            Ok(code) => Ended::Code(code),
            Err(_) if is_over => Ended::TimedOut,
            // The first process says something there, and a kernel that does not come so far does too.
            Err(_) if console.is_empty() => {
                let said = self.read("machine.errors") + &self.read("files.errors");
                let said = said.lines().collect::<Vec<_>>().join("; ");
                Ended::NoVm(format!("QEMU ended before its kernel said a word: {said}"))
            }
            Err(_) => Ended::Broke(last_lines(&console)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the folder of temporary files harms nobody, and the next boot removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The path of a folder named after this process. Those of processes that are gone are removed.
pub(super) fn own_path(all: &Path, prefix: &str) -> PathBuf {
    for old in fs::read_dir(all).into_iter().flatten().flatten() {
        if old.file_name().to_str().is_some_and(|name| is_left_over(name, prefix)) {
            // Another process may do the same just now.
            let _ = fs::remove_dir_all(old.path());
        }
    }
    all.join(format!("{prefix}{}", std::process::id()))
}

fn is_left_over(name: &str, prefix: &str) -> bool {
    let process = name.strip_prefix(prefix).filter(|number| number.parse::<u32>().is_ok());
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// The last lines, beginning with what the kernel stumbled over, or with its panic, if there is one.
fn last_lines(console: &str) -> String {
    const LINES: usize = 30;
    let lines: Vec<&str> = console.lines().collect();
    let is_first = |line: &&str| ["BUG: ", "Oops: ", "Kernel panic"].iter().any(|word| line.contains(word));
    let panic = lines.iter().position(is_first);
    let first = panic.unwrap_or(lines.len().saturating_sub(LINES));
    lines[first..].iter().take(LINES).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_left_over() {
        assert!(!is_left_over(&format!("work-{}", std::process::id()), "work-"));
        // No process has so high a number.
        assert!(is_left_over("work-4294967295", "work-"));
        assert!(!is_left_over("work-images", "work-"));
        assert!(!is_left_over("another", "work-"));
    }

    #[test]
    fn a_panic_is_told_from_its_beginning() {
        let console = format!("{}Kernel panic - not syncing: x\nlast", "boring\n".repeat(100));
        assert_eq!(last_lines(&console), "  Kernel panic - not syncing: x\n  last");
        assert!(
            Ended::Broke(last_lines(&console))
                .problem(Duration::ZERO)
                .is_some_and(|p| p.contains("panicked"))
        );
        assert_eq!(last_lines("a\nb"), "  a\n  b");
    }
}
