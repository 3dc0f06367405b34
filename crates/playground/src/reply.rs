//! What a server says and what a client makes of it.
//!
//! A server's whole answer is one line: `web-a-0 10.244.1.10 saw 10.244.1.5:41234 to 10.244.1.10:8080`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// A server's answer: who it is, and whom it saw calling which address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reply {
    /// The server's place.
    pub server: String,
    /// The server's own address.
    pub address: IpAddr,
    /// The client, as the server saw it.
    pub saw: SocketAddr,
    /// The destination, as the server saw it.
    pub to: SocketAddr,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} saw {} to {}", self.server, self.address, self.saw, self.to)
    }
}

/// The line was not a server's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a server's answer")]
pub struct NotAReply(String);

impl FromStr for Reply {
    type Err = NotAReply;

    fn from_str(line: &str) -> Result<Self, NotAReply> {
        let parse = || {
            let mut words = line.split_whitespace();
            let (server, address) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
            let saw = (words.next()? == "saw").then(|| words.next()?.parse().ok())??;
            let to = (words.next()? == "to").then(|| words.next()?.parse().ok())??;
            words.next().is_none().then_some(Self { server, address, saw, to })
        };
        parse().ok_or_else(|| NotAReply(line.into()))
    }
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A server answered.
    Answered {
        /// What it said.
        reply: Reply,
        /// From the question to the answer.
        elapsed: Duration,
    },
    /// Somebody said no.
    Refused {
        /// In which words.
        refusal: Refusal,
        /// How long that took.
        elapsed: Duration,
    },
    /// Nobody said anything.
    TimedOut,
    /// A server accepted the connection, but did not answer in time: the way there is open, and the server or the client was too slow.
    Unanswered,
    /// Something else: an answer that is none, a connection cut in the middle, no free port here.
    Broken {
        /// What happened.
        what: String,
    },
}

/// In which words a question was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// TCP reset, or ICMP port unreachable: that is how a proxy rejects and how a closed port answers.
    Port,
    /// ICMP host or network unreachable, or prohibited: no such way. On links as fast as these the ICMP error
    /// of a TCP connect often comes while the socket is still busy sending, and the kernel then reports it
    /// only with the first retransmission, after a second: keep the limit above that. Resets are not delayed.
    Unreachable,
}

impl Outcome {
    /// The answer, if there was one.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Answered { reply, .. } => Some(reply),
            _ => None,
        }
    }

    /// The name of the server that answered.
    pub fn server(&self) -> Option<&str> {
        self.reply().map(|reply| reply.server.as_str())
    }

    /// Whether a server answered.
    pub fn is_answered(&self) -> bool {
        self.reply().is_some()
    }

    /// Whether it was refused as a closed port is (reset, or port unreachable).
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::Port, .. })
    }

    /// Whether nobody said anything, not even that the connection is accepted.
    pub fn is_timed_out(&self) -> bool {
        *self == Self::TimedOut
    }

    /// How it ended, in a word, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "answered",
            Self::Refused { refusal: Refusal::Port, .. } => "refused",
            Self::Refused { refusal: Refusal::Unreachable, .. } => "unreachable",
            Self::TimedOut => "timed out",
            Self::Unanswered => "unanswered",
            Self::Broken { .. } => "broken",
        }
    }

    pub(crate) fn of_line(line: &str, elapsed: Duration) -> Self {
        match line.parse() {
            Ok(reply) => Self::Answered { reply, elapsed },
            Err(error) => Self::Broken { what: error.to_string() },
        }
    }

    pub(crate) fn of_error(error: &io::Error, elapsed: Duration) -> Self {
        use io::ErrorKind as Kind;
        let refused = |refusal| Self::Refused { refusal, elapsed };
        match error.kind() {
            Kind::TimedOut | Kind::WouldBlock => Self::TimedOut,
            Kind::ConnectionRefused => refused(Refusal::Port),
            // IPv6 says "permission denied" for "administratively prohibited".
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::PermissionDenied => {
                refused(Refusal::Unreachable)
            }
            _ => Self::Broken { what: error.to_string() },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { reply, .. } => write!(f, "{reply}"),
            Self::Refused { refusal: Refusal::Port, elapsed } => write!(f, "refused after {elapsed:.1?}"),
            Self::Refused { elapsed, .. } => write!(f, "unreachable after {elapsed:.1?}"),
            Self::TimedOut => write!(f, "timed out"),
            Self::Unanswered => write!(f, "connected, but nobody answered in time"),
            Self::Broken { what } => write!(f, "broken: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_reads_as_it_was_written() {
        for line in [
            "web-a-0 10.244.1.10 saw 10.244.1.5:41234 to 10.244.1.10:8080",
            "web-b-1 fd00:10:244:2::11 saw [fd00:172::10]:1 to [fd00:10:244:2::11]:8080",
        ] {
            assert_eq!(line.parse::<Reply>().unwrap().to_string(), line);
        }
    }

    #[test]
    fn anything_else_is_no_reply() {
        for line in [
            "",
            "web",
            "web 1.2.3.4 saw x to y",
            "web 1.2.3.4 saw 1.1.1.1:1 from 2.2.2.2:2",
            "web 1.2.3.4 saw 1.1.1.1:1 to 2.2.2.2:2 and more",
        ] {
            assert!(line.parse::<Reply>().is_err(), "{line}");
        }
    }
}
