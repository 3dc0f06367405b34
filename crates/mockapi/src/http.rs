//! HTTP/1.1, as much of it as a client of the API needs: one request in, one answer out, the connection stays open.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

/// A request, in the parts that matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    /// What stands after `Bearer`.
    pub(crate) token: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// The server accepts no more.
const BODY_MAX: u64 = 3 << 20;

impl Request {
    /// A parameter; empty when it is missing.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    /// A parameter that is `true` or `1`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.parameter(name), "true" | "1")
    }
}

/// Reads the next request. `None` when the client has ended.
pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let (method, rest) = line.split_once(' ').unwrap_or((&line, "/"));
    let target = rest.split(' ').next().unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (method, path, query) = (method.to_owned(), path.to_owned(), pairs(query));
    let mut request = Request { method, path, query, ..Request::default() };
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => request.token = value.trim().strip_prefix("Bearer ").map(Into::into),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    stream.take(length.min(BODY_MAX)).read_to_end(&mut request.body)?;
    Ok(Some(request))
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

/// `%2F` and `+`, as forms write them.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match (first, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            (other, _) => {
                bytes.push(*other);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is wrong with the way on which a body goes out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// So many bytes of the body go out; then the connection ends.
    pub(crate) cut_after: Option<usize>,
    /// The body goes out in small pieces, with this pause after each.
    pub(crate) pause: Option<Duration>,
}

/// Pieces of a body that goes out slowly.
const SLOW_PIECE: usize = 256;

/// Sends an answer of known length.
pub(crate) fn send(
    out: &mut dyn Write,
    code: u16,
    headers: &[(&str, String)],
    body: &[u8],
    way: Way,
) -> io::Result<()> {
    write!(out, "HTTP/1.1 {code} {}\r\nContent-Type: application/json\r\n", reason(code))?;
    for (name, value) in headers {
        write!(out, "{name}: {value}\r\n")?;
    }
    write!(out, "Content-Length: {}\r\n\r\n", body.len())?;
    push(out, body, way, 0)
}

/// Begins an answer that goes on: it is sent in chunks.
pub(crate) fn begin_chunks(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    out.flush()
}

/// Sends a chunk, after `sent` bytes of the body went out.
pub(crate) fn chunk(out: &mut dyn Write, bytes: &[u8], way: Way, sent: usize) -> io::Result<()> {
    write!(out, "{:x}\r\n", bytes.len())?;
    push(out, bytes, way, sent)?;
    out.write_all(b"\r\n")?;
    out.flush()
}

/// Ends an answer in chunks.
pub(crate) fn end_chunks(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"0\r\n\r\n")?;
    out.flush()
}

fn push(out: &mut dyn Write, bytes: &[u8], way: Way, sent: usize) -> io::Result<()> {
    let allowed = way.cut_after.map_or(usize::MAX, |cut| cut.saturating_sub(sent));
    let part = &bytes[..bytes.len().min(allowed)];
    match way.pause {
        None => out.write_all(part)?,
        Some(pause) => {
            for piece in part.chunks(SLOW_PIECE) {
                out.write_all(piece)?;
                out.flush()?;
                std::thread::sleep(pause);
            }
        }
    }
    out.flush()?;
    if part.len() < bytes.len() { Err(io::Error::other("cut here, as the test wanted")) } else { Ok(()) }
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Internal Server Error",
    }
}
