//! The thin shell around the loop: opens everything, starts the feeds, hands events to the step function, carries out what it wants.
//!
//! Everything that needs a clock, a kernel or a thread is here; everything that decides is in `reconciler`.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | a run, from its beginning to its end |
//! | `builder` | the parts of a run, one function each |
//! | `outside`, `feeds` | what is listened to |
//! | `obey`, `beside` | carry out what the loop wants |
//! | `carrier` | the relay |

mod beside;
mod builder;
mod carrier;
mod clock;
mod crier;
mod feeds;
mod http;
mod log;
mod obey;
mod origin;
mod outside;
mod passing;
mod tuning;

pub use tuning::{Prepared, prepare};

use std::io;
use std::sync::mpsc::Receiver;

use config::Settings;

use crate::error::RunError;
use crate::reconciler::Event;
use crate::takeover::{Locks, Successor};
use builder::{Builder, Running};
use carrier::Carrier;

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// The process was asked to end.
    Stopped,
    /// Another portway goes on, once this is dropped.
    HandedOver(Successor),
}

/// Makes this kernel follow the source until the process is asked to end. The rules stay in place. `tell` says a line to
/// whoever started us.
///
/// The calling thread must be the only one: signals are blocked in it and in those that it starts.
pub fn run(settings: &Settings, tell: &mut dyn FnMut(&str)) -> Result<End, RunError> {
    let builder = Builder::open(settings)?;
    let Some((locks, inheritance)) = builder.take_locks()? else { return Ok(End::Stopped) };
    let Running { shell, events, carrier } = builder.start(&locks, inheritance)?;
    let (end, remote) = shell.serve(&events, tell);
    // A successor listens where we did.
    remote.close();
    let end = end?;
    // Who asks now hears that nobody is there, either way; without the file it looks so too.
    let _ = std::fs::remove_file(observe::socket::path(locks.run_dir.path()));
    finish(end, locks, &carrier, &events).map_err(system("hear signals"))
}

/// Connections that this process carries come to their end; a successor does not have to wait for that.
fn finish(end: End, locks: Locks, carrier: &Carrier, events: &Receiver<Event>) -> io::Result<End> {
    match end {
        End::Stopped => {
            if let Some(successor) = carrier.end(events)? {
                hand_over(successor, locks, carrier)?;
            }
            Ok(End::Stopped)
        }
        End::HandedOver(successor) if carrier.is_idle() => Ok(End::HandedOver(successor)),
        End::HandedOver(successor) => hand_over(successor, locks, carrier).map(End::HandedOver),
    }
}

fn hand_over(mut successor: Successor, locks: Locks, carrier: &Carrier) -> io::Result<Successor> {
    if let Some(line) = successor.take_line() {
        carrier.hand_over(&line);
        locks.let_go();
        carrier.serve_until_relieved(&line);
    }
    carrier.finish()?;
    Ok(successor)
}

fn system(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::System { action, source }
}
