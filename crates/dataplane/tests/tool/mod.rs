//! One of the iptables programs, in a network namespace of its own.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::Write;
use std::process::{Command, Stdio};

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
        self.run(&self.program("restore"), arguments, text).map(drop)
    }

    pub(crate) fn save(&self, table: Table) -> Result<String, String> {
        self.run(&self.program("save"), &["-t", table.name()], "")
    }

    fn program(&self, what: &str) -> String {
        let family = if self.family == Family::V4 { "iptables" } else { "ip6tables" };
        format!("{family}-{}-{what}", self.variant)
    }

    /// Runs a program inside: what it printed; the error is what it said.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], text: &str) -> Result<String, String> {
        let run = || {
            let mut command = Command::new(program);
            let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = piped.args(arguments).spawn()?;
            child.stdin.take().expect("it is piped").write_all(text.as_bytes())?;
            child.wait_with_output()
        };
        let output = self.namespace.run(run).and_then(|output| output);
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_done = output.status.success();
        if is_done { Ok(text(&output.stdout)) } else { Err(format!("{program}: {}", text(&output.stderr))) }
    }
}
