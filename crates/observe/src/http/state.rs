//! `/state`: the whole picture as JSON, the same words as the socket's.
//!
//! It may be 200 MB for a huge cluster, so it is written by a thread of its own, in pieces, no quicker than the client reads, and
//! for one client at a time.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header;
use tokio::sync::mpsc::{Sender, channel};

use super::answer::{Answer, Content, JSON};
use crate::question;
use crate::socket;

/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that may wait for the client.
const PIECES: usize = 4;

/// Whose turn it is: nobody's, or somebody's.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// The picture, or that it is somebody else's turn.
    pub(super) fn answer(&self, picture: Arc<dyn Fn() -> Option<question::Answer> + Send + Sync>) -> Answer {
        if self.0.swap(true, Ordering::AcqRel) {
            let mut busy = Answer::refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "503: the picture is being told to somebody else: ask again in a second",
            );
            busy.headers.push((header::RETRY_AFTER, "1".to_owned()));
            return busy;
        }
        let (send, pieces) = channel(PIECES);
        let taken = Taken(self.clone());
        let work = move || {
            let _taken = taken;
            let answer = picture().ok_or_else(|| "this portway is too busy, or is ending".to_owned());
            // A client that went away does not need the rest.
            let _ = socket::write_answer(&mut BufWriter::with_capacity(PIECE_BYTES, Pieces(send)), &answer);
        };
        match thread::Builder::new().name("state".into()).spawn(work) {
            Ok(_) => Answer {
                status: StatusCode::OK,
                content_type: JSON,
                headers: Vec::new(),
                content: Content::Pieces(pieces),
            },
            Err(error) => {
                Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("500: no thread: {error}"))
            }
        }
    }
}

/// Ends a turn, however it ends.
struct Taken(Turn);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// What is written here, the client reads.
struct Pieces(Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.0.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
