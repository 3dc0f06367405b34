//! `kube-proxy`, or `portway kube-proxy`: upstream's command line.
//!
//! In: upstream's flags, and its config file. Out: the same run as `portway run` has, with upstream's defaults; or what one of the
//! flags asks for instead: help, version, a written document, a cleanup, or the privileged part of a start.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent::Prepared;
use apiserver::KubeconfigFile;
use config::kubeproxy::{self, Asked, Before, Given, Loaded, Reload, Which};
use config::{Arrival, RelaySettings, Settings, Tuning, VanishedTcp};

use super::args::{ColorWhen, LogFormat};
use super::output::Output;
use super::run::{failure, over_fields, ports_of_document, server, until_the_end};
use super::said::{Failure, Said};
use super::{VERSION, cleanup, logging};

const NAME: &str = "kube-proxy";
/// Where node ports come from, unless an API server says otherwise.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;
/// Beside flags that name an API server.
const OR_DOCUMENT: &str = ", or with `clientConnection.kubeconfig` in the file of `--config`";

/// The words after the name, where upstream is called; `None` where it is not.
pub(super) fn among(arguments: &[OsString]) -> Option<Vec<String>> {
    let is_name = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == NAME);
    let skipped = match (arguments.first(), arguments.get(1)) {
        (Some(program), _) if is_name(program) => 1,
        (_, Some(word)) if word == NAME => 2,
        _ => return None,
    };
    Some(arguments[skipped..].iter().map(|word| word.to_string_lossy().into_owned()).collect())
}

/// Runs it.
pub(super) fn run(words: &[String]) -> ExitCode {
    let plain = Output::new(ColorWhen::Auto, LogFormat::Text);
    let given = match Given::parse(words) {
        Ok(given) => given,
        Err(error) => return plain.finish(&Err(Failure::usage(error))),
    };
    if let Some(text) = told_at_once(&given) {
        return plain.finish(&Ok(Said { text, ..Said::default() }));
    }
    let loaded = match kubeproxy::load(&given, given.text("config").map(Path::new), which()) {
        Ok(loaded) => loaded,
        Err(error) => return plain.finish(&Err(Failure::refused(error))),
    };
    let log = Asked::of(&loaded.document, kubeproxy::default_mode()).log;
    let format = if log.is_json { LogFormat::Json } else { LogFormat::Text };
    let output = Output::new(ColorWhen::Auto, format);
    logging::start(format, output.colours_errors(), log.level);
    // A cleanup is of every mode, so what there is to tell of the chosen one is beside the point.
    let warnings = if given.is_on("cleanup") { &given.warnings } else { &loaded.warnings };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    output.finish(&obey(&given, &loaded, &output))
}

fn told_at_once(given: &Given) -> Option<String> {
    if given.is_on("help") {
        return Some(ABOUT.to_owned() + &kubeproxy::help::flags());
    }
    let is_asked = given.value("version").is_some_and(|how| how == "raw") || given.is_on("version");
    is_asked.then(|| format!("Portway v{VERSION}\n"))
}

/// In upstream's order.
fn obey(given: &Given, loaded: &Loaded, output: &Output) -> Result<Said, Failure> {
    if let Some(file) = given.text("write-config-to") {
        return write(loaded, Path::new(file));
    }
    let run_dir = PathBuf::from(given.text("run-dir").unwrap_or("/run/portway"));
    if given.is_on("cleanup") {
        return cleanup::everything(&run_dir, |mode| kubeproxy::values_of(&loaded.document, mode));
    }
    if given.is_on("init-only") {
        return prepare(given, loaded);
    }
    until_the_end(&settings(given, loaded, run_dir)?, output, failure)
}

fn write(loaded: &Loaded, file: &Path) -> Result<Said, Failure> {
    let text =
        loaded.document.clone().decided(kubeproxy::default_mode()).to_yaml().map_err(Failure::refused)?;
    std::fs::write(file, text)
        .map_err(|error| Failure::refused(format!("`{}` cannot be written: {error}", file.display())))?;
    // Who has it written to a stream gets the document and nothing else.
    let is_stream = file.starts_with("/dev") || file.starts_with("/proc");
    let text =
        if is_stream { String::new() } else { format!("Wrote configuration to: {}\n", file.display()) };
    Ok(Said { text, ..Said::default() })
}

/// What needs more than the right to change the network. A setting that only tunes never fails it: on a node that is a container the
/// size of the connection tracker is read-only, and the init container would be restarted for ever.
fn prepare(given: &Given, loaded: &Loaded) -> Result<Said, Failure> {
    let asked = Asked::of(&loaded.document, kubeproxy::default_mode());
    let Prepared { written, warnings, errors } = agent::prepare(&tuning(given, &asked));
    for warning in &warnings {
        tracing::warn!("{warning}. Traffic works without it");
    }
    if !errors.is_empty() {
        return Err(Failure::refused(errors.join("; ")));
    }
    let mut lines: Vec<String> = written.iter().map(|what| format!("Set {what}.\n")).collect();
    lines.extend(asked.mode.mode.prepare(&asked.mode).map_err(Failure::refused)?);
    lines.push(prepared(warnings.len()));
    Ok(Said { text: lines.concat(), ..Said::default() })
}

fn which() -> Which {
    Which { usual: kubeproxy::default_mode(), forced: None }
}

