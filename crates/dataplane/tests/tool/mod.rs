//! One of the iptables programs, in a network namespace of its own.

#![allow(dead_code, reason = "each test uses its part")]

use std::process::Command;

use kernel::xtables::Table;
use model::Family;
use playground::namespace::Namespace;

/// Both of them.
pub(crate) const VARIANTS: [&str; 2] = ["nft", "legacy"];

/// A program and where it runs.
pub(crate) struct Tool {
    pub(crate) namespace: Namespace,
    program: String,
}

impl Tool {
    /// The error says why it cannot be tried here.
    pub(crate) fn new(variant: &str, family: Family) -> Result<Self, String> {
        let namespace = Namespace::create().map_err(|error| format!("no network namespace: {error}"))?;
        let name = if family == Family::V4 { "iptables" } else { "ip6tables" };
        let tool = Self { namespace, program: format!("{name}-{variant}") };
        tool.restore("--noflush", "*filter\nCOMMIT\n*nat\nCOMMIT\n*mangle\nCOMMIT\n")?;
        Ok(tool)
    }

    pub(crate) fn restore(&self, options: &str, text: &str) -> Result<(), String> {
        self.run(&format!("{}-restore {options}", self.program), text).map(drop)
    }

    pub(crate) fn save(&self, table: Table) -> Result<String, String> {
        self.run(&format!("{}-save -t {table}", self.program), "")
    }

    /// Runs a command inside, which reads `text`: what it printed; the error is what it said.
    pub(crate) fn run(&self, command: &str, text: &str) -> Result<String, String> {
        let script = format!("printf %s \"$0\" | {command}");
        let output = self.namespace.run(|| Command::new("sh").args(["-c", &script, text]).output());
        let output = output.and_then(|output| output).map_err(|error| format!("{command}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_done = output.status.success();
        if is_done { Ok(text(&output.stdout)) } else { Err(format!("{command}: {}", text(&output.stderr))) }
    }
}
