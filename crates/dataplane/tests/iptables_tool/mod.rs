//! One of the iptables programs, in a network namespace of its own.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use kernel::xtables::Table;
use model::Family;
use playground::namespace::Namespace;

/// Both of them.
pub(crate) const VARIANTS: [&str; 2] = ["nft", "legacy"];

/// A program and where it runs.
pub(crate) struct Tool {
    pub(crate) namespace: Namespace,
    variant: &'static str,
    family: Family,
}

impl Tool {
    /// The error says why it cannot be tried here.
    pub(crate) fn new(variant: &'static str, family: Family) -> Result<Self, String> {
        let namespace = Namespace::create().map_err(|error| format!("no network namespace: {error}"))?;
        let tool = Self { namespace, variant, family };
        tool.restore(&["--noflush"], "*filter\nCOMMIT\n*nat\nCOMMIT\n*mangle\nCOMMIT\n")?;
        Ok(tool)
    }

    pub(crate) fn restore(&self, arguments: &[&str], text: &str) -> Result<(), String> {
        self.iptables("restore", arguments, text).map(|_| ())
    }

    pub(crate) fn save(&self, table: Table) -> Result<String, String> {
        let output = self.iptables("save", &["-t", table.name()], "")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn iptables(&self, what: &str, arguments: &[&str], text: &str) -> Result<Output, String> {
        let family = if self.family == Family::V4 { "iptables" } else { "ip6tables" };
        self.run(&format!("{family}-{}-{what}", self.variant), arguments, text)
    }

    /// Runs a program inside; the error is what it said.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], text: &str) -> Result<Output, String> {
        let run = || {
            let mut command = Command::new(program);
            let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = piped.args(arguments).spawn()?;
            child.stdin.take().expect("it is piped").write_all(text.as_bytes())?;
            child.wait_with_output()
        };
        let output = self.namespace.run(run).and_then(|output| output);
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(output) } else { Err(format!("{program}: {said}")) }
    }
}
