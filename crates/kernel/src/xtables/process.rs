//! One program, run to its end or to its time limit.
//!
//! In: the command, what it reads, how long it may take. Out: how it ended and what it said on both streams.
//!
//! Streams are read and written on threads of their own: a program that says much before it has read all would else wait for
//! us, and we for it. None of them is waited for without a limit: a program that was killed may leave a child behind that
//! still holds the other end.

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, Result};

const POLL: Duration = Duration::from_millis(2);
/// What a program said is there this long after its end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The program with its arguments, for people.
pub(super) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a program to its end.
pub(super) fn run(mut command: Command, input: &str, limit: Duration) -> Result<Ended> {
    let deadline = Instant::now() + limit;
    let program = line(&command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| not_started(&program, &command, &error))?;
    let io =
        |error: std::io::Error| Error::NotStarted { program: program.clone(), reason: error.to_string() };
    feed(&mut child, input.as_bytes().to_vec()).map_err(io)?;
    let stdout = hear(child.stdout.take()).map_err(io)?;
    let stderr = hear(child.stderr.take()).map_err(io)?;
    match wait(&mut child, deadline).map_err(io)? {
        Some(status) => {
            Ok(Ended { status, stdout: text(&stdout, LAST_WORDS), stderr: text(&stderr, LAST_WORDS) })
        }
        None => Err(Error::Hung { program, limit, stderr: text(&stderr, POLL * 50).trim().to_owned() }),
    }
}

/// Waits for its end; kills it, and returns `None`, when its time is over.
fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn feed(child: &mut Child, input: Vec<u8>) -> std::io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else { return Ok(()) };
    // A program that ends before it has read all says why on its own.
    thread::Builder::new().name("stdin".into()).spawn(move || drop(stdin.write_all(&input)))?;
    Ok(())
}

fn hear(stream: Option<impl Read + Send + 'static>) -> std::io::Result<Receiver<Vec<u8>>> {
    let (sender, heard) = channel();
    let Some(mut stream) = stream else { return Ok(heard) };
    thread::Builder::new().name("output".into()).spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error still tells something.
        let _ = stream.read_to_end(&mut bytes);
        drop(sender.send(bytes));
    })?;
    Ok(heard)
}

fn text(heard: &Receiver<Vec<u8>>, limit: Duration) -> String {
    let bytes = heard.recv_timeout(limit).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn not_started(line: &str, command: &Command, error: &std::io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    match error.kind() {
        ErrorKind::NotFound => Error::Missing { program },
        ErrorKind::PermissionDenied => Error::NotPermitted { program, stderr: error.to_string() },
        _ => Error::NotStarted { program: line.to_owned(), reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn input_output_and_errors_reach_the_other_side() {
        let ended = run(shell("cat; echo oops >&2; exit 3"), "hello", LONG).unwrap();
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("hello", "oops\n"));
        assert_eq!(ended.status.code(), Some(3));
    }

    #[test]
    fn much_input_and_much_output_do_not_wait_for_each_other() {
        let input = "-A KUBE-SERVICES -j KUBE-SVC\n".repeat(100_000);
        let ended = run(shell("cat"), &input, LONG).unwrap();
        assert_eq!(ended.stdout.len(), input.len());
    }

    #[test]
    fn a_program_that_does_not_read_is_no_failure() {
        let ended = run(shell("exit 0"), &"x".repeat(1_000_000), LONG).unwrap();
        assert!(ended.status.success());
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_quoted() {
        let error =
            run(shell("echo waiting >&2; exec sleep 1000"), "", Duration::from_millis(300)).unwrap_err();
        assert!(matches!(&error, Error::Hung { stderr, .. } if stderr == "waiting"), "{error}");
        assert!(error.to_string().contains("was killed (it said: waiting)"), "{error}");
    }

    /// The child of the killed shell still holds its standard output.
    #[test]
    fn a_hanging_program_with_a_child_is_not_waited_for() {
        let error = run(shell("sleep 20; echo never"), "", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, Error::Hung { .. }), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_missing() {
        let error = run(Command::new("no-such-program-anywhere"), "", LONG).unwrap_err();
        assert_eq!(error, Error::Missing { program: "no-such-program-anywhere".to_owned() });
    }
}
