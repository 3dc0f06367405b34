//! The socket of a running portway: what it answers, and that no client can keep others from being answered.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use observe::health::Readiness;
use observe::question::{Answer, Question};
use observe::socket::{self, AskError, Server};
use observe::status::Status;

/// A folder with a socket that answers `status` and nothing else.
struct Door(PathBuf);

impl Door {
    fn open(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("portway-socket-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let server = Server::bind(&folder).unwrap();
        let status = || Status { mode: "nftables".into(), service_ports: 7, ..Status::default() };
        let answer = move |question| match question {
            Question::Status => Some(Answer::Status(Box::new(status()))),
            Question::Traffic => Some(Answer::Traffic(Vec::new())),
            Question::Readiness => Some(Answer::Readiness(Readiness { is_ready: true, reason: None })),
            Question::Picture | Question::Counted => None,
        };
        std::thread::spawn(move || server.serve(answer));
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        socket::path(&self.0)
    }

    /// What it says to this, or nothing.
    fn say(&self, bytes: &[u8]) -> String {
        let mut client = UnixStream::connect(self.path()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut said = Vec::new();
        // It may be sent away before it has said all, or heard all.
        let _ = client.write_all(bytes);
        let _ = client.read_to_end(&mut said);
        String::from_utf8(said).unwrap()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn status_is_answered_in_one_line_of_json() {
    let door = Door::open("status");
    assert_eq!(socket::status(&door.0).unwrap().service_ports, 7);
    let line = door.say(b"portway/1 status\n");
    assert!(line.starts_with("{\"portway\":1,\"answer\":{") && line.ends_with("}\n"), "{line}");
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn only_the_owner_may_ask() {
    let door = Door::open("owner");
    let mode = std::fs::metadata(door.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let left: Vec<_> = std::fs::read_dir(&door.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["portway.sock"], "what the socket was made in is gone");
}

#[test]
fn other_words_are_answered_with_a_sentence() {
    let door = Door::open("words");
    for words in ["portway/2 status\n", "portway/1 orders\n", "hello\n"] {
        let line = door.say(words.as_bytes());
        assert!(line.contains("\"error\":\"this portway"), "{words}: {line}");
    }
    let refused = socket::picture(&door.0).unwrap_err();
    assert!(refused.to_string().contains("too busy, or is ending"), "{refused}");
}

#[test]
fn nobody_is_told_from_somebody() {
    let refused = socket::status(Path::new("/nonexistent/portway")).unwrap_err();
    assert!(matches!(refused, AskError::Nobody { .. }), "{refused}");
}

#[test]
fn clients_that_say_nothing_are_sent_away() {
    let door = Door::open("silent");
    let mut silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(door.path()).unwrap()).collect();
    let begun = Instant::now();
    for client in &mut silent {
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    }
    assert!(begun.elapsed() < Duration::from_secs(9), "each has a few seconds, all at once");
    assert_eq!(socket::status(&door.0).unwrap().service_ports, 7);
}

#[test]
fn a_socket_of_an_earlier_life_is_replaced() {
    let door = Door::open("again");
    let again = Server::bind(&door.0).unwrap();
    std::thread::spawn(move || again.serve(|_| Some(Answer::Status(Box::default()))));
    assert_eq!(socket::status(&door.0).unwrap().service_ports, 0);
}

/// In a rolling update two processes share a folder: a probe must not be answered for by the other one.
#[test]
fn readiness_is_told_of_the_process_that_was_asked_about_and_of_no_other() {
    let door = Door::open("readiness");
    let own = std::process::id();
    for process in [None, Some(own)] {
        assert!(socket::readiness(&door.0, process).unwrap().is_ready);
    }
    let error = socket::readiness(&door.0, Some(own + 1)).unwrap_err();
    assert!(matches!(&error, AskError::OtherProcess { found, .. } if *found == own), "{error}");
    assert!(error.to_string().contains(&format!("process {own} answers at")), "{error}");
}
