//! Logs: events with fields, on standard error. `RUST_LOG` chooses how much; warnings and worse by default.
//!
//! Text is for somebody who waits for the answer: no times, no names of modules. JSON has both.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::args::LogFormat;

/// Starts the log of this process.
pub(super) fn start(format: LogFormat, has_colours: bool) {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A process has one log. A second start, as in tests, leaves the first one in place.
    let _ = match format {
        LogFormat::Text => log.with_ansi(has_colours).without_time().with_target(false).try_init(),
        LogFormat::Json => log.json().with_ansi(false).try_init(),
    };
}
