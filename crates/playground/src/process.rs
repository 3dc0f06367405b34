//! A program that runs in a place, with all that it says kept.
//!
//! It is killed when the handle is dropped, and by the kernel when this process dies first.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace;

use crate::error::{Result, Trying};
use crate::patience::patient;
use crate::place::Place;

/// How often the end of a program is looked for.
const END_POLL: Duration = Duration::from_millis(2);

/// A running program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    said: Arc<Said>,
}

/// The lines so far, and a bell for new ones.
#[derive(Debug, Default)]
struct Said {
    lines: Mutex<Vec<String>>,
    bell: Condvar,
}

impl Process {
    /// Starts a program in a place; standard output and error are captured together, line by line.
    pub fn spawn(place: &Place, mut command: Command) -> Result<Self> {
        let name = format!("`{}` in `{}`", command.get_program().display(), place.name());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = place.namespace().spawn(command).trying(|| format!("start {name}"))?;
        let said = Arc::new(Said::default());
        child.stdout.take().into_iter().for_each(|output| listen(output, &said));
        child.stderr.take().into_iter().for_each(|output| listen(output, &said));
        Ok(Self { child, name, said })
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All that it has said so far.
    pub fn output(&self) -> Vec<String> {
        self.said.lines().clone()
    }

    /// Waits for a line that contains `text`; `None` when the time is over.
    pub fn wait_for_line(&self, text: &str, limit: Duration) -> Option<String> {
        let deadline = Instant::now() + patient(limit);
        let mut lines = self.said.lines();
        loop {
            if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                return Some(line.clone());
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            lines = self.said.bell.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks it to end (SIGTERM), and waits; `None` when it still runs after `limit`.
    pub fn terminate(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        namespace::terminate(&mut self.child).trying(|| format!("terminate {}", self.name))?;
        self.wait(limit)
    }

    /// Kills it without a warning (SIGKILL), as a crash would.
    pub fn kill9(&mut self) -> Result<ExitStatus> {
        self.child.kill().trying(|| format!("kill {}", self.name))?;
        self.child.wait().trying(|| format!("wait for {}", self.name))
    }

    /// Waits for its end; `None` when it still runs after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patient(limit);
        loop {
            let ended = self.child.try_wait().trying(|| format!("wait for {}", self.name))?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            thread::sleep(END_POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended before, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    /// A reader that panicked has left whole lines behind.
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps every line of one stream; ends with the stream.
fn listen(output: impl Read + Send + 'static, said: &Arc<Said>) {
    let said = Arc::clone(said);
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
            said.lines().push(String::from_utf8_lossy(&line).into_owned());
            said.bell.notify_all();
        }
    });
}
