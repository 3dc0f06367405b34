//! Asks a health check over HTTP, as load balancers do: what counts is the status code.

use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::client::read_line;
use crate::patience::patient;
use crate::place::Place;

/// The status code that is answered there; `None` when nobody listens or nothing comes in time.
pub fn status(from: &Place, at: SocketAddr, limit: Duration) -> Option<u16> {
    from.run(|| status_here(at, limit)).ok()?.ok()
}

/// The same, from the namespace that the calling thread is in.
pub(crate) fn status_here(at: SocketAddr, limit: Duration) -> io::Result<u16> {
    let limit = patient(limit);
    let mut stream = TcpStream::connect_timeout(&at, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    code(&read_line(&mut BufReader::new(stream))?)
}

/// `HTTP/1.1 200 OK` is 200.
fn code(line: &str) -> io::Result<u16> {
    let mut words = line.split_whitespace();
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/"));
    let code = words.next().and_then(|word| word.parse().ok()).filter(|_| is_http);
    code.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` is no status line")))
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn a_status_line_has_a_code() {
        assert_eq!(code("HTTP/1.1 200 OK\r\n").unwrap(), 200);
        assert_eq!(code("HTTP/1.0 503 Service Unavailable").unwrap(), 503);
        for line in ["", "200", "HTTP/1.1", "HTTP/1.1 OK", "web-a-0 200 saw"] {
            assert!(code(line).is_err(), "{line}");
        }
    }
}
