//! The end that listens.
//!
//! Each client has a thread and a deadline for everything: one that asks slowly, asks too much, does not read its answer or
//! goes away costs its own thread for a while and nothing else. There are so many threads and no more.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::timed::Timed;
use super::words;
use crate::question::{Answer, Question};

/// Clients at a time.
const CLIENTS_MAX: usize = 16;
/// A client has so long to ask.
const ASKING: Duration = Duration::from_secs(2);
/// And so long to read its answer, which may be 200 MB for a huge cluster.
const READING: Duration = Duration::from_secs(60);
/// When the system has no descriptor left for a new client, wait so long for one.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(200);

/// A socket on which nobody is answered yet.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
}

impl Server {
    /// Listens in this folder, which we hold; a socket of an earlier life is replaced.
    ///
    /// The socket is made in a folder that only we may enter, closed to others, and only then put in its place: there is no
    /// moment at which somebody else could ask.
    pub fn bind(run_dir: &Path) -> io::Result<Self> {
        let place = super::path(run_dir);
        let bind = || -> io::Result<UnixListener> {
            let closed = run_dir.join(format!(".portway-{}", std::process::id()));
            // Left behind by a process of the same number that died here: the error of making it anew tells more.
            let _ = fs::remove_dir_all(&closed);
            DirBuilder::new().mode(0o700).create(&closed)?;
            let socket = closed.join("s");
            let bound = UnixListener::bind(&socket).and_then(|listener| {
                fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
                fs::rename(&socket, &place)?;
                Ok(listener)
            });
            fs::remove_dir_all(&closed)?;
            bound
        };
        Ok(Self { listener: bind()? })
    }

    /// Answers clients for ever; `ask` gets the answers.
    pub fn serve(&self, ask: impl Fn(Question) -> Option<Answer> + Send + Sync + 'static) {
        let ask: Arc<Ask> = Arc::new(ask);
        let mut clients = Vec::new();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    clients.retain(|client: &thread::JoinHandle<()>| !client.is_finished());
                    if clients.len() < CLIENTS_MAX {
                        clients.extend(attend(stream, Arc::clone(&ask)));
                    } else {
                        tracing::debug!("too many clients at the socket: one is sent away");
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a client of the socket was not accepted");
                    thread::sleep(OUT_OF_DESCRIPTORS);
                }
            }
        }
    }
}

type Ask = dyn Fn(Question) -> Option<Answer> + Send + Sync;

fn attend(stream: UnixStream, ask: Arc<Ask>) -> Option<thread::JoinHandle<()>> {
    let work = move || {
        if let Err(error) = answer(&stream, &*ask) {
            tracing::debug!(%error, "a client of the socket went without an answer");
        }
    };
    thread::Builder::new().name("client".into()).spawn(work).ok()
}

fn answer(stream: &UnixStream, ask: &Ask) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(Timed::new(stream, ASKING).take(words::REQUEST_MAX)).read_line(&mut line)?;
    let answer = words::question(&line).and_then(|question| {
        ask(question).ok_or_else(|| "this portway is too busy, or is ending".to_owned())
    });
    words::write(&mut BufWriter::with_capacity(1 << 16, Timed::new(stream, READING)), &answer)
}
