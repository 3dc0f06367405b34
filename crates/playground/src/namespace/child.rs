//! Starts programs inside a namespace, so that none outlives this process.
//!
//! The kernel's "kill me when my parent dies" means the parent *thread*. So one thread, which lives as long
//! as the process, is the parent of all of them.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use kernel::signal::end_with_parent;
use rustix::process::{Pid, Signal, kill_process};

use super::Namespace;

struct Order {
    namespace: Namespace,
    command: Command,
    answer: Sender<io::Result<Child>>,
}

pub(super) fn spawn(namespace: Namespace, command: Command) -> io::Result<Child> {
    let (answer, born) = channel();
    parent()?.send(Order { namespace, command, answer }).map_err(|_| gone())?;
    born.recv().map_err(|_| gone())?
}

/// Asks a program to end (SIGTERM). One that has been waited for is left alone: its number may be another's.
pub fn terminate(child: &mut Child) -> io::Result<()> {
    match child.try_wait()? {
        Some(_) => Ok(()),
        None => Ok(kill_process(Pid::from_child(child), Signal::TERM)?),
    }
}

/// Drops files and sockets at a moment when none of our programs is being started. Between fork and exec a
/// program holds a copy of each open file, so a port closed just then stays taken for a millisecond more.
pub fn close<T>(files: T) {
    let _nothing_starts = starting();
    drop(files);
}

/// Held while a program is being started. It guards no data, so a panic has left nothing half done.
fn starting() -> MutexGuard<'static, ()> {
    static STARTING: Mutex<()> = Mutex::new(());
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one thread that all children belong to.
fn parent() -> io::Result<Sender<Order>> {
    static PARENT: OnceLock<Sender<Order>> = OnceLock::new();
    if let Some(parent) = PARENT.get() {
        return Ok(parent.clone());
    }
    let (sender, orders) = channel();
    thread::Builder::new().name("parent".into()).spawn(move || serve(&orders))?;
    // Two callers may race; the loser's thread ends with its channel, before any order reached it.
    Ok(PARENT.get_or_init(|| sender).clone())
}

fn serve(orders: &Receiver<Order>) {
    for Order { namespace, mut command, answer } in orders {
        let born = namespace.enter().and_then(|()| {
            let _until_it_runs = starting();
            end_with_parent(&mut command).spawn()
        });
        // Nobody listens only if the caller has panicked; the child then ends with this process.
        let _ = answer.send(born);
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts programs has ended")
}
