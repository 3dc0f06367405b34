//! The time after the scenes: what to try from another terminal, and a chart that shows what comes of it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use kernel::signal::Termination;
use playground::{Family, Load, Place, Stats, Work};

use crate::Show;
use crate::chart::chart;
use crate::folder;
use crate::screen::{Screen, thousands};

/// How often the chart is drawn anew.
const FRAME: Duration = Duration::from_secs(1);
/// Enough traffic for a chart; the machine stays quiet.
const PAUSE: Duration = Duration::from_millis(10);

/// Gives one pod of the Service another weight, by an annotation.
const WEIGHTS: &str =
    r"sed -i '/name: mysql-service/a\  annotations: {portway.io/weights: mysql-0=3}' manifests/mysql.yaml";

/// Runs a command in a place; without one it lists the places. A namespace without a name is found by the file that
/// holds it open.
const INSIDE: &str = r#"#!/bin/sh
# in PLACE COMMAND …
case "$1" in
{places}  *) sed -n 's/^  \([a-z0-9-]*\)) net.*/\1/p' "$0"; exit 2 ;;
esac
shift
exec nsenter --net="$net" "$@"
"#;

/// Ctrl-C is the expected end from now on.
static IS_EXPECTED: AtomicBool = AtomicBool::new(false);

/// Ends the process when it is asked to, from wherever it is. The kernel takes namespaces and programs with it.
pub(crate) fn end_on_signal(termination: Termination, folder: PathBuf) {
    thread::spawn(move || {
        let _ = termination.wait();
        let is_expected = IS_EXPECTED.load(Ordering::Relaxed);
        let _ = writeln!(std::io::stdout(), "\nGone: the nodes, the pods and the folder.");
        folder::remove(&folder);
        std::process::exit(if is_expected { 0 } else { 130 });
    });
}

/// Shows hints, then traffic, for ever.
pub(crate) fn until_interrupted(screen: &Screen, show: &Show<'_>) -> Result<()> {
    IS_EXPECTED.store(screen.failures() == 0, Ordering::Relaxed);
    let client = show.stage.place("client-a");
    let question = format!("{} mysql-service", client.address(Family::V4));
    let destination = show.portway.explain("a", &question)?.destination;
    write_scripts(show).context("cannot write the scripts for you to try")?;
    hints(screen, show, &destination.to_string().replace(':', "/"));
    let load = Load::start(client, destination, &Work { parallel: 2, pause: PAUSE, ..Work::default() })?;
    let mut drawn = 0;
    let mut before = load.so_far();
    loop {
        thread::sleep(FRAME);
        let now = load.so_far();
        if screen.is_terminal() {
            let frame = frame(show, &question, &before, &now);
            screen.redraw(drawn, &frame);
            drawn = frame.lines().count();
        }
        before = now;
    }
}

fn hints(screen: &Screen, show: &Show<'_>, device: &str) {
    let folder = show.portway.folder().display().to_string();
    screen.heading("Now you", "It all stays until Ctrl-C. From another terminal, as root:");
    screen.command(&format!("cd {folder}"));
    let pid = show.running.first().map_or(0, playground::Process::id);
    let tries = [
        ("mv spare/mysql-2.yaml manifests/".to_owned(), "a third pod; move it back, and it is gone"),
        (WEIGHTS.to_owned(), "mysql-0 weighs three times as much"),
        ("./portway-a status".to_owned(), "how portway on node a is doing"),
        (
            format!("./portway-a explain {} mysql-service", show.stage.place("client-a").address(Family::V4)),
            "where packets go, and why",
        ),
        (format!("./in client-a bash -c 'cat </dev/tcp/{device}'"), "one connection from a pod"),
        ("./in a nft list ruleset".to_owned(), "all rules of node a"),
        (format!("kill {pid}"), "portway on node a ends; connections go on"),
    ];
    for (command, comment) in tries {
        screen.reason(&format!("# {comment}"));
        screen.command(&command);
    }
    screen.plain("");
}

fn frame(show: &Show<'_>, question: &str, before: &Stats, now: &Stats) -> String {
    let explained = show.portway.explain("a", question);
    let note =
        if explained.is_ok() { "" } else { "\nportway on node a does not answer; its rules stay in place" };
    let landings = explained.map(|explained| explained.landings).unwrap_or_default();
    let since = |pod: &str| before.servers.get(pod).copied().unwrap_or(0);
    let seen = now.servers.iter().map(|(pod, count)| (pod.clone(), count - since(pod)));
    let seen = seen.filter(|(_, count)| *count > 0).collect();
    let (all, failed) = (thousands(now.ok + now.failed), thousands(now.failed));
    format!(
        "mysql-service in this second; {all} connections so far, {failed} failed{note}\n{}",
        chart(&landings, &seen)
    )
}

/// Writes `in PLACE COMMAND …` and `portway-NODE …`.
fn write_scripts(show: &Show<'_>) -> std::io::Result<()> {
    let folder = show.portway.folder();
    let case = |place: &Place| format!("  {}) net={} ;;\n", place.name(), place.namespace().path().display());
    let cases: String = show.stage.playground().places().map(case).collect();
    write_script(&folder.join("in"), &INSIDE.replace("{places}", &cases))?;
    for node in show.stage.playground().nodes() {
        let name = node.place().name();
        let (program, run_dir) = (show.portway.program().display(), show.portway.run_dir(name));
        let script = format!("#!/bin/sh\nexec '{program}' \"$@\" --run-dir '{}'\n", run_dir.display());
        write_script(&folder.join(format!("portway-{name}")), &script)?;
    }
    Ok(())
}

fn write_script(path: &Path, text: &str) -> std::io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
