//! Hands listening sockets to another process over a unix socket.
//!
//! In: sockets with their names. Out, at the other end: the same. A line for each, `end` after the last; files go beside
//! the lines, in the same order.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use kernel::pass;
use model::net::{Family, Protocol};
use model::{ServiceName, ServicePortId, name};

use super::{ListenerId, Purpose};

/// The first line: what follows, and in which form.
const GREETING: &str = "portway relay 1\n";
/// The last line.
const END: &str = "end\n";
/// More than this is not listened to: a hundred thousand listeners with long names fit.
const TEXT_MAX: usize = 64 << 20;

/// A socket that goes from one relay to another.
#[derive(Debug)]
pub struct Handed {
    /// What it is.
    pub what: What,
    /// The socket.
    pub socket: OwnedFd,
}

/// What a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// That of a listener.
    Listener(ListenerId),
    /// One that only holds a port.
    Held(SocketAddr, Protocol),
}

/// Hands sockets over. They stay open here too.
pub fn send(stream: &UnixStream, list: &[Handed]) -> io::Result<()> {
    send_all(stream, GREETING.as_bytes(), &[])?;
    for batch in list.chunks(pass::FILES_MAX) {
        let lines: String = batch.iter().map(|handed| line(&handed.what)).collect();
        let files: Vec<BorrowedFd<'_>> = batch.iter().map(|handed| handed.socket.as_fd()).collect();
        send_all(stream, lines.as_bytes(), &files)?;
    }
    send_all(stream, END.as_bytes(), &[])
}

fn send_all(stream: &UnixStream, mut bytes: &[u8], mut files: &[BorrowedFd<'_>]) -> io::Result<()> {
    while !bytes.is_empty() {
        match pass::send(stream, bytes, files) {
            Ok(count) => (bytes, files) = (&bytes[count..], &[]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes over what another relay hands on.
pub fn receive(stream: &UnixStream) -> io::Result<Vec<Handed>> {
    let mut heard = Heard::default();
    if heard.listen(stream)? { heard.understand() } else { Err(ErrorKind::TimedOut.into()) }
}

/// What was said on a line so far, with the files that came beside it.
#[derive(Debug, Default)]
pub struct Heard {
    text: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Heard {
    /// Listens until all is said, or the line has ended. False if there is nothing to hear now, on a line that does not wait.
    pub fn listen(&mut self, stream: &UnixStream) -> io::Result<bool> {
        let mut room = vec![0; 64 << 10];
        while !self.is_whole() {
            match pass::receive(stream, &mut room) {
                Ok((0, _)) => break,
                Ok((count, files)) => {
                    self.text.extend_from_slice(&room[..count]);
                    self.files.extend(files);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
            if self.text.len() > TEXT_MAX {
                return Err(not_understood("it does not end"));
            }
        }
        Ok(true)
    }

    /// What was said, if it is something else than what [`send`] says. Empty if nothing was.
    pub fn other_words(&self) -> Option<String> {
        let is_ours = self.text.starts_with(GREETING.as_bytes());
        (!is_ours).then(|| String::from_utf8_lossy(&self.text).trim().to_owned())
    }

    /// What [`send`] has said.
    pub fn understand(self) -> io::Result<Vec<Handed>> {
        understand(&self.text, self.files)
    }

    fn is_whole(&self) -> bool {
        let is_ours = self.text.starts_with(GREETING.as_bytes());
        is_ours && self.text.strip_suffix(END.as_bytes()).is_some_and(|before| before.ends_with(b"\n"))
    }
}

fn understand(text: &[u8], files: Vec<OwnedFd>) -> io::Result<Vec<Handed>> {
    let text = str::from_utf8(text).map_err(|_| not_understood("it is no text"))?;
    let lines = text.strip_prefix(GREETING).and_then(|rest| rest.strip_suffix(END));
    let lines: Vec<&str> = lines.ok_or_else(|| not_understood("it is of another version"))?.lines().collect();
    if lines.len() != files.len() {
        return Err(not_understood("files are missing"));
    }
    let read = |(line, socket): (&str, OwnedFd)| {
        let what = parse(line).ok_or_else(|| not_understood(&format!("`{line}`")))?;
        Ok(Handed { what, socket })
    };
    lines.into_iter().zip(files).map(read).collect()
}

fn not_understood(why: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("what the other portway hands over is not understood: {why}"),
    )
}

fn line(what: &What) -> String {
    match what {
        What::Listener(ListenerId { port, family, purpose }) => {
            let ServicePortId { service, port, protocol } = port;
            format!("listener {service}:{port} {protocol} {family} {purpose}\n")
        }
        What::Held(at, protocol) => format!("held {at} {protocol}\n"),
    }
}

fn parse(line: &str) -> Option<What> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["listener", port, protocol, family, purpose] => {
            let port = parse_port(port, Protocol::parse(protocol)?)?;
            let family = Family::ALL.into_iter().find(|known| known.to_string() == family)?;
            let purposes = [Purpose::Cluster, Purpose::Outside, Purpose::Localhost];
            let purpose = purposes.into_iter().find(|known| known.to_string() == purpose)?;
            Some(What::Listener(ListenerId { port, family, purpose }))
        }
        ["held", at, protocol] => Some(What::Held(at.parse().ok()?, Protocol::parse(protocol)?)),
        _ => None,
    }
}

fn parse_port(text: &str, protocol: Protocol) -> Option<ServicePortId> {
    let (service, port) = text.split_once(':')?;
    let (namespace, service) = service.split_once('/')?;
    let is_fine = name::is_acceptable(namespace) && name::is_acceptable(service);
    (is_fine && (port.is_empty() || name::is_acceptable(port))).then(|| ServicePortId {
        service: ServiceName::new(namespace, service),
        port: port.into(),
        protocol,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn listener(port: &str, family: Family, purpose: Purpose) -> What {
        let port = parse_port(port, Protocol::Tcp).unwrap();
        What::Listener(ListenerId { port, family, purpose })
    }

    #[test]
    fn names_survive_the_way() {
        for what in [
            listener("default/web:http", Family::V4, Purpose::Cluster),
            listener("kube-system/dns:", Family::V6, Purpose::Outside),
            listener("a/b:c", Family::V4, Purpose::Localhost),
            What::Held("[::1]:30080".parse().unwrap(), Protocol::Udp),
        ] {
            assert_eq!(parse(line(&what).trim_end()), Some(what));
        }
    }

    #[test]
    fn a_thousand_sockets_arrive_in_order() {
        let (here, there) = UnixStream::pair().unwrap();
        let list: Vec<Handed> = (1..=1000)
            .map(|port| Handed {
                what: What::Held(SocketAddr::from(([127, 0, 0, 1], port)), Protocol::Tcp),
                socket: File::open("/dev/null").unwrap().into(),
            })
            .collect();
        let got = std::thread::scope(|scope| {
            scope.spawn(|| send(&here, &list).unwrap());
            receive(&there).unwrap()
        });
        assert!(got.iter().map(|handed| &handed.what).eq(list.iter().map(|handed| &handed.what)));
    }

    #[test]
    fn what_is_no_list_is_refused_in_words() {
        for (text, said) in [
            ("portway relay 2\nend\n", "another version"),
            ("portway relay 1\nheld 127.0.0.1:80 tcp\nend\n", "files are missing"),
            ("portway relay 1\nend\nend\n", "files are missing"),
        ] {
            let error = understand(text.as_bytes(), Vec::new()).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        assert_eq!(parse("listener a$b/c:x tcp IPv4 cluster"), None);
        assert_eq!(parse("held nowhere tcp"), None);
    }
}
