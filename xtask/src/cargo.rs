//! Talks to cargo: where the workspace is, where cargo builds to, and how cargo is called.
//!
//! In: what to build. Out: where it lies, by cargo's own word, which it gives as JSON.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder that holds the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable for whatever it runs; the built-in value serves a program started by hand.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().expect("xtask/ lies inside the workspace").to_owned()
}

/// The same cargo that runs us, in the workspace's root, with these arguments.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Whether cargo has this subcommand, such as `nextest` or `fmt`.
pub(crate) fn has_subcommand(name: &str) -> bool {
    cargo(&[name, "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The folder that cargo builds to, wherever `CARGO_TARGET_DIR` or a config file has put it.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let folder = metadata()?["target_directory"].as_str().map(PathBuf::from);
    folder.context("`cargo metadata` names no target folder")
}

/// What cargo says of the workspace.
pub(crate) fn metadata() -> Result<Value> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start `cargo metadata`")?;
    serde_json::from_slice(&output.stdout).context("`cargo metadata` prints no JSON")
}

/// Builds the program and the stage of the demo, and says where they lie. One call, so that what both use is built once.
pub(crate) fn build_demo() -> Result<(PathBuf, PathBuf)> {
    let chosen = ["--package", "portway", "--bin", "portway", "--package", "playground", "--example", "demo"];
    let arguments: Vec<&str> = ["--profile", "demo"].into_iter().chain(chosen).collect();
    let text = messages("build", &arguments)?;
    let found = |program: &str| {
        let paths = text.lines().filter_map(|line| string_field(line, "executable")).map(PathBuf::from);
        paths
            .into_iter()
            .find(|path| path.file_stem().is_some_and(|name| name == program))
            .with_context(|| format!("`cargo build {}` built no program `{program}`", arguments.join(" ")))
    };
    Ok((found("portway")?, found("demo")?))
}

/// Builds an integration test of any package, as `cargo test --workspace` does, and says where its program lies.
pub(crate) fn build_test(test: &str) -> Result<PathBuf> {
    let is_it =
        |path: &Path| path.file_stem().is_some_and(|name| is_test_program(&name.to_string_lossy(), test));
    build_with("test", &["--quiet", "--no-run", "--workspace", "--test", test], is_it)
}

/// A built test program.
#[derive(Clone, Debug)]
pub(crate) struct TestProgram {
    pub(crate) name: String,
    /// The folder of its package, where it is to run.
    pub(crate) folder: PathBuf,
    pub(crate) built: PathBuf,
}

/// Builds all test programs, as `cargo test --workspace` does.
pub(crate) fn build_tests() -> Result<Vec<TestProgram>> {
    let built = messages("test", &["--quiet", "--no-run", "--workspace", "--lib", "--bins", "--tests"])?;
    Ok(built.lines().filter_map(test_program).collect())
}

/// The test program that a message of cargo's is about.
fn test_program(json: &str) -> Option<TestProgram> {
    let object: Value = serde_json::from_str(json).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let folder = PathBuf::from(text(&object["manifest_path"])?).parent()?.to_owned();
    let program = TestProgram {
        name: text(&object["target"]["name"])?,
        folder,
        built: text(&object["executable"])?.into(),
    };
    (object["profile"]["test"] == true).then_some(program)
}

/// Builds a benchmark of a package (optimised), as `cargo bench` does, and says where its program lies.
pub(crate) fn build_bench(package: &str, bench: &str) -> Result<PathBuf> {
    let is_it =
        |path: &Path| path.file_stem().is_some_and(|name| is_test_program(&name.to_string_lossy(), bench));
    build_with("bench", &["--quiet", "--no-run", "--package", package, "--bench", bench], is_it)
}

/// Whether a file's name is the test's, followed by cargo's hash.
fn is_test_program(name: &str, test: &str) -> bool {
    let hash = name.strip_prefix(test).and_then(|rest| rest.strip_prefix('-'));
    hash.is_some_and(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn build_with(command: &str, arguments: &[&str], is_it: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    let text = messages(command, arguments)?;
    text.lines()
        .filter_map(|line| string_field(line, "executable"))
        .map(PathBuf::from)
        .find(|path| is_it(path))
        .with_context(|| format!("`cargo {command} {}` built no such program", arguments.join(" ")))
}

/// What cargo says of all that it has built.
fn messages(command: &str, arguments: &[&str]) -> Result<String> {
    let line = format!("`cargo {command} {}`", arguments.join(" "));
    let output = cargo(&[command, "--message-format", "json-render-diagnostics"])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {line}"))?;
    if !output.status.success() {
        bail!("{line} failed: see its messages above");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The text in a field of a JSON object; `None` where there is none.
fn string_field(json: &str, name: &str) -> Option<String> {
    let object: Value = serde_json::from_str(json).ok()?;
    object.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_field_is_found_with_its_escapes() {
        let json = r#"{"reason":"x","executable":"/a/\"b\"/portway","fresh":true,"filenames":null}"#;
        assert_eq!(string_field(json, "executable").as_deref(), Some("/a/\"b\"/portway"));
        assert_eq!(string_field(json, "filenames"), None);
        assert_eq!(string_field(json, "fresh"), None);
        assert_eq!(string_field(r#"{"executable":"/cut"#, "executable"), None);
    }

    #[test]
    fn a_test_program_runs_in_the_folder_of_its_package() {
        let message = |is_test: bool| {
            format!(
                r#"{{"manifest_path":"/w/p/Cargo.toml","target":{{"name":"t"}},"profile":{{"test":{is_test}}},"executable":"/w/t-1"}}"#
            )
        };
        let program = test_program(&message(true)).expect("it is one");
        assert_eq!(
            (&*program.name, program.folder.to_str(), program.built.to_str()),
            ("t", Some("/w/p"), Some("/w/t-1"))
        );
        assert!(test_program(&message(false)).is_none() && test_program("{}").is_none());
    }

    #[test]
    fn a_test_program_is_known_by_its_name_and_hash() {
        assert!(is_test_program("packets-dab1dd04378938a0", "packets"));
        for other in ["packets", "packets-more-dab1dd04378938a0", "other-dab1dd04378938a0"] {
            assert!(!is_test_program(other, "packets"), "{other}");
        }
    }

    #[test]
    fn the_root_is_the_workspace() {
        assert!(root().join("xtask/Cargo.toml").is_file());
    }
}
