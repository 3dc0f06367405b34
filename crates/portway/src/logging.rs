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
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;

use super::args::LogFormat;

/// Changes how much is logged, once the log was started.
static FILTER: OnceLock<Box<dyn Fn(EnvFilter) + Send + Sync>> = OnceLock::new();

/// Starts the log of this process, with events of this level and worse.
pub(super) fn start(format: LogFormat, has_colours: bool, level: LevelFilter) {
    // A line that cannot be written is lost. Telling so would need standard error too, and panic: a terminal that is closed, or a reader
    // that is gone, must not end the process.
    let log = tracing_subscriber::fmt().with_env_filter(filter(level)).with_writer(std::io::stderr);
    let log = log.log_internal_errors(false);
    // A process has one log. A second start, as in tests, leaves the first one in place.
    let _ = match format {
        LogFormat::Text => {
            let log = log.with_ansi(has_colours).event_format(Plain).with_filter_reloading();
            keep(log.reload_handle());
            log.try_init()
        }
        LogFormat::Json => {
            let log = log.json().with_ansi(false).with_filter_reloading();
            keep(log.reload_handle());
            log.try_init()
        }
    };
}

/// Logs events of this level and worse from now on, and what `RUST_LOG` asks for.
pub(super) fn set_level(level: LevelFilter) {
    if let Some(set) = FILTER.get() {
        set(filter(level));
    }
}

/// The variable that chooses how much is logged, whatever else says something about it.
pub(super) const ENVIRONMENT: &str = EnvFilter::DEFAULT_ENV;

/// Does the environment choose how much is logged?
pub(super) fn is_chosen_by_environment() -> bool {
    std::env::var(ENVIRONMENT).is_ok_and(|asked| !asked.is_empty())
}

/// Libraries whose lines say again, without an address or a cause, what we say in our own words; or that tell of each file of a folder.
const FOREIGN: &str = "notify=off,kube=off,kube_client=off,hyper=off,hyper_util=off,tower=off,rustls=off";

fn filter(level: LevelFilter) -> EnvFilter {
    let asked = std::env::var(ENVIRONMENT).unwrap_or_default();
    let asked = if asked.is_empty() { level.to_string() } else { asked };
    // Of two that speak of the same, the later one counts.
    EnvFilter::builder().parse_lossy(format!("{FOREIGN},{asked}"))
}

fn keep<S: 'static>(handle: Handle<EnvFilter, S>) {
    // A log that is gone has no filter to change.
    let _ = FILTER.set(Box::new(move |filter| drop(handle.reload(filter))));
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
