//! Why `portway run` did not start, or ended by itself.

use std::io;
use std::path::PathBuf;

use standalone::ipam::StoreError;
use standalone::manifests::SourceError;

/// Where not said otherwise, nothing was written to the kernel, and trying again helps once what the sentence names is put
/// right.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// This kernel cannot do it, or not for us.
    #[error("portway cannot work with this kernel: {0}")]
    Kernel(String),
    /// Rules of another program stand before ours, in tables into which we may not look.
    #[error("portway cannot work with this kernel: {0}")]
    Hidden(dataplane::HiddenRules),
    /// Another portway runs on this node.
    #[error(
        "another portway runs on this node (process {pid}, which holds {}): stop it first, go on in its place with \
         `--take-over`, wait for its end with `--stand-by`, or give this one a folder of its own with `--run-dir` if it \
         lives in another network namespace", file.display()
    )]
    Busy {
        /// Its process.
        pid: String,
        /// The file that it holds.
        file: PathBuf,
    },
    /// Another portway, with another folder, writes to the same kernel tables. Trying again helps when it is gone.
    #[error(
        "another portway already keeps this network namespace in step, from another `--run-dir` than {}: stop it first, go \
         on in its place with `--take-over`, or wait for its end with `--stand-by`",
        run_dir.display()
    )]
    NamespaceBusy {
        /// Our own folder.
        run_dir: PathBuf,
    },
    /// The other portway was asked to give way and did not. Its rules, and it, are as they were.
    #[error(
        "the portway on this node was asked to hand over and did not: {reason}. It goes on; stop it, then start this one"
    )]
    NotHandedOver {
        /// What went wrong.
        reason: String,
    },
    /// The folder of the lock and of the socket cannot be used.
    #[error("cannot {action} {}: {source}. Repair the folder, or choose another one with `--run-dir`", path.display())]
    RunDir {
        /// What we were doing.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A port of ours cannot be had, and `--bind-address-hard-fail` says to end then.
    #[error(
        "{listener} cannot be opened: {reason}. Without `--bind-address-hard-fail` it would be tried again"
    )]
    NotListening {
        /// Which.
        listener: String,
        /// Why.
        reason: String,
    },
    /// The files cannot be read or followed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// There is no way to an API server.
    #[error(transparent)]
    Access(#[from] apiserver::AccessError),
    /// The store of addresses cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread of ours is gone, which is a mistake in this program. The rules are in place; starting anew helps.
    #[error(
        "the thread that listens to {feed} has ended, so this portway ends too: start it anew. The rules are in place"
    )]
    FeedEnded {
        /// What is no longer heard of.
        feed: &'static str,
    },
    /// A thread could not be started, or signals not be heard.
    #[error("cannot {action}: {source}")]
    System {
        /// What we were doing.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl From<dataplane::OpenError> for RunError {
    fn from(error: dataplane::OpenError) -> Self {
        match error {
            dataplane::OpenError::Host(reason) => Self::Kernel(reason),
            dataplane::OpenError::Hidden(hidden) => Self::Hidden(hidden),
            dataplane::OpenError::System { action, source } => Self::System { action, source },
        }
    }
}
