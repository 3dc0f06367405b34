//! Commands that only read: they show what `portway run` gave or would give, and leave every file as it is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::harness::{Outcome, Place};

const COMMANDS: [&str; 12] = [
    "get services -o wide",
    "get endpoints",
    "get routes",
    "describe service web",
    "explain 10.244.1.5 10.96.0.42:80",
    "check",
    "render",
    "diff",
    "doctor",
    "status",
    "completions bash",
    "--help",
];

/// Two Services that name nothing they are given.
const SERVICES: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, clusterIP: 10.96.0.42, ports: [{port: 80, nodePort: 30042}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: dns}, spec: {ports: [{port: 53, protocol: UDP}]}}
";
/// The same, as they are when an operator has taken the wishes out: what they have is only in the state folder.
const WITHOUT_WISHES: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: dns}, spec: {ports: [{port: 53, protocol: UDP}]}}
";

/// A user who owns nothing here.
const STRANGER: u32 = 65534;

/// Mode, time of the last change, and content.
type Entry = (u32, SystemTime, Vec<u8>);

/// Everything in a folder and below it.
fn listing(dir: &Path, entries: &mut BTreeMap<PathBuf, Entry>) {
    let found = fs::symlink_metadata(dir).unwrap();
    let content = if found.is_file() { fs::read(dir).unwrap() } else { Vec::new() };
    entries.insert(dir.to_owned(), (found.mode(), found.modified().unwrap(), content));
    if found.is_dir() {
        for entry in fs::read_dir(dir).unwrap() {
            listing(&entry.unwrap().path(), entries);
        }
    }
}

fn all_in(place: &Place) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    listing(&place.path(""), &mut entries);
    entries
}

/// A place in which `portway run` has served these Services, which name nothing any more.
fn served() -> Place {
    let place = Place::with(SERVICES);
    place.remember();
    place.write("services.yaml", WITHOUT_WISHES);
    place
}

