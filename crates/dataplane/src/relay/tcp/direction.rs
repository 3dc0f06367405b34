//! One direction of a connection: bytes from one socket to the other, in order, none lost.
//!
//! In: what the sockets are ready for. Out: how many bytes went, and whether the direction has come to its end.
//!
//! ```text
//!   small:  socket ──read──► the worker's buffer ──write──► socket       what is not taken is kept, and nothing more is read
//!   bulk:   socket ──splice──► pipe ──splice──► socket                   the bytes never enter this process
//! ```
//!
//! A direction holds memory only while the other side does not take what it was given.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;

use super::pipes::{Pipes, PooledPipe};

/// A direction gives others a turn after so many bytes.
const TURN: usize = 1 << 20;
/// After so many reads in a row that filled the buffer, bytes go through a pipe.
const FULL_READS: u8 = 3;
/// When so few bytes come through a pipe at once, copying is cheaper.
const TRICKLE: usize = 16 << 10;

/// What directions of one worker share: only one of them moves at a time.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) buffer: Box<[u8]>,
    pub(super) pipes: Pipes,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The source may have something to read.
    pub(super) is_readable: bool,
    /// The destination may have room.
    pub(super) is_writable: bool,
    /// The source has said that it ends: a short read is not the last.
    pub(super) is_ending: bool,
    end: End,
    full_reads: u8,
    held: Held,
}

/// How far a direction is from its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// Bytes may still come.
    #[default]
    Open,
    /// The source has ended; what is held has yet to go.
    Ending,
    /// The source was reset; what is held has yet to go.
    Resetting,
    /// The end has been passed on.
    Done,
    /// The source was reset, and all that it sent has gone.
    Reset,
    /// The destination takes nothing any more.
    Broken,
}

/// Bytes that were read and not yet taken by the other side.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Bytes {
        bytes: Box<[u8]>,
        start: usize,
    },
    Piped {
        pipe: PooledPipe,
        count: usize,
    },
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// So many bytes reached the destination.
    pub(super) bytes: usize,
    /// There is more to do at once.
    pub(super) has_more: bool,
}

impl Direction {
    pub(super) fn end(&self) -> End {
        self.end
    }

    /// Has it nothing more to do?
    pub(super) fn is_over(&self) -> bool {
        matches!(self.end, End::Done | End::Reset | End::Broken)
    }

    /// Moves what can be moved.
    pub(super) fn turn(&mut self, from: &TcpStream, to: &TcpStream, tools: &mut Tools) -> Turn {
        let mut bytes = 0;
        while !self.is_over() {
            bytes += self.flush(to, tools);
            if !matches!(self.held, Held::Nothing) || self.is_over() {
                break;
            }
            match self.end {
                End::Ending => self.pass_end_on(to),
                End::Resetting => self.end = End::Reset,
                _ if !self.is_readable => break,
                _ if bytes >= TURN => return Turn { bytes, has_more: true },
                _ => bytes += self.carry(from, to, tools),
            }
        }
        Turn { bytes, has_more: false }
    }

    /// Drops what is held.
    pub(super) fn abandon(&mut self, tools: &mut Tools) {
        if let Held::Piped { .. } = std::mem::take(&mut self.held) {
            tools.pipes.forget();
        }
    }

    fn carry(&mut self, from: &TcpStream, to: &TcpStream, tools: &mut Tools) -> usize {
        if self.full_reads >= FULL_READS
            && let Some(pipe) = tools.pipes.take()
        {
            self.fill(from, pipe, tools);
            return 0; // Counted when it is flushed, which comes next.
        }
        self.copy(from, to, tools)
    }

    fn copy(&mut self, mut from: &TcpStream, to: &TcpStream, tools: &mut Tools) -> usize {
        let count = match from.read(&mut tools.buffer) {
            Ok(0) => return self.source_ended(End::Ending),
            Ok(count) => count,
            Err(error) => return self.source_failed(&error),
        };
        if count == tools.buffer.len() {
            self.full_reads = self.full_reads.saturating_add(1);
        } else {
            self.full_reads = 0;
            // The source is empty: what comes later is told anew. Unless it ends, which was told already.
            self.is_readable = self.is_ending;
        }
        let sent = self.write(to, &tools.buffer[..count]);
        if sent < count && !self.is_over() {
            self.held = Held::Bytes { bytes: tools.buffer[sent..count].into(), start: 0 };
        }
        sent
    }

    fn fill(&mut self, from: &TcpStream, pipe: PooledPipe, tools: &mut Tools) {
        match pipe.pipe.fill(from.as_fd()) {
            Ok(count) if count > 0 => {
                if count < TRICKLE {
                    self.full_reads = 0;
                }
                self.held = Held::Piped { pipe, count };
            }
            ended => {
                tools.pipes.give_back(pipe);
                match ended {
                    Ok(_) => self.source_ended(End::Ending),
                    Err(error) => self.source_failed(&error),
                };
            }
        }
    }

    fn flush(&mut self, to: &TcpStream, tools: &mut Tools) -> usize {
        let mut sent = 0;
        while self.is_writable {
            match std::mem::take(&mut self.held) {
                Held::Nothing => break,
                Held::Bytes { bytes, start } => {
                    let count = self.write(to, &bytes[start..]);
                    sent += count;
                    if start + count < bytes.len() && !self.is_over() {
                        self.held = Held::Bytes { bytes, start: start + count };
                    }
                }
                Held::Piped { pipe, count } => {
                    let taken = self.drain(to, &pipe, count);
                    sent += taken;
                    match count - taken {
                        0 => tools.pipes.give_back(pipe),
                        _ if self.is_over() => tools.pipes.forget(),
                        count => self.held = Held::Piped { pipe, count },
                    }
                }
            }
        }
        sent
    }

    /// Writes what fits.
    fn write(&mut self, mut to: &TcpStream, bytes: &[u8]) -> usize {
        let result = to.write(bytes);
        self.note_written(result, bytes.len())
    }

    fn drain(&mut self, to: &TcpStream, pipe: &PooledPipe, count: usize) -> usize {
        let result = match pipe.pipe.drain(to.as_fd(), count) {
            Ok(0) => Err(io::ErrorKind::BrokenPipe.into()),
            result => result,
        };
        // Less than all is no sign that the destination is full: only its own word is.
        self.note_written(result, 0)
    }

    fn note_written(&mut self, result: io::Result<usize>, wanted: usize) -> usize {
        match result {
            Ok(count) => {
                self.is_writable = count >= wanted;
                count
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_writable = false;
                0
            }
            Err(_) => {
                self.end = End::Broken;
                0
            }
        }
    }

    fn source_ended(&mut self, end: End) -> usize {
        self.end = end;
        self.is_readable = false;
        0
    }

    fn source_failed(&mut self, error: &io::Error) -> usize {
        match error.kind() {
            io::ErrorKind::Interrupted => 0,
            io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                0
            }
            _ => self.source_ended(End::Resetting),
        }
    }

    fn pass_end_on(&mut self, to: &TcpStream) {
        // It fails where the destination is gone already, and then there is nobody to tell.
        let _gone = to.shutdown(Shutdown::Write);
        self.end = End::Done;
    }
}
