//! What can go wrong between a program and the kernel, in words.
//!
//! In: an errno and, where the kernel gave one, its own sentence (the "extended ack").
//! Out: [`Error`], whose variants say whether trying again can help.

use std::fmt;

/// The result of everything that talks to the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// Why talking to the kernel failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed. Trying again helps only if something else changes first (privilege, memory).
    #[error("{action}: {errno}")]
    System {
        /// What we were doing.
        action: &'static str,
        /// What the kernel answered.
        errno: Errno,
    },
    /// The kernel refused one request. The same request will be refused again.
    #[error("the kernel refused to {action}: {refusal}")]
    Refused {
        /// What we asked for.
        action: String,
        /// What the kernel answered.
        refusal: Refusal,
    },
    /// A message did not hold what its lengths promise. Trying again may help; if not, the kernel speaks
    /// a dialect that we do not know.
    #[error("malformed netlink message: {what} at byte {offset}")]
    Malformed {
        /// Which promise was broken.
        what: &'static str,
        /// Where in the message.
        offset: usize,
    },
    /// The kernel had more to tell than the socket could hold, so something was lost.
    /// The caller reads everything anew.
    #[error("the kernel's messages overran the socket's buffer; some were lost")]
    Lost,
    /// The listing changed while it was read, several times in a row. Trying again later helps.
    #[error("listing {what} was interrupted by other writers {attempts} times in a row")]
    Interrupted {
        /// What was being listed.
        what: &'static str,
        /// How often it was tried.
        attempts: u32,
    },
    /// The kernel did not answer in time. Trying again may help.
    #[error("the kernel did not answer within {milliseconds} ms")]
    Silent {
        /// How long we waited.
        milliseconds: u128,
    },
}

impl Error {
    /// The error number, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::System { errno, .. } => Some(*errno),
            Self::Refused { refusal, .. } => Some(refusal.errno),
            _ => None,
        }
    }
}

/// The kernel's "no" to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error number.
    pub errno: Errno,
    /// The kernel's own sentence, if it gave one.
    pub text: Option<String>,
    /// Which byte of the request it objected to, if it said so.
    pub offset: Option<u32>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { errno, text: None, offset: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "{} (\"{text}\")", self.errno),
            None => self.errno.fmt(f),
        }
    }
}

/// Says that the kernel has no such subsystem, and what to do about it.
macro_rules! no_subsystem {
    ($what:literal, $module:literal) => {
        concat!(
            "this kernel has no ",
            $what,
            ": load the module `",
            $module,
            "` (`modprobe ",
            $module,
            "`), or use another mode"
        )
    };
}
pub(crate) use no_subsystem;

/// An error number, printed with its name and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Whoever asked may not ask.
    pub fn is_denial(self) -> bool {
        matches!(self.0, libc::EPERM | libc::EACCES)
    }

    /// The kernel has no such subsystem, or has not loaded it.
    pub fn is_no_subsystem(self) -> bool {
        matches!(self.0, libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT)
    }

    /// The name that manuals use, for the numbers that netlink answers with.
    pub fn name(self) -> &'static str {
        match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOENT => "ENOENT",
            libc::EINTR => "EINTR",
            libc::E2BIG => "E2BIG",
            libc::EAGAIN => "EAGAIN",
            libc::ENOMEM => "ENOMEM",
            libc::EACCES => "EACCES",
            libc::EBUSY => "EBUSY",
            libc::EEXIST => "EEXIST",
            libc::EINVAL => "EINVAL",
            libc::ENFILE => "ENFILE",
            libc::EMFILE => "EMFILE",
            libc::ERANGE => "ERANGE",
            libc::ELOOP => "ELOOP",
            libc::EMLINK => "EMLINK",
            libc::EOVERFLOW => "EOVERFLOW",
            libc::EMSGSIZE => "EMSGSIZE",
            libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EAFNOSUPPORT => "EAFNOSUPPORT",
            libc::ENOBUFS => "ENOBUFS",
            libc::ECONNREFUSED => "ECONNREFUSED",
            libc::ENODEV => "ENODEV",
            libc::ESRCH => "ESRCH",
            _ => "errno",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The standard library appends " (os error N)", which we say first and shorter.
        let meaning = std::io::Error::from_raw_os_error(self.0).to_string();
        let meaning = meaning.split(" (os error").next().unwrap_or_default().to_lowercase();
        match self.name() {
            "errno" => write!(f, "errno {}: {meaning}", self.0),
            name => write!(f, "{name}: {meaning}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_reads_as_name_and_meaning() {
        assert_eq!(Errno(libc::EBUSY).to_string(), "EBUSY: device or resource busy");
        assert_eq!(Errno(libc::EDOM).to_string(), "errno 33: numerical argument out of domain");
    }

    #[test]
    fn a_refusal_quotes_the_kernel() {
        let refusal =
            Refusal { errno: Errno(libc::ENOENT), text: Some("no such table".into()), offset: None };
        assert_eq!(refusal.to_string(), "ENOENT: no such file or directory (\"no such table\")");
    }
}
