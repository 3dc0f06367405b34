//! Everything that the loop can ever want.

use std::net::IpAddr;
use std::time::Duration;

use apiserver::Announcement;
use dataplane::Scope;
use observe::doctor::{FindingStatus, Sample};
use observe::question::Answer;

use super::errands::Errand;
use super::event::Reply;
use crate::takeover::Successor;

/// Something to do.
#[derive(Debug)]
pub enum Effect {
    /// Bring the kernel to the table; then tell [`super::Event::Synced`].
    Sync(Scope),
    /// Delete what waited; then tell [`super::Event::Settled`].
    Settle,
    /// Glance whether everything was taken away; then tell [`super::Event::Glanced`].
    Glance,
    /// Look whether Services are served by what others, or an earlier life, left; then tell [`super::Event::Found`].
    Look,
    /// Check the preconditions of this host; then tell [`super::Event::Examined`]. Nothing waits for it.
    Examine(Box<Sample>),
    /// Do this beside the rules; then tell [`super::Event::Ran`].
    Run(Errand),
    /// Ask the API server whether there is a Node of this name; then tell [`super::Event::NodeAnswered`].
    AskForNode(Box<str>),
    /// Come back with [`super::Event::Tick`] at this time since the start, unless something happens before. It takes the
    /// place of any earlier wish.
    WakeAt(Duration),
    /// Answer somebody.
    Answer(Reply, Answer),
    /// Say this to whoever started us.
    Tell(String),
    /// Write this to the log.
    Log(Line),
    /// Say this to the cluster, as a Kubernetes Event.
    Announce(Announcement),
    /// Answer load balancers as the table says now: the kernel does what it says.
    AnswerBalancers,
    /// End, and leave the rules in place.
    Exit,
    /// Give way to another portway, and stand by.
    HandOver(Successor),
    /// End as a failure, so that whoever started us starts us anew; the rules stay in place.
    Fail {
        /// What is no longer heard of.
        feed: &'static str,
    },
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A sync was done.
    Synced {
        /// How many service ports there are.
        service_ports: usize,
        /// How many of them are new, different or gone since the last sync.
        changed: usize,
        /// How many operations were written.
        operations: usize,
        /// How long it took.
        took: Duration,
        /// Whether the kernel was read and compared.
        full: bool,
    },
    /// Somebody else had changed our tables, and they were put right.
    Repaired {
        /// How many operations that took.
        operations: usize,
        /// Who it was, where the kernel told.
        by: Option<String>,
    },
    /// A program comes back again and again.
    War {
        /// Its name.
        program: String,
    },
    /// Ours took the place of this table.
    Replaced(String),
    /// This waits until all of the source can be read.
    Waits(String),
    /// Flows were forgotten that led nowhere.
    Forgot {
        /// How many.
        flows: u64,
    },
    /// Connections to an endpoint that has vanished were ended.
    Ended {
        /// Its service port.
        service_port: String,
        /// Its address and port.
        endpoint: String,
        /// How many.
        connections: u64,
    },
    /// These rules of another mode, upstream's or ours, were removed, ours being in place.
    TookOver(String),
    /// This is in place and should not be.
    Stays(String),
    /// A setting of the kernel has changed what the rules do.
    Setting(String),
    /// Something beside the rules could not be done.
    ErrandFailed {
        /// What.
        doing: &'static str,
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// Another portway goes on in our place.
    HandingOver {
        /// Its process.
        process: u32,
    },
    /// What waited was deleted.
    Settled {
        /// How many operations were written.
        operations: usize,
    },
    /// Something is wrong with a service port that is in force.
    Warned {
        /// Which.
        service_port: String,
        /// What.
        reason: String,
    },
    /// The kernel refused one service port; all others are in force.
    Refused {
        /// Which.
        service_port: String,
        /// Why.
        reason: String,
    },
    /// A sync failed; the last good rules are in force.
    Failed {
        /// None went well yet: what the kernel held at the start is in force.
        is_first: bool,
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// Addresses could not be given to Services; what was in force stays so.
    StoreFailed {
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The state folder cannot be written: these Services wait for a new address or port, and all others are served.
    AllocationWaits {
        /// Who waits.
        services: Vec<String>,
        /// Why, and the way out.
        reason: String,
    },
    /// The state folder can be written again.
    AllocationResumed,
    /// Nobody can be answered at one of our ports.
    NotListening {
        /// Which.
        listener: String,
        /// Why.
        reason: String,
    },
    /// Where nobody could be answered, somebody can now.
    Listening(String),
    /// Something is wrong with a file, or with an object of which nothing can be used.
    Problem(String),
    /// More objects have something wrong than are named.
    MoreProblems,
    /// Something does not work with the API server; what it told before stays in force.
    ServerTrouble {
        /// With these objects.
        of: &'static str,
        /// What, and the way out.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The API server answers again.
    ServerAnswers {
        /// About these objects.
        of: &'static str,
    },
    /// The API server was asked for our Node for the first time, and has none of this name.
    NoNode(String),
    /// Our Node, which the API server told before, takes clients of load balancers again, or no longer.
    NodeTakesClients {
        /// Its name.
        name: String,
        /// Whether it does.
        is_so: bool,
    },
    /// Another address is the primary one of this node: node ports answer there now.
    PrimaryAddress {
        /// The one until now.
        old: IpAddr,
        /// The new one; `None` where the node has no address of this family any more.
        new: Option<IpAddr>,
    },
    /// The source was read for the first time, and so many of its objects have something wrong.
    Reports(usize),
    /// A precondition of this host does not hold, or may not.
    Found(FindingStatus),
    /// It holds again.
    FindingOver(FindingStatus),
    /// The process ends because of this signal.
    Stopping(&'static str),
}
