//! A folder with manifests and a state, the program run in it, and expected outputs in files.
//!
//! `PORTWAY_BLESS=1` rewrites the files with what the program prints today.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use model::Config;
use model::time::Timestamp;
use observe::picture::Picture;
use standalone::control_plane::ControlPlane;
use standalone::ipam::{self, HostNetwork};
use standalone::manifests::Source;

/// A folder that goes when the test ends: `manifests/` in it is what `--from manifests` reads.
pub(crate) struct Place {
    folder: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("portway-cli-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("manifests")).unwrap();
        Self { folder }
    }

    /// A place with one manifest.
    pub(crate) fn with(text: &str) -> Self {
        let place = Self::new();
        place.write("services.yaml", text);
        place
    }

    /// A place with one of the repository's examples.
    pub(crate) fn with_example(name: &str) -> Self {
        Self::with(&std::fs::read_to_string(examples().join(name)).unwrap())
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.folder.join("manifests").join(name), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Has the Services of this place given their addresses, and remembered, as `portway run` does.
    pub(crate) fn remember(&self) {
        let options = ipam::Options {
            service_cidrs: vec!["10.96.0.0/12".parse().unwrap()],
            load_balancer_cidrs: Vec::new(),
            node_port_range: 30_000..=32_767,
            state_dir: self.state(),
            dry_run: false,
        };
        let control_plane =
            ControlPlane::open_on(&HostNetwork::default(), options, Timestamp(1_769_860_800)).unwrap();
        let mut source = Source::open(&[self.path("manifests")]).unwrap();
        Picture::new(Config::default(), control_plane, None).follow(&mut source).unwrap();
    }

    /// Runs portway on the manifests of this place.
    pub(crate) fn portway(&self, arguments: &str) -> Outcome {
        Self::run(self.command(arguments).args(["--from", "manifests"]))
    }

    /// Runs portway on the repository's examples.
    pub(crate) fn on_examples(&self, arguments: &str) -> Outcome {
        let mut command = self.command(arguments);
        Self::run(command.arg("--from").arg("examples").current_dir(examples().parent().unwrap()))
    }

    /// Runs portway with these arguments and no source.
    pub(crate) fn plain(&self, arguments: &str) -> Outcome {
        Self::run(&mut self.command(arguments))
    }

    /// portway with these arguments, not yet started.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portway"));
        command.args(arguments.split_whitespace()).arg("--state-dir").arg(self.state());
        command.current_dir(&self.folder).stdin(Stdio::null());
        for variable in ["PORTWAY_FROM", "NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(command: &mut Command) -> Outcome {
        let output = command.output().unwrap();
        Outcome {
            command: format!("{command:?}"),
            code: output.status.code().expect("portway is not ended by a signal"),
            out: String::from_utf8(output.stdout).expect("output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("errors are UTF-8"),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary folder is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    command: String,
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// It ended with this code.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }

    /// All is fine, and there is nothing to warn about: what it printed.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        let quiet = self.ends_with(0);
        assert_eq!(quiet.err, "", "{quiet}");
        quiet.out
    }

    /// It was refused with this code and a message that has these words, and printed nothing else.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) {
        let refused = self.ends_with(code);
        assert_eq!(refused.out, "", "{refused}");
        assert!(refused.err.starts_with("error: "), "{refused}");
        refused.complains(words);
    }

    /// Standard error has all these words.
    #[track_caller]
    pub(crate) fn complains(&self, words: &[&str]) {
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in standard error of {self}");
        }
    }

    /// Standard output has all these words.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.out.contains(word), "no {word:?} in standard output of {self}");
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\nended with {}\n--- standard output\n{}--- standard error\n{}",
            self.command, self.code, self.out, self.err
        )
    }
}

/// Compares with an expected output in `tests/golden`, or rewrites it.
#[track_caller]
pub(crate) fn golden(name: &str, actual: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("PORTWAY_BLESS").is_some() {
        std::fs::write(&file, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask bless` writes it", file.display()));
    assert_eq!(actual, expected, "{} differs; after review, `cargo xtask bless` rewrites it", file.display());
}

/// A creation time so many seconds ago, and half an hour, so that a slow test sees the same age.
pub(crate) fn created(days: i64, hours: i64) -> String {
    let ago = jiff::SignedDuration::from_secs(days * 86_400 + hours * 3600 + 1800);
    (jiff::Timestamp::now() - ago).to_string()
}

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}
