//! The program of a kubeconfig that makes our credentials (`users[].user.exec`): run with an end to its time.
//!
//! In: the program, its arguments and environment. Out: a token, or a certificate with its key, and until when they are good.
//! A program that has not ended in time is killed, with all that it started, and the error names it and its last words. kube would run it
//! too, but wait for it for ever.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::Config;
use kube::config::ExecConfig;
use serde::Deserialize;
use serde_json::json;

use crate::failure::Failure;
use crate::heard::Heard;

/// It may print so much.
const OUTPUT_MAX: usize = 1 << 20;
/// So much of what it says on standard error is kept.
const WORDS_MAX: usize = 4096;
/// So often it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(20);

/// What it prints.
#[derive(Debug, Deserialize)]
struct Printed {
    status: Option<Credentials>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Credentials {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<Timestamp>,
}

/// Puts what the program makes in the place of the program, if there is one. Until when that is good, where it says so.
///
/// It waits for the program, so it is for a thread that may.
pub(crate) fn run(config: &mut Config, patience: Duration) -> Result<Option<Timestamp>, Failure> {
    let Some(exec) = config.auth_info.exec.take() else { return Ok(None) };
    let name = exec.command.clone().unwrap_or_default();
    let wrong =
        |what: String| Failure::Access(format!("our account cannot be used: the program `{name}` {what}"));
    let made = ask(&exec, patience).map_err(wrong)?;
    if made.token.is_none() && made.client_certificate_data.is_none() {
        return Err(wrong("printed neither a token nor a certificate".to_owned()));
    }
    let account = &mut config.auth_info;
    if let Some(token) = made.token {
        account.token = Some(token.into());
    }
    if let Some((certificate, key)) = made.client_certificate_data.zip(made.client_key_data) {
        account.client_certificate_data = Some(base64(certificate));
        account.client_key_data = Some(base64(key).into());
    }
    Ok(made.expiration_timestamp)
}

/// What the program prints, or what is wrong with it, to be read after its name.
fn ask(exec: &ExecConfig, patience: Duration) -> Result<Credentials, String> {
    let mut child = command(exec)?.spawn().map_err(|error| match &exec.install_hint {
        Some(hint) => format!("cannot be started: {error}. {hint}"),
        None => format!("cannot be started: {error}"),
    })?;
    let printed = output(&mut child, patience)?;
    let printed: Printed =
        serde_json::from_slice(&printed).map_err(|error| format!("printed no ExecCredential: {error}"))?;
    printed.status.ok_or_else(|| "printed an ExecCredential without `status`".to_owned())
}

fn command(exec: &ExecConfig) -> Result<Command, String> {
    let program = exec.command.as_deref().filter(|program| !program.is_empty());
    let mut command = Command::new(program.ok_or("has no name: `command` is missing")?);
    command.args(exec.args.iter().flatten());
    let pair = |one: &std::collections::HashMap<String, String>| {
        Some((one.get("name")?.clone(), one.get("value")?.clone()))
    };
    command.envs(exec.env.iter().flatten().filter_map(pair));
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
    }
    let about = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    command.env("KUBERNETES_EXEC_INFO", about.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // So that it can be ended together with what it starts.
    command.process_group(0);
    Ok(command)
}

/// What a program prints until its end. One that does not come to it is killed.
fn output(child: &mut Child, patience: Duration) -> Result<Vec<u8>, String> {
    let (mut out, mut words) = match listened_to(child) {
        Ok(both) => both,
        Err(error) => {
            kill(child);
            return Err(format!("cannot be listened to: {error}"));
        }
    };
    let until = Instant::now() + patience;
    let status = loop {
        // What it has said before its end is there at its end.
        let status = child.try_wait();
        out.listen();
        words.listen();
        match status {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => thread::sleep(GLANCE),
            Ok(None) | Err(_) => {
                kill(child);
                let seconds = patience.as_secs_f32();
                return Err(format!(
                    "has not ended after {seconds:.1} s, and was killed{}",
                    words.last_words()
                ));
            }
        }
    };
    if !status.success() {
        return Err(format!("failed ({status}){}", words.last_words()));
    }
    out.all().map(<[u8]>::to_vec).ok_or_else(|| format!("printed more than {OUTPUT_MAX} bytes"))
}

fn listened_to(child: &mut Child) -> io::Result<(Heard<ChildStdout>, Heard<ChildStderr>)> {
    let (out, words) =
        child.stdout.take().zip(child.stderr.take()).ok_or_else(|| io::Error::other("it has no output"))?;
    Ok((Heard::of(out, OUTPUT_MAX)?, Heard::of(words, WORDS_MAX)?))
}

fn kill(child: &mut Child) {
    // One that has just ended needs no end; either way it is taken off the list of processes.
    let _ = kernel::signal::kill_group_of(child);
    let _ = child.kill().and_then(|()| child.wait());
}

/// A kubeconfig holds PEM in base64.
fn base64(text: String) -> String {
    match serde_json::to_value(ByteString(text.into_bytes())) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}
