//! Settings of a kernel in memory, which can be told to fail.

use std::collections::BTreeMap;

use kernel::sysctl::{Error, Result, Sysctls};

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
        let failed =
            |reason: String| Error { name: name.to_owned(), verb: format!("set to `{value}`"), reason };
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

    #[test]
    fn a_simulated_setting_keeps_what_was_written_unless_it_is_told_to_fail() {
        let mut settings = Simulated::new([("net/ipv4/vs/conntrack", "0")]);
        settings.write("net/ipv4/vs/conntrack", "1").unwrap();
        assert_eq!(settings.read("net/ipv4/vs/conntrack").unwrap().as_deref(), Some("1"));
        settings.fault = Some("read-only file system".to_owned());
        assert!(settings.write("net/ipv4/vs/conntrack", "0").is_err());
        assert_eq!(settings.values["net/ipv4/vs/conntrack"], "1");
    }
}
