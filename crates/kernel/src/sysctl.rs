//! Settings of the kernel by name, such as `net/ipv4/vs/conntrack`.
//!
//! In: a name below `/proc/sys`, with slashes. Out: the value as text, without the line's end; `None` for a setting that this
//! kernel does not have.
//!
//! Those below `net` are of the calling thread's network namespace.

use std::collections::BTreeMap;
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

/// Settings in memory. What is not among them is no setting, and cannot be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Their values.
    pub values: BTreeMap<String, String>,
    /// If set, every writing fails with this reason.
    pub fault: Option<String>,
}

impl Simulated {
    /// These settings.
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self { values: values.into_iter().map(owned).collect(), fault: None }
    }
}

impl Sysctls for Simulated {
    fn read(&mut self, name: &str) -> Result<Option<String>> {
        Ok(self.values.get(name).cloned())
    }

    fn write(&mut self, name: &str, value: &str) -> Result<()> {
        let failed = |reason: String| Error { name: name.to_owned(), verb: set_to(value), reason };
        if let Some(reason) = &self.fault {
            return Err(failed(reason.clone()));
        }
        let missing = || failed("no such file or directory".to_owned());
        value.clone_into(self.values.get_mut(name).ok_or_else(missing)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there, what is not, and what cannot be written: on both.
    fn walk(settings: &mut impl Sysctls) {
        assert_eq!(settings.read("kernel/ostype").unwrap().as_deref(), Some("Linux"));
        assert_eq!(settings.read("kernel/no-such-setting").unwrap(), None);
        let error = settings.write("kernel/no-such-setting", "1").unwrap_err();
        let said = error.to_string();
        assert!(said.contains("`/proc/sys/kernel/no-such-setting` cannot be set to `1`"), "{said}");
    }

    #[test]
    fn settings_are_read_and_missing_ones_are_told() {
        walk(&mut ThisMachine);
        walk(&mut Simulated::new([("kernel/ostype", "Linux")]));
    }

    #[test]
    fn a_simulated_setting_keeps_what_was_written_unless_it_is_told_to_fail() {
        let mut settings = Simulated::new([("net/ipv4/vs/conntrack", "0")]);
        settings.write("net/ipv4/vs/conntrack", "1").unwrap();
        assert_eq!(settings.read("net/ipv4/vs/conntrack").unwrap().as_deref(), Some("1"));
        settings.fault = Some("read-only file system".to_owned());
        assert!(settings.write("net/ipv4/vs/conntrack", "0").is_err());
        assert_eq!(settings.values["net/ipv4/vs/conntrack"], "1");
    }

    mod needs_root {
        use super::*;
        use crate::namespace::Namespace;

        const NAME: &str = "net/ipv4/ip_default_ttl";

        #[test]
        fn root_settings_below_net_are_the_namespaces_own() {
            let Ok(namespace) = Namespace::create() else {
                return eprintln!("skipped: a network namespace of its own needs root");
            };
            let outside = ThisMachine.read(NAME).unwrap();
            let inside = namespace.run(|| {
                ThisMachine.write(NAME, "77").unwrap();
                ThisMachine.read(NAME).unwrap()
            });
            assert_eq!(inside.unwrap().as_deref(), Some("77"));
            assert_eq!(ThisMachine.read(NAME).unwrap(), outside);
        }
    }
}
