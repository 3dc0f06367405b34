//! Logs: events with fields, on standard error. `RUST_LOG` chooses how much; by default warnings and worse, and of
//! `portway run` also what it does.
//!
//! Text is for somebody who waits for the answer: no times, no names of modules, and the same words as for everything else
//! that a command has to say (`warning: …`). JSON has times and modules.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::args::LogFormat;

/// Starts the log of this process, with events of this level and worse.
pub(super) fn start(format: LogFormat, has_colours: bool, level: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A process has one log. A second start, as in tests, leaves the first one in place.
    let _ = match format {
        LogFormat::Text => log.with_ansi(has_colours).event_format(Plain).try_init(),
        LogFormat::Json => log.json().with_ansi(false).try_init(),
    };
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