fn prepared(failed: usize) -> String {
    match failed {
        0 => "All settings that need privileges are made.\n".to_owned(),
        _ => format!(
            "All settings that traffic needs are made; {failed} others could not be (see the warnings).\n"
        ),
    }
}

fn tuning(given: &Given, asked: &Asked) -> Tuning {
    Tuning { ip_forward: given.is_on("set-ip-forward"), ..asked.tuning }
}

fn settings(given: &Given, loaded: &Loaded, run_dir: PathBuf) -> Result<Settings, Failure> {
    let asked = Asked::of(&loaded.document, kubeproxy::default_mode());
    let (usual, tuning) = (Duration::from_secs(30), tuning(given, &asked));
    let ports = ports_of_document(&asked, &NODE_PORTS)?;
    // Beside a file the flag is passed over.
    let named =
        if given.text("config").is_some() { KubeconfigFile::of_document } else { KubeconfigFile::of_flag };
    Ok(Settings {
        origin: server(
            asked.kubeconfig.map(named),
            given.text("master").map(str::to_owned),
            &asked.config,
            OR_DOCUMENT,
        )?,
        mode: asked.mode,
        is_default_mode: loaded.document.mode.is_empty(),
        relay: RelaySettings { ports, udp_timeout: usual, drain_timeout: usual },
        config: asked.config,
        run_dir,
        pace: asked.pace,
        serve: asked.serve,
        tuning,
        vanished_tcp: VanishedTcp::default(),
        flags: given.shown(),
        document: loaded.document.clone(),
        arrival: arrival(given),
        reload: given.text("config").map(|file| {
            let before = Before { over: over_fields(&[]), ..Before::default() };
            Reload::new(loaded, Path::new(file), given, before, which(), logging::set_level)
        }),
    })
}

fn arrival(given: &Given) -> Arrival {
    match (given.is_on("take-over"), given.is_on("stand-by")) {
        (true, _) => Arrival::TakeOver,
        (false, true) => {
            Arrival::StandBy { for_process: given.value("successor").and_then(|text| text.parse().ok()) }
        }
        (false, false) => Arrival::Refuse,
    }
}

const ABOUT: &str = "\
Makes the virtual addresses of Kubernetes Services work on this node, with upstream kube-proxy's flags and config file.
`portway --help` shows what else this program can do.

Usage: kube-proxy [flags]

Flags:
";

#[cfg(test)]
mod tests {
    use apiserver::Access;

    use super::*;
    use config::Origin;

    fn among_words(line: &[&str]) -> Option<Vec<String>> {
        among(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn upstream_is_called_by_its_name_or_as_a_command() {
        let words = Some(vec!["--v=1".to_owned()]);
        assert_eq!(among_words(&["/usr/local/bin/kube-proxy", "--v=1"]), words);
        assert_eq!(among_words(&["portway", "kube-proxy", "--v=1"]), words);
        assert_eq!(among_words(&["portway", "run", "kube-proxy"]), None);
        assert_eq!(among_words(&["portway"]), None);
    }

    #[test]
    fn a_cleanup_leaves_alone_what_the_document_excludes_in_whatever_mode() {
        let words = ["--cleanup".to_owned(), "--ipvs-exclude-cidrs=10.10.0.0/16,fd00::/64".to_owned()];
        let given = Given::parse(&words).expect("they are flags");
        let loaded = kubeproxy::load(&given, None, which()).expect("it is right");
        let own = kubeproxy::values_of(&loaded.document, dataplane::ipvs::MODE);
        let nets: Vec<&str> = own.list("ipvs-exclude-cidrs").collect();
        assert_eq!(nets, ["10.10.0.0/16", "fd00::/64"]);
    }

    #[test]
    fn a_mode_that_nobody_named_is_the_default_one() {
        for (mode, is_default) in [("", true), ("--proxy-mode=", true), ("--proxy-mode=iptables", false)] {
            let words: Vec<String> = ["--kubeconfig=/k", mode]
                .into_iter()
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            let given = Given::parse(&words).expect("they are flags");
            let loaded = kubeproxy::load(&given, None, which()).expect("it is right");
            let settings = settings(&given, &loaded, "r".into()).expect("a server is named");
            assert_eq!(
                (settings.mode.mode, settings.is_default_mode),
                (kubeproxy::default_mode(), is_default),
                "{mode}"
            );
        }
    }

    #[test]
    fn a_kubeconfig_is_known_with_whoever_names_it() {
        let file = std::env::temp_dir().join(format!("portway-kube-proxy-{}.yaml", std::process::id()));
        let document = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                        clientConnection: {kubeconfig: /k}\n";
        std::fs::write(&file, document).expect("the folder is there");
        let by_file = format!("--config={}", file.display());
        for (words, named) in [
            (vec!["--kubeconfig=/k".to_owned()], KubeconfigFile::of_flag("/k".into())),
            (vec![by_file, "--kubeconfig=/other".to_owned()], KubeconfigFile::of_document("/k".into())),
        ] {
            let given = Given::parse(&words).expect("they are flags");
            let loaded =
                kubeproxy::load(&given, given.text("config").map(Path::new), which()).expect("right");
            let Ok(Settings { origin: Origin::Server(server), .. }) = settings(&given, &loaded, "r".into())
            else {
                panic!("{words:?} name a server");
            };
            assert_eq!(server.access, Access::Kubeconfig { file: named, master: None }, "{words:?}");
        }
        std::fs::remove_file(&file).expect("it is ours");
    }
}
