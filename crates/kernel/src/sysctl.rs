//! Settings of the kernel by name, such as `net/ipv4/vs/conntrack`.
//!
//! In: a name below `/proc/sys`, with slashes. Out: the value as text, without the line's end; `None` for a setting that this
//! kernel does not have.
//!
//! Those below `net` are of the calling thread's network namespace.

use std::io::{self, ErrorKind};

/// The result of reading or writing a setting.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a setting could not be read or written. Trying again does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's setting `/proc/sys/{name}` cannot be {verb}: {reason}")]
pub struct Error {
    /// Which setting.
    pub name: String,
    /// `read`, or what it was to be set to.
    pub verb: String,
    /// What the kernel said.
    pub reason: String,
}

/// The settings of a kernel: this machine's, or simulated ones.
pub trait Sysctls {
    /// The value of a setting; `None` if there is no such setting.
    fn read(&mut self, name: &str) -> Result<Option<String>>;

    /// Gives a setting a value.
    fn write(&mut self, name: &str, value: &str) -> Result<()>;
}

/// The settings of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Sysctls for ThisMachine {
    fn read(&mut self, name: &str) -> Result<Option<String>> {
        match std::fs::read_to_string(path(name)) {
            Ok(value) => Ok(Some(value.trim_end().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(name, "read".to_owned(), &error)),
        }
    }

    fn write(&mut self, name: &str, value: &str) -> Result<()> {
        std::fs::write(path(name), value).map_err(|error| failed(name, set_to(value), &error))
    }
}

fn path(name: &str) -> String {
    format!("/proc/sys/{name}")
}

fn set_to(value: &str) -> String {
    format!("set to `{value}`")
}

fn failed(name: &str, verb: String, error: &io::Error) -> Error {
    Error { name: name.to_owned(), verb, reason: error.to_string() }
}
