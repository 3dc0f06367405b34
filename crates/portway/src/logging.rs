//! Logs: events with fields, on standard error. `RUST_LOG` chooses how much; by default warnings and worse, and of
//! `portway run` also what it does.
//!
//! Text is for somebody who waits for the answer: no times, no names of modules, and the same words as for everything else
//! that a command has to say (`warning: …`). JSON has times and modules.
//!
//! How much is logged may change while the process lives: a config file may say so.

use std::fmt;
use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use super::args::LogFormat;

/// Changes how much is logged, once the log was started.
static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Starts the log of this process, with events of this level and worse.
pub(super) fn start(format: LogFormat, has_colours: bool, level: LevelFilter) {
    let Chosen { targets, ignored } = filter(&asked(), level);
    let (targets, handle) = reload::Layer::new(targets);
    // A line that cannot be written is lost. Telling so would need standard error too, and panic: a terminal that is closed, or a reader
    // that is gone, must not end the process.
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let log = match format {
        LogFormat::Text => log.with_ansi(has_colours).event_format(Plain).boxed(),
        LogFormat::Json => log.json().with_ansi(false).boxed(),
    };
    // A process has one log. A second start, as in tests, leaves the first one in place.
    if tracing_subscriber::registry().with(targets).with(log).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
    for part in ignored {
        tracing::warn!("`{part}` in {ENVIRONMENT} is ignored: write a level, or MODULE=LEVEL");
    }
}

/// Logs events of this level and worse from now on, and what `RUST_LOG` asks for.
pub(super) fn set_level(level: LevelFilter) {
    if let Some(handle) = FILTER.get() {
        // A log that is gone has no filter to change.
        let _ = handle.reload(filter(&asked(), level).targets);
    }
}

/// The variable that chooses how much is logged, whatever else says something about it.
pub(super) const ENVIRONMENT: &str = "RUST_LOG";

/// Does the environment choose how much is logged?
pub(super) fn is_chosen_by_environment() -> bool {
    !asked().is_empty()
}

fn asked() -> String {
    std::env::var(ENVIRONMENT).unwrap_or_default()
}

/// Libraries whose lines say again, without an address or a cause, what we say in our own words; or that tell of each file of a folder.
const FOREIGN: [&str; 7] = ["notify", "kube", "kube_client", "hyper", "hyper_util", "tower", "rustls"];

/// The crates that are meant by `portway`.
const PORTWAY: [&str; 5] = ["agent", "config", "observe", "portway", "standalone"];

/// What is logged.
struct Chosen {
    targets: Targets,
    /// What of the wish is not understood.
    ignored: Vec<String>,
}

/// `asked` is a list such as `info,apiserver=debug`: of two parts that speak of the same, the later one counts. Where nothing of it is
/// understood, the level counts.
fn filter(asked: &str, level: LevelFilter) -> Chosen {
    // What is ignored is told from here, however little is logged.
    let mut targets = Targets::new().with_target(module_path!(), LevelFilter::WARN);
    targets = targets.with_targets(FOREIGN.map(|name| (name, LevelFilter::OFF)));
    let (mut ignored, mut is_chosen) = (Vec::new(), false);
    for part in asked.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Ok(wish) = part.parse::<Targets>() else {
            ignored.push(part.to_owned());
            continue;
        };
        is_chosen = true;
        if let Some(level) = wish.default_level() {
            targets = targets.with_default(level);
        }
        for (name, level) in &wish {
            let names = if name == "portway" { PORTWAY.to_vec() } else { vec![name] };
            targets = targets.with_targets(names.into_iter().map(|name| (name, level)));
        }
    }
    if !is_chosen {
        targets = targets.with_default(level);
    }
    Chosen { targets, ignored }
}

/// `warning: message field=value`.
#[derive(Debug)]
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (word, colour) = word(*event.metadata().level());
        if writer.has_ansi_escapes() {
            write!(writer, "\x1b[{colour}m{word}\x1b[0m: ")?;
        } else {
            write!(writer, "{word}: ")?;
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The word for a level, and its colour.
fn word(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::ERROR => ("error", "31"),
        Level::WARN => ("warning", "33"),
        Level::INFO => ("info", "32"),
        Level::DEBUG => ("debug", "2"),
        Level::TRACE => ("trace", "2"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_log_chooses_by_level_and_by_module_and_the_later_part_counts() {
        let chosen =
            filter("info,apiserver=debug,kernel=off,apiserver::follow=trace,info", LevelFilter::WARN);
        let shows = |module: &str, level| chosen.targets.would_enable(module, &level);
        assert!(shows("dataplane", Level::INFO) && !shows("dataplane", Level::DEBUG));
        assert!(shows("apiserver::door", Level::DEBUG) && !shows("apiserver::door", Level::TRACE));
        assert!(shows("apiserver::follow", Level::TRACE));
        assert!(!shows("kernel", Level::ERROR));
        assert!(!shows("hyper_util", Level::ERROR), "libraries are silent unless somebody asks for them");
        assert!(filter("hyper=debug", LevelFilter::WARN).targets.would_enable("hyper", &Level::DEBUG));
    }

    #[test]
    fn without_rust_log_the_level_counts() {
        let chosen = filter("", LevelFilter::INFO);
        assert!(chosen.targets.would_enable("agent", &Level::INFO));
        assert!(!chosen.targets.would_enable("agent", &Level::DEBUG));
    }

    #[test]
    fn portway_means_all_crates_of_the_program() {
        let chosen = filter("portway=debug", LevelFilter::INFO);
        for module in PORTWAY {
            assert!(chosen.targets.would_enable(module, &Level::DEBUG), "{module}");
        }
        assert!(!chosen.targets.would_enable("kernel", &Level::ERROR));
    }

    #[test]
    fn what_is_not_understood_is_named_and_the_rest_counts() {
        let chosen = filter("agent=loud,debug", LevelFilter::WARN);
        assert_eq!(chosen.ignored, ["agent=loud"]);
        assert!(chosen.targets.would_enable("agent", &Level::DEBUG));
    }

    #[test]
    fn a_wish_of_which_nothing_is_understood_silences_nobody() {
        let chosen = filter("agent=loud", LevelFilter::INFO);
        assert!(chosen.targets.would_enable("dataplane", &Level::INFO));
        let chosen = filter("agent=off,kernel=loud", LevelFilter::INFO);
        assert_eq!(chosen.ignored, ["kernel=loud"]);
        assert!(chosen.targets.would_enable(module_path!(), &Level::WARN), "this is said all the same");
    }
}
