//! What a program prints, read beside it: its output, and the last line of its standard error, which mostly is why it failed.
//!
//! In: both, as pipes. Out: what came so far. Whatever the program started may keep them open for ever, so nobody waits for an end.

use std::io::{ErrorKind, Read, Result};
use std::os::fd::AsFd;

use kernel::pipe::wait_for_nothing;

/// So much of the line is shown.
const SHOWN: usize = 300;
/// So often in a row it is read: as much as a pipe can hold. Whoever never stops talking is not listened to for ever.
const PIECES: usize = 256;

/// What came through a pipe so far.
#[derive(Debug)]
pub(crate) struct Heard<R> {
    from: R,
    /// So many bytes are kept.
    longest: usize,
    kept: Vec<u8>,
    /// There was more than that.
    is_more: bool,
}

impl<R: Read + AsFd> Heard<R> {
    /// Of a pipe, at most so many bytes.
    pub(crate) fn of(from: R, longest: usize) -> Result<Self> {
        wait_for_nothing(from.as_fd())?;
        Ok(Self { from, longest, kept: Vec::new(), is_more: false })
    }

    /// Reads what is there. Of more than is kept, the end stays. What cannot be read is as if it were not said.
    pub(crate) fn listen(&mut self) {
        let mut piece = [0; 4096];
        for _ in 0..PIECES {
            match self.from.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => self.keep(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let surplus = self.kept.len().saturating_sub(self.longest);
        self.is_more |= surplus > 0;
        self.kept.drain(..surplus);
    }

    /// All of it; nothing if it was too much.
    pub(crate) fn all(&self) -> Option<&[u8]> {
        (!self.is_more).then_some(&self.kept)
    }

    /// The last line, for the end of a sentence about the program. Nothing, where it said nothing.
    pub(crate) fn last_words(&self) -> String {
        match last_line(&String::from_utf8_lossy(&self.kept)) {
            Some(line) => format!("; its last words: `{line}`"),
            None => String::new(),
        }
    }
}

fn last_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write as _};

    use super::*;

    fn pipe(longest: usize) -> (Heard<std::io::PipeReader>, PipeWriter) {
        let (reader, writer) = std::io::pipe().unwrap();
        (Heard::of(reader, longest).unwrap(), writer)
    }

    #[test]
    fn of_much_that_was_said_the_last_line_is_told() {
        let (mut heard, mut writer) = pipe(100);
        for _ in 0..1000 {
            writer.write_all(b"talk\n").unwrap();
            heard.listen();
        }
        writer.write_all(b"no such\tprofile\n \n").unwrap();
        heard.listen();
        assert_eq!(heard.last_words(), "; its last words: `no such profile`");
        assert_eq!((heard.all(), heard.kept.len()), (None, 100));
    }

    #[test]
    fn silence_is_not_told_and_an_end_that_never_comes_is_not_waited_for() {
        let (mut heard, mut writer) = pipe(100);
        heard.listen();
        assert_eq!((heard.last_words(), heard.all()), (String::new(), Some(&b""[..])));
        writer.write_all(b"log in first\n").unwrap();
        heard.listen();
        assert_eq!(heard.last_words(), "; its last words: `log in first`");
        drop(writer);
        heard.listen();
        assert_eq!(heard.all(), Some(&b"log in first\n"[..]));
    }
}