/// portway of a user whose folders are all in this place.
fn at_home(place: &Place, arguments: &str) -> Command {
    let mut command = place.command(arguments);
    command.env("HOME", place.path("home")).env("TMPDIR", place.path("tmp"));
    for (variable, folder) in
        [("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "config")]
    {
        command.env(variable, place.path("home").join(folder));
    }
    command.arg("--run-dir").arg(place.path("run"));
    command
}

fn on_manifests(place: &Place, arguments: &str) -> Command {
    let mut command = at_home(place, arguments);
    let knows_sources = !["status", "completions", "--help"].iter().any(|word| arguments.starts_with(word));
    if knows_sources {
        command.args(["--from", "manifests"]);
    }
    command
}

#[test]
fn no_command_that_reads_changes_a_file_or_a_folder() {
    let place = served();
    for folder in ["home", "run", "tmp"] {
        fs::create_dir(place.path(folder)).unwrap();
        fs::write(place.path(folder).join("kept"), folder).unwrap();
    }
    let before = all_in(&place);
    assert!(before.keys().any(|path| path.ends_with("state/allocations.log")));
    for arguments in COMMANDS {
        let said = Place::run(&mut on_manifests(&place, arguments));
        assert!(!said.err.contains("malformed"), "{said}");
        assert_eq!(all_in(&place), before, "{said}");
    }
}

#[test]
fn no_command_that_reads_makes_a_file_or_a_folder() {
    let place = Place::with(WITHOUT_WISHES);
    let before = all_in(&place);
    assert!(!place.state().exists());
    for arguments in COMMANDS {
        let said = Place::run(&mut on_manifests(&place, arguments));
        assert_eq!(all_in(&place), before, "{said}");
    }
}

#[test]
fn what_the_daemon_gave_is_shown() {
    let place = served();
    let said = place.portway("get services").ends_with(0);
    said.says(&["10.96.0.42", "80:30042/TCP"]);
    place.portway("describe service web").ends_with(0).says(&["10.96.0.42", "30042"]);
    place.portway("explain 10.244.1.5 10.96.0.42:80").ends_with(0).says(&["default/web"]);
    place.portway("render").ends_with(0).says(&["10.96.0.42"]);
}

#[test]
fn a_query_of_other_files_frees_nothing_and_shows_nothing_that_the_real_ones_have() {
    let place = Place::with(SERVICES);
    place.remember();
    let real = place.portway("get services -o yaml").fine();
    place.write(
        "services.yaml",
        SERVICES.replace("name: web", "name: thief").replace("name: dns", "name: other"),
    );
    let said = place.portway("get services").ends_with(0);
    assert!(!said.out.contains("10.96.0.42") && !said.out.contains("30042"), "{said}");
    place.portway("check").ends_with(1).says(&["Service default/thief", "belongs to Service default/web"]);
    place.write("services.yaml", SERVICES);
    place.remember();
    assert_eq!(place.portway("get services -o yaml").fine(), real);
}

#[test]
fn what_is_shown_before_the_first_run_is_what_the_run_gives() {
    let place = Place::with(WITHOUT_WISHES);
    let addresses = || {
        let list = place.portway("get services -o json").ends_with(0).json();
        let specs = list["items"].as_array().unwrap().iter().map(|service| service["spec"].clone());
        specs.collect::<Vec<_>>()
    };
    let before = addresses();
    place.remember();
    assert_eq!(addresses(), before);
}

#[test]
fn a_command_that_reads_answers_at_once_while_another_process_holds_the_lock() {
    let place = served();
    let _held = ["lock", "in-use"].map(|name| {
        let file = File::open(place.state().join(name)).unwrap();
        file.lock().unwrap();
        file
    });
    let started = Instant::now();
    for arguments in ["get services", "describe service web", "check", "render"] {
        place.portway(arguments).fine();
    }
    let took = started.elapsed();
    assert!(took < playground::patient(Duration::from_secs(20)), "{took:?}");
}

#[test]
fn where_the_state_folder_cannot_be_read_one_warning_says_what_that_means() {
    let place = Place::with(WITHOUT_WISHES);
    fs::write(place.state(), "a file stands here").unwrap();
    for arguments in ["get services", "describe service web", "check", "render"] {
        let said = place.portway(arguments).ends_with(0);
        assert_eq!(said.err.lines().count(), 1, "{said}");
        said.complains(&["warning: cannot look at ", "the addresses shown may differ", "`--state-dir`"]);
    }
}

mod needs_root {
    use super::*;

    /// portway of a user who is not root and may write nowhere.
    fn as_stranger(place: &Place, program: &Path, arguments: &str) -> Outcome {
        as_stranger_with(place, program, arguments, |_| true)
    }

    /// The same, with some of the arguments.
    fn as_stranger_with(
        place: &Place,
        program: &Path,
        arguments: &str,
        is_wanted: impl Fn(&OsStr) -> bool,
    ) -> Outcome {
        let command = on_manifests(place, arguments);
        let mut other = Command::new(program);
        other.args(command.get_args().filter(|argument| is_wanted(argument)));
        other.current_dir(place.path("")).uid(STRANGER).gid(STRANGER);
        other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        for variable in ["PORTWAY_FROM", "RUST_LOG"] {
            other.env_remove(variable);
        }
        Place::run(&mut other)
    }

    /// A place with a home that its owner may not write to, and a program that everybody may start.
    #[expect(clippy::print_stderr, reason = "the summary takes the reason of a skipped test from there")]
    fn with_read_only_home() -> Option<(Place, PathBuf)> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            eprintln!("skipped: becoming another user needs root");
            return None;
        }
        let (place, program) = (served(), PathBuf::from(env!("CARGO_BIN_EXE_portway")));
        fs::create_dir(place.path("home")).unwrap();
        chown(place.path("home"), Some(STRANGER), Some(STRANGER)).unwrap();
        fs::set_permissions(place.path("home"), Permissions::from_mode(0o555)).unwrap();
        let mut version = Command::new(&program);
        if version.arg("--version").uid(STRANGER).gid(STRANGER).output().is_ok() {
            return Some((place, program));
        }
        // It lies where only root may look.
        let copy = place.path("portway");
        fs::copy(&program, &copy).unwrap();
        Some((place, copy))
    }

    #[test]
    fn a_user_with_a_read_only_home_is_shown_what_may_be_read() {
        let Some((place, program)) = with_read_only_home() else { return };
        fs::set_permissions(place.state(), Permissions::from_mode(0o555)).unwrap();
        let log = place.state().join("allocations.log");
        fs::set_permissions(log, Permissions::from_mode(0o444)).unwrap();
        let before = all_in(&place);
        let said = as_stranger(&place, &program, "get services");
        said.says(&["10.96.0.42", "80:30042/TCP"]);
        said.fine();
        for arguments in ["describe service web", "explain 10.244.1.5 10.96.0.42:80", "check", "render"] {
            as_stranger(&place, &program, arguments).fine();
        }
        assert_eq!(all_in(&place), before);
    }

    #[test]
    fn a_user_who_may_not_read_the_state_folder_is_told_that_addresses_may_differ() {
        let Some((place, program)) = with_read_only_home() else { return };
        let before = all_in(&place);
        for arguments in ["get services", "describe service web", "check", "render"] {
            let said = as_stranger(&place, &program, arguments).ends_with(0);
            assert_eq!(said.err.lines().count(), 1, "{said}");
            said.complains(&[
                "Permission denied",
                "the addresses shown may differ",
                "Run as the owner of the folder",
            ]);
        }
        let said = as_stranger(&place, &program, "get services").ends_with(0);
        said.says(&["web", "dns", "NodePort"]);
        assert_eq!(all_in(&place), before);
    }

    #[test]
    fn a_user_without_a_state_folder_needs_none() {
        let Some((place, program)) = with_read_only_home() else { return };
        fs::remove_dir_all(place.state()).unwrap();
        let before = all_in(&place);
        for arguments in ["get services", "describe service web", "check", "render"] {
            as_stranger(&place, &program, arguments).fine();
        }
        // Without `--state-dir`, the folder of root's portway is looked at, which this machine may have.
        let is_wanted = |argument: &OsStr| argument != "--state-dir" && argument != place.state();
        let said = as_stranger_with(&place, &program, "get services", is_wanted).ends_with(0);
        said.says(&["web", "dns"]);
        assert!(said.err.is_empty() || said.err.contains("/var/lib/portway"), "{said}");
        assert_eq!(all_in(&place), before);
    }
}
