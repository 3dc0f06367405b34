//! Programs of a kubeconfig that make our token: when they are run, and what is told and ended when they fail or hang.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use apiserver::{Access, KubeconfigFile, Pace, Watched};
use mockapi::{User, kubeconfig};

use crate::accounts::{rotate, server};
use crate::listener::{Folder, Listener, quick};

/// A program that is complete as soon as it is there.
fn write_program(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, path).unwrap();
}

/// A client that gives a program half a second.
fn impatient(path: PathBuf) -> Listener {
    let pace = Pace { answer: Duration::from_millis(500), ..quick() };
    Listener::start(Access::Kubeconfig { file: KubeconfigFile::of_flag(path), master: None }, pace)
}

#[test]
fn a_program_makes_the_token_and_makes_another_one_when_it_expires() {
    let (server, folder) = (server(), Folder::new());
    let (program, token) = (folder.0.join("login"), folder.0.join("token"));
    fs::write(&token, "first").unwrap();
    let text = format!(
        "#!/bin/sh\nprintf '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"%s\"}}}}' \
         \"$(cat {})\"\n",
        token.display()
    );
    write_program(&program, &text);
    server.accept_tokens(&["first"]);
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until_services(&["web"]);
    fs::write(&token, "second").unwrap();
    rotate(&server, "second");
    seen.until_services(&["db", "web"]);
}

#[test]
fn a_program_that_fails_is_trouble_and_is_run_again() {
    let (server, folder) = (server(), Folder::new());
    let path = kubeconfig(&server, &User::Exec(folder.0.join("missing")), &folder.0).unwrap();
    let mut seen = Listener::with_kubeconfig(path);
    seen.until_trouble("our account cannot be used");
    let text = "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"x\"}}'\n";
    write_program(&folder.0.join("missing"), text);
    seen.until_services(&["web"]);
}

#[test]
fn a_program_that_hangs_is_killed_and_named() {
    let (server, folder) = (server(), Folder::new());
    let (program, pids) = (folder.0.join("login"), folder.0.join("pids"));
    write_program(&program, &format!("#!/bin/sh\necho $$ >> {}\nexec sleep 1000\n", pids.display()));
    let path = kubeconfig(&server, &User::Exec(program.clone()), &folder.0).unwrap();
    let mut seen = impatient(path);
    let trouble = seen.until_trouble("has not ended after 0.5 s, and was killed");
    assert!(trouble.reason.contains(&format!("the program `{}`", program.display())), "{}", trouble.reason);
    let pids = fs::read_to_string(&pids).unwrap();
    let first = pids.lines().next().unwrap();
    assert!(!fs::exists(format!("/proc/{first}")).unwrap(), "{first} is still there");
    write_program(&program, "#!/bin/sh\necho '{\"status\":{\"token\":\"x\"}}'\n");
    seen.until_services(&["web"]);
}

#[test]
fn one_run_of_a_program_that_hangs_is_told_to_all_kinds() {
    let (server, folder) = (server(), Folder::new());
    let (program, runs) = (folder.0.join("login"), folder.0.join("runs"));
    write_program(&program, &format!("#!/bin/sh\necho run >> {}\nexec sleep 1000\n", runs.display()));
    let mut seen = impatient(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until("all four have failed", |seen| {
        Watched::ALL.iter().all(|of| seen.troubles.iter().any(|trouble| trouble.of == *of))
    });
    assert_eq!(fs::read_to_string(&runs).unwrap(), "run\n");
}

#[test]
fn a_program_that_fails_is_run_once_a_second_and_its_last_words_are_told() {
    let (server, folder) = (server(), Folder::new());
    let (program, runs) = (folder.0.join("login"), folder.0.join("runs"));
    let text = "echo trying >&2\necho 'no session: log in first' >&2\nexit 3";
    write_program(&program, &format!("#!/bin/sh\necho run >> {}\n{text}\n", runs.display()));
    let begun = Instant::now();
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until_trouble("failed (exit status: 3); its last words: `no session: log in first`");
    seen.until("many failures", |seen| seen.troubles.len() >= 60);
    let runs = fs::read_to_string(&runs).unwrap().lines().count();
    assert!(runs as u64 <= begun.elapsed().as_secs() + 1, "{runs} runs in {:?}", begun.elapsed());
}

#[test]
fn a_program_that_hangs_is_killed_with_what_it_started() {
    let (server, folder) = (server(), Folder::new());
    let (program, pids) = (folder.0.join("login"), folder.0.join("pids"));
    let text = format!("sleep 1000 &\necho $! >> {}\necho 'open a browser' >&2\nwait", pids.display());
    write_program(&program, &format!("#!/bin/sh\n{text}\n"));
    let mut seen = impatient(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until_trouble("and was killed; its last words: `open a browser`");
    let pids = fs::read_to_string(&pids).unwrap();
    let first = pids.lines().next().unwrap();
    // One that has ended has no command line, also before anybody has waited for it.
    let lives = || fs::read(format!("/proc/{first}/cmdline")).is_ok_and(|line| !line.is_empty());
    let deadline = Instant::now() + Duration::from_secs(10);
    while lives() && Instant::now() < deadline {
        thread::park_timeout(Duration::from_millis(10));
    }
    assert!(!lives(), "{first} is still there");
}

#[test]
fn a_program_that_never_stops_talking_is_killed() {
    let (server, folder) = (server(), Folder::new());
    let program = folder.0.join("login");
    write_program(&program, "#!/bin/sh\nyes no >&2\n");
    let mut seen = impatient(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until_trouble("has not ended after 0.5 s, and was killed; its last words: `no`");
}

/// As one that leaves an agent behind does, at every renewal.
#[test]
fn what_a_program_leaves_behind_with_its_output_open_is_no_trouble_and_costs_nothing() {
    let (server, folder) = (server(), Folder::new());
    let (program, pids) = (folder.0.join("login"), folder.0.join("pids"));
    let text =
        format!("sleep 1000 &\necho $! >> {}\necho '{{\"status\":{{\"token\":\"x\"}}}}'", pids.display());
    write_program(&program, &format!("#!/bin/sh\n{text}\n"));
    let mut seen = Listener::with_kubeconfig(kubeconfig(&server, &User::Exec(program), &folder.0).unwrap());
    seen.until_services(&["web"]);
    assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        Command::new("kill").arg(pid).status().unwrap();
    }
}
