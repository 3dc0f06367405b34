//! A client that knows just enough HTTP, written without that of the servers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Everything that is waited for comes within this time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let mut lines = head.lines();
        let code = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: Vec<_> = lines.filter_map(header).collect();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Self { code, body: if is_chunked { unchunked(body) } else { body.to_owned() }, headers }
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    body
}

/// Asks once.
pub(crate) fn ask(at: SocketAddr, path: &str) -> Answer {
    send(at, &format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
}

/// Sends these bytes; what comes until the other end closes.
pub(crate) fn send(at: SocketAddr, text: &str) -> Answer {
    let mut stream = connect(at);
    stream.write_all(text.as_bytes()).unwrap();
    Answer::parse(&read(&mut stream))
}

pub(crate) fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

pub(crate) fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&at, DEADLINE).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// A port that nobody has. Tests run in processes of their own, so each begins to look elsewhere.
pub(crate) fn free_port(ip: &str) -> SocketAddr {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "it is not so that {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
