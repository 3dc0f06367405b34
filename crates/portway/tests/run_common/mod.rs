//! A network namespace with manifests, a state and a run folder of its own, and the programs that run in it.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use playground::namespace::Namespace;

/// Everything that is waited for comes within this time. The VM starts programs as slowly as it does all else.
fn deadline() -> Duration {
    let seconds = if std::env::var_os("PORTWAY_VM").is_some() { 40 } else { 5 };
    playground::patient(Duration::from_secs(seconds))
}

/// A test that cannot run says so.
#[expect(clippy::print_stdout, reason = "the test's own output, from which the summary takes the reason")]
pub(crate) fn skipped<T>(reason: &str) -> Option<T> {
    println!("skipped: {reason}");
    None
}

pub(crate) fn has_program(name: &str) -> bool {
    Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Runs portway in no place at all.
pub(crate) fn portway_plain(arguments: &str) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portway"));
    command.args(arguments.split_whitespace()).env_remove("PORTWAY_FROM").env_remove("RUST_LOG");
    command.env_remove("KUBERNETES_SERVICE_HOST");
    Outcome::of(&format!("{command:?}"), command.output().unwrap())
}

/// A namespace and a folder, both of which go when the test ends.
pub(crate) struct Place {
    namespace: Namespace,
    folder: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let Ok(namespace) = Namespace::create() else {
            return skipped("a network namespace of its own needs root");
        };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("portway-run-{}-{number}", std::process::id()));
        std::fs::create_dir_all(folder.join("manifests")).unwrap();
        Some(Self { namespace, folder })
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join("manifests").join(name), text).unwrap();
    }

    pub(crate) fn write_example(&self, name: &str) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        self.write(name, &std::fs::read_to_string(examples.join(name)).unwrap());
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder.join("manifests").join(name)).unwrap();
    }

    /// A file of its folder, in which all programs run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("run/portway.sock")
    }

    /// Starts `portway run` on the manifests.
    pub(crate) fn start(&self) -> Running {
        self.start_with("")
    }

    pub(crate) fn start_with(&self, arguments: &str) -> Running {
        let mut command = self.command(&format!("run --from manifests {arguments}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(self.namespace.spawn(command).unwrap())
    }

    /// Starts `portway run` on the manifests as the last words of another program's arguments.
    pub(crate) fn start_after(&self, program: &[&str]) -> Running {
        self.start_with_after(program, "")
    }

    /// The same, with further options of `portway run`.
    fn start_with_after(&self, program: &[&str], arguments: &str) -> Running {
        let inner = self.command(&format!("run --from manifests {arguments}"));
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(inner.get_program()).args(inner.get_args());
        let mut command = self.prepared(command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(self.namespace.spawn(command).unwrap())
    }

    /// Starts `portway run` on the manifests where there is no iptables program, as in the image of the nftables mode. Only its own view of
    /// the files is changed.
    pub(crate) fn start_without_programs(&self, arguments: &str) -> Running {
        self.start_with_after(&self.without_programs(), arguments)
    }

    /// Runs portway there.
    pub(crate) fn portway_without_programs(&self, arguments: &str) -> Outcome {
        self.portway_after(&self.without_programs(), arguments)
    }

    fn without_programs(&self) -> [&'static str; 7] {
        std::fs::create_dir_all(self.path("no-programs")).unwrap();
        let script = "mount --bind no-programs /usr/sbin && exec \"$0\" \"$@\"";
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    }

    /// Starts `portway run` without manifests.
    pub(crate) fn start_plain(&self, arguments: &str) -> Running {
        let mut command = self.command(&format!("run {arguments}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(self.namespace.spawn(command).unwrap())
    }

    /// Starts `portway run` on the manifests as the first process of a PID namespace, as a container does. Processes of two such containers
    /// do not see each other, but share the network and the folder.
    pub(crate) fn start_in_container(&self, arguments: &str) -> Running {
        let portway = self.command(&format!("run --from manifests {arguments}"));
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        command.arg(portway.get_program()).args(portway.get_args());
        let mut command = self.prepared(command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(self.namespace.spawn(command).unwrap())
    }

    /// Runs portway in the container of one that was started so, as the kubelet runs a probe.
    pub(crate) fn portway_in_container(&self, container: &Running, arguments: &str) -> Outcome {
        let first = container.first_process();
        let before = ["nsenter", "--target", &first, "--pid", "--mount", "--"];
        let run_dir = self.path("run");
        self.portway_after(&before, &format!("{arguments} --run-dir {}", run_dir.display()))
    }

    /// Starts `portway run` on the manifests with standard output and standard error that nobody reads any more, as after the end of
    /// a terminal.
    pub(crate) fn start_unread(&self) -> Running {
        let mut command = self.command("run --from manifests");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.namespace.spawn(command).unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        Running { child, out: Heard::default(), err: Heard::default() }
    }

    /// Starts the program under upstream's name, by a link.
    pub(crate) fn start_kube_proxy(&self, arguments: &str) -> Running {
        let mut command = self.kube_proxy(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(self.namespace.spawn(command).unwrap())
    }

    /// Runs it under that name, to its end.
    pub(crate) fn finish_kube_proxy(&self, arguments: &str) -> Outcome {
        self.finish(self.kube_proxy(arguments))
    }

    /// The same, started by another program.
    pub(crate) fn finish_kube_proxy_after(&self, program: &[&str], arguments: &str) -> Outcome {
        let inner = self.kube_proxy(arguments);
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(inner.get_program()).args(inner.get_args());
        self.finish(self.prepared(command))
    }

    fn kube_proxy(&self, arguments: &str) -> Command {
        let link = self.path("kube-proxy");
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_portway"), &link).unwrap();
        }
        let mut command = Command::new(link);
        command.args(arguments.split_whitespace()).arg("--run-dir=run");
        self.prepared(command)
    }

    /// Runs portway, which asks the running one.
    pub(crate) fn portway(&self, arguments: &str) -> Outcome {
        self.finish(self.command(arguments))
    }

    /// Runs portway on the manifests.
    pub(crate) fn portway_from(&self, arguments: &str) -> Outcome {
        self.portway(&format!("{arguments} --from manifests"))
    }

    /// Runs portway on the manifests as somebody who may not change the network.
    pub(crate) fn without_privilege(&self, arguments: &str) -> Outcome {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", "--"]);
        let inner = self.command(&format!("{arguments} --from manifests"));
        command.arg(inner.get_program()).args(inner.get_args());
        self.finish(self.prepared(command))
    }

    /// Runs portway as the last words of another program's arguments.
    pub(crate) fn portway_after(&self, program: &[&str], arguments: &str) -> Outcome {
        let mut command = Command::new(program[0]);
        let inner = self.command(arguments);
        command.args(&program[1..]).arg(inner.get_program()).args(inner.get_args());
        self.finish(self.prepared(command))
    }

    /// Runs `nft`; what it prints.
    pub(crate) fn nft(&self, arguments: &str) -> String {
        self.tool("nft", arguments)
    }

    pub(crate) fn ip(&self, arguments: &str) -> String {
        self.tool("ip", arguments)
    }

    /// Runs `nft`, whatever comes of it.
    pub(crate) fn try_nft(&self, arguments: &str) -> Option<String> {
        self.try_tool("nft", arguments)
    }

    /// A number that grows with every change of any table.
    pub(crate) fn generation(&self) -> u32 {
        use kernel::nft::{Kernel as _, Netlink};
        self.namespace.run(|| Netlink::open().unwrap().generation().unwrap()).unwrap()
    }

    /// Does something in the namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(work).unwrap()
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            let rules = || self.try_nft("list ruleset").unwrap_or_default();
            assert!(begun.elapsed() < deadline(), "it is not so that {what}:\n{}", rules());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a program; what it prints.
    pub(crate) fn tool(&self, program: &str, arguments: &str) -> String {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace());
        self.finish(self.prepared(command)).fine()
    }

    /// The same; nothing where it fails.
    pub(crate) fn try_tool(&self, program: &str, arguments: &str) -> Option<String> {
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace());
        let outcome = self.finish(self.prepared(command));
        outcome.has_ended_with(0).then_some(outcome.out)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portway"));
        command.args(arguments.split_whitespace());
        for (option, value) in [("--node-name", "a"), ("--state-dir", "state"), ("--run-dir", "run")] {
            if !arguments.contains(option) {
                command.args([option, value]);
            }
        }
        self.prepared(command)
    }

    fn prepared(&self, mut command: Command) -> Command {
        for variable in ["PORTWAY_FROM", "NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG"] {
            command.env_remove(variable);
        }
        // The lock of the legacy programs is one for the whole machine; here nobody waits for others.
        command.env("XTABLES_LOCKFILE", self.folder.join("xtables.lock"));
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn finish(&self, mut command: Command) -> Outcome {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("{command:?}");
        Outcome::of(&shown, self.namespace.spawn(command).unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary folder is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A running portway, which is killed when the test ends.
pub(crate) struct Running {
    child: Child,
    out: Heard,
    err: Heard,
}

type Heard = Arc<Mutex<Vec<String>>>;

impl Running {
    fn new(mut child: Child) -> Self {
        let (out, err) = (listen(child.stdout.take().unwrap()), listen(child.stderr.take().unwrap()));
        Self { child, out, err }
    }

    /// How often a line with these words was logged.
    pub(crate) fn logged(&self, words: &str) -> usize {
        self.err.lock().unwrap().iter().filter(|line| line.contains(words)).count()
    }

    /// All lines of standard output and of the log so far.
    pub(crate) fn said(&self) -> (Vec<String>, Vec<String>) {
        (self.out.lock().unwrap().clone(), self.err.lock().unwrap().clone())
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it as nobody can refuse.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// The first process of the container that this one started, as a number of this PID namespace.
    fn first_process(&self) -> String {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().next().expect("the container runs").to_owned()
    }

    /// Waits for a line of standard output that begins so.
    pub(crate) fn wait_for(&self, words: &str) -> String {
        self.wait(&self.out, words)
    }

    /// Waits for a line of the log with these words.
    pub(crate) fn wait_for_log(&self, words: &str) -> String {
        self.wait(&self.err, words)
    }

    fn wait(&self, heard: &Heard, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let found = heard.lock().unwrap().iter().find(|line| line.contains(words)).cloned();
            if let Some(line) = found {
                return line;
            }
            let all =
                || format!("out: {:#?}\nerr: {:#?}", self.out.lock().unwrap(), self.err.lock().unwrap());
            assert!(begun.elapsed() < deadline(), "it does not say {words:?}:\n{}", all());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end; its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        playground::namespace::terminate(&mut self.child).unwrap();
        self.end()
    }

    /// The same, as Ctrl-C does.
    pub(crate) fn interrupt(&mut self) -> Option<i32> {
        Command::new("kill").args(["-INT", &self.pid()]).status().unwrap();
        self.end()
    }

    fn end(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < deadline() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("portway does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(from: impl Read + Send + 'static) -> Heard {
    let heard = Heard::default();
    let lines = Arc::clone(&heard);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
    heard
}

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    command: String,
    code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    fn of(command: &str, output: std::process::Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self {
            command: command.to_owned(),
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    pub(crate) fn has_ended_with(&self, code: i32) -> bool {
        self.code == Some(code)
    }

    /// All is fine, and there is nothing to warn about: what it printed.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        let quiet = self.ends_with(0);
        assert_eq!(quiet.err, "", "{quiet}");
        quiet.out
    }

    /// It was refused with this code and these words, and printed nothing else.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) {
        let refused = self.ends_with(code);
        assert_eq!(refused.out, "", "{refused}");
        for word in words {
            assert!(refused.err.contains(word), "no {word:?} in standard error of {refused}");
        }
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.out.contains(word), "no {word:?} in standard output of {self}");
        }
    }

    pub(crate) fn says_anything_of(&self, words: &str) -> bool {
        self.out.contains(words)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.map_or("a signal".to_owned(), |code| code.to_string());
        write!(f, "{}\nended with {code}\n--- out\n{}--- err\n{}", self.command, self.out, self.err)
    }
}
