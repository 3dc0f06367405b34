//! Lines for the `ip` program, carried out in one run per namespace.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::error::{Error, Result, Trying};
use crate::namespace::Namespace;

/// Lines as `ip -batch` takes them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    lines: String,
}

impl Batch {
    pub(crate) fn add(&mut self, line: impl Into<String>) {
        self.lines.push_str(&line.into());
        self.lines.push('\n');
    }

    /// Stops at the first line that is refused; the error names it.
    pub(crate) fn run(self, namespace: &Namespace, place: &str) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let doing = || format!("run `ip` in `{place}`");
        let mut child = namespace.spawn(command).trying(doing)?;
        // An `ip` that ends early closes its input; what it says then is better than "broken pipe".
        let _closed = child.stdin.take().map(|mut input| input.write_all(self.lines.as_bytes()));
        let output = child.wait_with_output().trying(doing)?;
        if output.status.success() {
            return Ok(());
        }
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::Ip { place: place.into(), reason, batch: self.lines })
    }
}
